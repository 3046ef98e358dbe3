//! The iterator over a flow's outputs, and the handles of its nodes.

use std::collections::VecDeque;
use std::sync::Weak;

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use torvyn_log::FlowEnd;
use torvyn_reactor::Flow;
use torvyn_stream::{Element, Receipt};

use crate::enums::TurnStatus;
use crate::flow::NativeFlow;
use crate::flow::swap::SwapOrder;

/// Iterates over the outputs of a flow. Takes all that are ready at once.
#[pyclass(module = "torvyn._native")]
pub struct FlowIterator {
    flow: Py<NativeFlow>,
    ready: VecDeque<Element>,
    on_end: Py<PyAny>,
    text: bool,
}

impl FlowIterator {
    pub fn new(flow: Py<NativeFlow>, on_end: Py<PyAny>, text: bool) -> Self {
        Self { flow, ready: VecDeque::new(), on_end, text }
    }
}

#[pymethods]
impl FlowIterator {
    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let flow = self.flow.get();
        loop {
            if let Some(mut element) = self.ready.pop_front() {
                let object = flow.to_python(py, &mut element)?;
                return if self.text { object.getattr("text").map(Some) } else { Ok(Some(object)) };
            }
            let status = flow.drive_turns(py, true, true)?;
            flow.flow.take_output(&mut self.ready, usize::MAX);
            if status == TurnStatus::Over && self.ready.is_empty() {
                self.on_end.call0(py)?;
                return Ok(None);
            }
        }
    }

    /// The frames of the flow's failure refer to this: a cycle that the garbage collector must see.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.flow)?;
        visit.call(&self.on_end)
    }

    /// Counts the outputs that were taken and not returned as unread.
    fn close(&mut self) {
        let unread = self.ready.len() as u64;
        self.ready.iter().filter_map(|element| element.payload.receipt()).for_each(Receipt::abandon);
        self.ready.clear();
        self.flow.get().flow.count_unread_output(unread);
    }
}

/// A node, for its component, from any thread. Does not keep the flow alive.
#[pyclass(frozen, module = "torvyn._native")]
#[derive(Clone)]
pub struct NodeHandle {
    flow: Weak<Flow>,
    index: usize,
}

impl NodeHandle {
    pub fn new(flow: Weak<Flow>, index: usize) -> Self {
        Self { flow, index }
    }
}

impl FlowEnd for NodeHandle {
    fn wake(&self) {
        if let Some(flow) = self.flow.upgrade() {
            flow.wake_node(self.index);
        }
    }

    fn resume(&self) {
        if let Some(flow) = self.flow.upgrade() {
            flow.resume_node(self.index);
        }
    }
}

#[pymethods]
impl NodeHandle {
    fn wake(&self) {
        FlowEnd::wake(self);
    }

    fn resume(&self) {
        FlowEnd::resume(self);
    }

    /// Counts the findings of a guard in Python, which calls it inside a turn.
    fn note_findings(&self, matches: u64, exposed_chars: u64) {
        if let Some(flow) = self.flow.upgrade() {
            flow.shared.nodes[self.index].ledger.note_findings(matches, exposed_chars);
        }
    }

    /// The flow's time, or None when the flow is gone.
    #[getter]
    fn now_ns(&self) -> Option<u64> {
        self.flow.upgrade().map(|flow| flow.now_ns())
    }

    fn interrupt(&self) {
        if let Some(flow) = self.flow.upgrade() {
            flow.interrupt_after(self.index);
        }
    }

    /// Exchanges the stage between two elements. False: the flow is gone.
    fn swap(&self, order: SwapOrder) -> bool {
        let Some(flow) = self.flow.upgrade() else { return false };
        flow.swap(order.into_swap(self.index, &flow));
        true
    }

    /// The new stage does not return from a call: the old one takes its place again.
    fn fail_trial(&self) {
        if let Some(flow) = self.flow.upgrade() {
            flow.fail_trial(self.index);
        }
    }

    /// Goes on with the stage that it has, although it was held for a swap.
    fn let_go(&self) {
        if let Some(flow) = self.flow.upgrade() {
            flow.let_go(self.index);
        }
    }

    /// The new stage is no longer on trial.
    fn end_trial(&self) {
        if let Some(flow) = self.flow.upgrade() {
            flow.end_trial(self.index);
        }
    }
}
