//! The counters, the trace and the failure of a flow as plain Python data. Python renders them for people.

use std::time::{SystemTime, UNIX_EPOCH};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use torvyn_log::{Attributes, BatchBuilder};
use torvyn_reactor::trace::Event;
use torvyn_reactor::{Flow, OnError, Refused, SharedState, StoreRefused};
use torvyn_stream::{CopyReason, Element, ErrorKind, Ledger, StageError};

use crate::element::foreign::{foreign, object};
use crate::enums::to_python;
use crate::flow::edge_log::JsonAttributes;

/// The kind as text, for dead letters and the errors of guests.
pub fn kind_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidInput => "invalid-input",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Internal => "internal",
        ErrorKind::DeadlineExceeded => "deadline-exceeded",
        ErrorKind::Fatal => "fatal",
        ErrorKind::Contract => "contract",
        ErrorKind::Interrupted => "interrupted",
    }
}

/// How the flow failed; only the first call returns it. An exception kept here would keep its frames, and so the flow,
/// alive.
pub fn take_failure<'py>(py: Python<'py>, shared: &SharedState) -> PyResult<Option<Bound<'py, PyDict>>> {
    let failure = shared.outcome().failure.take();
    let Some(failure) = failure else { return Ok(None) };
    let dict = PyDict::new(py);
    dict.set_item("kind", to_python(py, failure.kind)?)?;
    dict.set_item("node", failure.node)?;
    dict.set_item("edge", failure.edge)?;
    dict.set_item("sequence", failure.sequence)?;
    dict.set_item("method", failure.method)?;
    dict.set_item("error_kind", to_python(py, failure.error.kind)?)?;
    dict.set_item("message", &failure.error.message)?;
    dict.set_item("exception", failure.error.object.as_ref().map(|exception| object(py, exception)))?;
    Ok(Some(dict))
}

/// Sets counters under interned names: the end of every flow reads about a hundred of them.
macro_rules! set_counters {
    ($py:expr, $dict:expr, { $($name:literal: $value:expr,)* }) => {
        $($dict.set_item(intern!($py, $name), $value)?;)*
    };
}

pub fn statistics_dict<'py>(py: Python<'py>, shared: &SharedState) -> PyResult<Bound<'py, PyDict>> {
    let nodes = PyList::empty(py);
    for counters in shared.nodes.iter() {
        let node = PyDict::new(py);
        let ledger = &counters.ledger;
        let (matches, exposed_chars) = ledger.findings();
        set_counters!(py, node, {
            "received": counters.received.get(),
            "passed": counters.passed.get(),
            "filtered": counters.rare.read(|rare| &rare.filtered),
            "failed": counters.rare.read(|rare| &rare.failed),
            "dead_lettered": counters.rare.read(|rare| &rare.dead_lettered),
            "absorbed": counters.rare.read(|rare| &rare.absorbed),
            "unread": counters.unread.get(),
            "emitted": counters.emitted.get(),
            "ignored": counters.rare.read(|rare| &rare.ignored),
            "errors": counters.rare.read(|rare| &rare.errors),
            "retried": counters.rare.read(|rare| &rare.retried),
            "sampled_ns": counters.sampled_ns.get(),
            "sampled_calls": counters.sampled_calls.get(),
            "allocations": ledger.allocations.get(),
            "releases": ledger.releases.get(),
            "live_bytes": ledger.live_bytes.get(),
            "held_bytes": ledger.held_bytes(),
            "peak_bytes": ledger.peak_bytes.get(),
            "peak_held_bytes": ledger.peak_held_bytes(),
            "copied_bytes": ledger.copied_bytes(),
            "matches": matches,
            "exposed_chars": exposed_chars,
        });
        let copies = PyDict::new(py);
        for reason in CopyReason::ALL {
            copies.set_item(reason.name(), ledger.copies(reason))?;
        }
        node.set_item(intern!(py, "copies"), copies)?;
        nodes.append(node)?;
    }
    let edges = PyList::empty(py);
    for counters in shared.edges.iter() {
        let edge = PyDict::new(py);
        set_counters!(py, edge, {
            "entered": counters.entered(),
            "taken": counters.taken.get(),
            "dropped": counters.dropped.get(),
            "unread": counters.unread.get(),
            "depth": counters.depth.get(),
            "bytes": counters.bytes.get(),
            "peak": counters.peak.get(),
            "peak_bytes": counters.peak_bytes.get(),
            "pressured": counters.pressured.get(),
        });
        edges.append(edge)?;
    }
    let dict = PyDict::new(py);
    dict.set_item("state", to_python(py, shared.state())?)?;
    dict.set_item("turns", shared.turns.get())?;
    dict.set_item("nodes", nodes)?;
    dict.set_item("edges", edges)?;
    Ok(dict)
}

