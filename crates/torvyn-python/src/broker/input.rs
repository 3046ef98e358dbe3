//! The end of an edge that reads.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use torvyn_broker::{BatchId, Input, InputOptions, OnEnd, ReadMessages, SeenBatches};

use crate::broker::NatsClient;
use crate::flow::edge_log::{PyBell, PyEdgeLog};
use crate::flow::iterator::NodeHandle;

/// Writer, series, run, partition, number.
type EndTuple = (u32, String, String, u32, u64);

fn end_tuple(batch: &BatchId) -> EndTuple {
    (batch.writer, batch.series.clone(), batch.generation.clone(), batch.partition, batch.first)
}

#[pyclass(frozen, module = "torvyn._native")]
pub struct NatsInput(Arc<Input>);

impl Drop for NatsInput {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// What `saved` has returned.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct SavedBatches {
    /// By writer and partition, and by series: first and last numbers, in order.
    series: HashMap<String, Py<PyDict>>,
    #[pyo3(default)]
    forgotten: u64,
    /// By writer and partition, or by writer.
    #[pyo3(default)]
    starts: HashMap<String, u64>,
}

/// A writer and a partition, or a writer.
fn source(text: &str) -> Option<(u32, Option<u32>)> {
    match text.split_once('.') {
        Some((writer, partition)) => Some((writer.parse().ok()?, Some(partition.parse().ok()?))),
        None => Some((text.parse().ok()?, None)),
    }
}

fn restored(py: Python<'_>, saved: Option<SavedBatches>) -> PyResult<SeenBatches> {
    let mut seen = SeenBatches::default();
    let Some(saved) = saved else { return Ok(seen) };
    for (whose, known) in saved.series {
        let Some((writer, Some(partition))) = source(&whose) else { continue };
        for (series, ranges) in known.bind(py).iter() {
            let ranges: Vec<[u64; 2]> = ranges.extract()?;
            let ranges = ranges.into_iter().map(|[first, last]| (first, last)).collect();
            seen.restore(writer, partition, series.extract()?, ranges);
        }
    }
    seen.forgotten = saved.forgotten;
    for (whose, start) in saved.starts {
        match source(&whose) {
            Some((writer, Some(partition))) => _ = seen.known_starts.insert((writer, partition), start),
            Some((writer, None)) => _ = seen.ignored_starts.insert(writer, start),
            None => {}
        }
    }
    Ok(seen)
}

#[pymethods]
impl NatsInput {
    /// `on_end` is called when a writer has ended, and answers whether the run is over; `on_damage` when a message
    /// cannot be read, and `on_refusal` when none can. They must not refer to what holds this object.
    // Arguments of one call in Python.
    #[allow(clippy::too_many_arguments)]
    #[new]
    #[pyo3(signature = (log, owner, *, position, seen, generation, number, ignores_start, on_end, on_damage, on_refusal))]
    fn new(
        py: Python<'_>,
        log: &PyEdgeLog,
        owner: &PyBell,
        position: u64,
        seen: Option<SavedBatches>,
        generation: String,
        number: u64,
        ignores_start: bool,
        on_end: Py<PyAny>,
        on_damage: Py<PyAny>,
        on_refusal: Py<PyAny>,
    ) -> PyResult<Self> {
        let mut read = ReadMessages::new(position, restored(py, seen)?, generation);
        read.seen.ignores_start = ignores_start;
        let callbacks = Box::new(Callbacks { on_end, on_damage, on_refusal });
        Ok(Self(Input::new(read, log.0.clone(), owner.0.clone(), number, callbacks)))
    }

    fn attach(&self, node: &NodeHandle) {
        self.0.attach(Box::new(node.clone()));
    }

    /// Begins to read these subjects of the stream that was made at that time.
    fn start(&self, client: &NatsClient, stream: String, created: String, subjects: Vec<String>) {
        self.0.start(client.0.clone(), InputOptions { stream, created, subjects });
    }

    /// Whether everything was read that the stream has.
    #[getter]
    fn is_caught_up(&self) -> bool {
        self.0.is_caught_up()
    }

