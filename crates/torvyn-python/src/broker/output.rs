//! The end of an edge that publishes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use torvyn_broker::{EdgeNames, Identity, Message, Output, OutputQueue, Published};

use crate::broker::NatsClient;
use crate::flow::edge_log::{PyBell, PyEdgeLog};
use crate::flow::iterator::NodeHandle;
use crate::interpreter;

/// Subject, id, body.
type Owed = (String, String, Py<PyBytes>);

#[pyclass(frozen, module = "torvyn._native")]
pub struct NatsOutput(Arc<Output>);

impl Drop for NatsOutput {
    fn drop(&mut self) {
        self.0.stop();
    }
}

#[pymethods]
impl NatsOutput {
    /// `takes`: its task takes what waits in the log, and sends it at once. Otherwise `take_all` and `release` do.
    // Arguments of one call in Python.
    #[allow(clippy::too_many_arguments)]
    #[new]
    #[pyo3(signature = (client, log, owner, *, takes, prefix, partitions, writer, series, generation, run, next, outbox))]
    fn new(
        client: &NatsClient,
        log: &PyEdgeLog,
        owner: &PyBell,
        takes: bool,
        prefix: String,
        partitions: u32,
        writer: u32,
        series: String,
        generation: String,
        run: String,
        next: BTreeMap<u32, u64>,
        outbox: Vec<(String, String, Vec<u8>)>,
    ) -> Self {
        let names = EdgeNames { prefix, partitions };
        let identity = Identity { writer, series, generation, run };
        let mut queue = OutputQueue::new(names, identity, next, !takes);
        for (subject, id, body) in outbox {
            queue.add_owed(Message { subject: subject.into(), id, body: Bytes::from(body) });
        }
        Self(Output::new(queue, log.0.clone(), owner.0.clone(), takes, client.0.clone()))
    }

    fn attach(&self, node: &NodeHandle) {
        self.0.attach(Box::new(node.clone()));
    }

    fn take_all(&self) {
        self.0.take_all();
    }

    /// Says that the stream has ended, behind everything that waits.
    fn add_end(&self) {
        self.0.add_end();
    }

    /// Everything that waits now may be sent.
    fn release(&self) {
        self.0.release();
    }

    /// Waits until everything that may be sent is confirmed: `done`, or why it is not, `full`, `away` or `refused`, with
    /// what the server says.
    fn wait(&self, py: Python<'_>, timeout_s: f64) -> (&'static str, String) {
        let output = self.0.clone();
        match interpreter::detached(py, move || output.wait(Duration::from_secs_f64(timeout_s))) {
            Published::Done => ("done", String::new()),
            Published::Full => ("full", String::new()),
            Published::Away => ("away", String::new()),
            Published::Refused(text) => ("refused", text),
        }
    }

    /// What waits, in its order; `is_from_before`: only what an earlier process owed.
    #[pyo3(signature = (*, is_from_before))]
    fn owed(&self, py: Python<'_>, is_from_before: bool) -> Vec<Owed> {
        let owed = self.0.queue().owed(is_from_before);
        let made = owed.into_iter().map(|message| {
            (message.subject.to_string(), message.id, PyBytes::new(py, &message.body).unbind())
        });
        made.collect()
    }

    fn __len__(&self) -> usize {
        self.0.queue().len()
    }

    /// The next number of each partition.
    #[getter]
    fn next(&self) -> BTreeMap<u32, u64> {
        self.0.queue().next.clone()
    }

    /// By partition: up to which number the broker has everything.
    #[getter]
    fn sent(&self) -> BTreeMap<u32, u64> {
        self.0.queue().sent()
    }

    #[getter]
    fn confirmed(&self) -> u64 {
        self.0.queue().confirmed
    }

    #[getter]
    fn refusals(&self) -> u64 {
        self.0.queue().refusals
    }

    #[getter]
    fn failure(&self) -> Option<String> {
        self.0.queue().failure.clone()
    }

    fn stop(&self) {
        self.0.stop();
    }
}