/// Adds `error` to a dead letter's attributes.
pub fn annotate(element: &mut Element, error: &StageError) {
    Python::attach(|py| {
        let attributes = PyDict::new(py);
        if let Some(inherited) = element.companion.as_ref().and_then(|companion| companion.inherit())
            && let Ok(known) = object(py, &inherited).cast::<PyDict>()
        {
            let _ = attributes.update(known.as_mapping());
        }
        let facts = PyDict::new(py);
        let _ = facts.set_item("kind", kind_name(error.kind));
        let _ = facts.set_item("message", &error.message);
        let _ = attributes.set_item("error", facts);
        element.companion = Some(foreign(attributes.into_any()));
    });
}

/// Reports the errors that a node's policy tolerates to Python: `callback(node, kind, message, count, exception, sequence)`.
pub fn report_to(callback: Py<PyAny>) -> OnError {
    Box::new(move |node, error, sequence, count| {
        Python::attach(|py| {
            let exception = error.object.as_ref().map(|exception| object(py, exception));
            let called = to_python(py, error.kind).and_then(|kind| {
                callback.call1(py, (node, kind, &error.message, count, exception, sequence))
            });
            if let Err(error) = called {
                error.write_unraisable(py, Some(callback.bind(py)));
            }
        });
    })
}

/// Gives what nodes refused to Python, which stores it:
/// `callback(node, kind, message, exception, sequence, batch) -> bool`. `batch` has the element, if there is one.
pub fn store_with(callback: Py<PyAny>) -> StoreRefused {
    Box::new(move |refused| {
        let batch = refused.element.map(|element| batch_of(element, refused.ledger, refused.now_ns));
        let Refused { node, element, error, .. } = refused;
        Python::attach(|py| {
            let exception = error.object.as_ref().map(|exception| object(py, exception));
            let sequence = element.map(|element| element.sequence);
            let called = to_python(py, error.kind).and_then(|kind| {
                let batch = batch.as_ref().map(|batch| PyBytes::new(py, batch));
                let arguments = (node, kind, &error.message, exception, sequence, batch);
                callback.call1(py, arguments)?.extract::<bool>(py)
            });
            called.unwrap_or_else(|error| {
                error.write_unraisable(py, Some(callback.bind(py)));
                false
            })
        })
    })
}

/// The element as durable edges store it.
fn batch_of(element: &Element, ledger: &Ledger, now_ns: u64) -> Vec<u8> {
    let mut attributes = Vec::new();
    if let Some(companion) = &element.companion
        && JsonAttributes.encode(companion, &mut attributes).is_err()
    {
        // What is no JSON cannot be stored: the payload is what counts.
        attributes.clear();
    }
    let age_ns = now_ns.saturating_sub(element.timestamp_ns);
    let time_ns = unix_ns().saturating_sub(age_ns as i64);
    let mut batch = BatchBuilder::default();
    batch.push(element, element.read(ledger).unwrap_or_default(), time_ns, &attributes);
    batch.finish()
}

fn unix_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i64)
}

/// Node, outcome, outputs, copied bytes, sequence, start and duration in nanoseconds.
pub type TraceRow<'py> = (u16, Bound<'py, PyAny>, u32, u64, u64, u64, u64);

/// The recorded calls, and how many exceeded the limit.
pub fn take_trace<'py>(py: Python<'py>, flow: &Flow) -> PyResult<(Vec<TraceRow<'py>>, u64)> {
    let Some(tracer) = flow.take_trace() else { return Ok((Vec::new(), 0)) };
    let rows = tracer.events.iter().map(|event| trace_row(py, event));
    Ok((rows.collect::<PyResult<_>>()?, tracer.missed))
}

fn trace_row<'py>(py: Python<'py>, event: &Event) -> PyResult<TraceRow<'py>> {
    Ok((
        event.node,
        to_python(py, event.outcome)?,
        event.made,
        event.copied_bytes,
        event.sequence,
        event.start_ns,
        event.nanos,
    ))
}