    /// A writer has ended, and the message that says so is gone from the stream.
    fn note_lost_end(&self, writer: u32, series: String, run: String, partition: u32, first: u64) {
        self.0.note_lost_end(&BatchId { writer, series, generation: run, partition, first, elements: 0 });
    }

    fn stop(&self) {
        self.0.stop();
    }

    /// The run is over: the reader ends when it has emitted what waits.
    fn finish(&self) {
        self.0.finish();
    }

    /// All elements up to this one need never be read again.
    fn settle(&self, position: u64) {
        self.0.read().settle(position);
    }

    /// What became settled: ends, and the last messages of partitions.
    fn advance(&self, is_over: bool) -> (Vec<EndTuple>, Vec<(u32, u64)>) {
        let advance = self.0.read().advance(is_over);
        (advance.ends.iter().map(end_tuple).collect(), advance.touched)
    }

    #[getter]
    fn position(&self) -> u64 {
        self.0.read().position
    }

    #[getter]
    fn done(&self) -> u64 {
        self.0.read().done
    }

    #[getter]
    fn changes(&self) -> u64 {
        self.0.read().changes
    }

    /// Elements received, those of them that another start of the writer has written, those that came again, and those
    /// in damaged messages.
    #[getter]
    fn counts(&self) -> (u64, u64, u64, u64) {
        let read = self.0.read();
        (read.received, read.from_before, read.repeated, read.corrupt)
    }

    /// The batches that are settled, for the entry of the segment.
    fn saved<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let seen = self.0.read().saved_seen.clone();
        let (all, starts, made) = (PyDict::new(py), PyDict::new(py), PyDict::new(py));
        for ((writer, partition), known) in seen.series {
            let series = PyDict::new(py);
            for (name, ranges) in known {
                let ranges: Vec<[u64; 2]> = ranges.into_iter().map(|(first, last)| [first, last]).collect();
                series.set_item(name, ranges)?;
            }
            all.set_item(format!("{writer}.{partition}"), series)?;
        }
        for ((writer, partition), start) in seen.known_starts {
            starts.set_item(format!("{writer}.{partition}"), start)?;
        }
        for (writer, start) in seen.ignored_starts {
            starts.set_item(writer.to_string(), start)?;
        }
        made.set_item("series", all)?;
        made.set_item("forgotten", seen.forgotten)?;
        made.set_item("starts", starts)?;
        Ok(made)
    }

    /// How many elements each series of a writer has had.
    fn note_sent(&self, writer: u32, partition: u32, sent: HashMap<String, u64>) {
        let mut read = self.0.read();
        read.seen.note_sent(writer, partition, &sent);
        read.saved_seen.note_sent(writer, partition, &sent);
    }

    /// How many numbers have not come although later ones have; of one series, from the number `first` of each partition
    /// on.
    #[pyo3(signature = (series=None, first=None))]
    fn missing(&self, series: Option<&str>, first: Option<HashMap<u32, u64>>) -> u64 {
        let first = first.unwrap_or_default();
        let from = |partition| first.get(&partition).copied().unwrap_or(0);
        self.0.read().seen.missing(series.map(|series| (series, &from as &dyn Fn(u32) -> u64)))
    }
}

struct Callbacks {
    on_end: Py<PyAny>,
    on_damage: Py<PyAny>,
    on_refusal: Py<PyAny>,
}

impl OnEnd for Callbacks {
    fn ended(&self, batch: &BatchId) -> bool {
        Python::attach(|py| {
            let called = self.on_end.bind(py).call1(end_tuple(batch)).and_then(|over| over.is_truthy());
            called.unwrap_or_else(|error| {
                error.write_unraisable(py, None);
                false
            })
        })
    }

    fn damaged(&self, sequence: u64, reason: String) {
        Python::attach(|py| {
            if let Err(error) = self.on_damage.bind(py).call1((sequence, reason)) {
                error.write_unraisable(py, None);
            }
        });
    }

    fn refused(&self, reason: String) {
        Python::attach(|py| {
            if let Err(error) = self.on_refusal.bind(py).call1((reason,)) {
                error.write_unraisable(py, None);
            }
        });
    }
}
