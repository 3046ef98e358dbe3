//! The handle of a flow in Python: builds, drives, feeds, inspects and stops it.

pub mod blueprint;
pub mod clock;
pub mod drive;
pub mod edge_log;
pub mod feed;
pub mod iterator;
pub mod pool;
pub mod port;
pub mod report;
pub mod swap;
pub mod waker;

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use pyo3::{PyTraverseError, PyVisit};
use torvyn_reactor::{
    Blueprint, Checkpoints, Clock, CutRequests, Driver, Flow, Rest, SharedState, Status, WakePipe,
};

use crate::element::convert::{NodeContext, component_error, end_object};
use crate::enums::to_python;
use crate::flow::blueprint::{EdgePlan, Plan};
use crate::flow::clock::ManualClock;
use crate::flow::drive::{busy, turn_status};
use crate::flow::feed::{Fed, feed_items, feed_text, finish_feed};
use crate::flow::iterator::{FlowIterator, NodeHandle};
use crate::flow::pool::Workers;
use crate::flow::report::{
    TraceRow, annotate, report_to, statistics_dict, store_with, take_failure, take_trace,
};
use crate::flow::waker::PyWaker;
use crate::symbols::Symbols;

#[pyclass(frozen, module = "torvyn._native")]
pub struct NativeFlow {
    pub flow: Arc<Flow>,
    signal: OnceLock<Arc<WakePipe>>,
    pub node_context: NodeContext,
    /// A second reference beside the flow's own, so that the garbage collector can see it.
    on_error: Py<PyAny>,
    store_refused: Option<Py<PyAny>>,
    /// The requests for checkpoints.
    requests: Option<Arc<CutRequests>>,
}

#[pymethods]
impl NativeFlow {
    // Keyword arguments of one call in Python.
    #[allow(clippy::too_many_arguments)]
    #[new]
    #[pyo3(signature = (plan, edges, work, context, *, on_error, deadline_ns=None, clock=None, checkpoints=None, contexts=None, store_refused=None))]
    fn new(
        py: Python<'_>,
        plan: Plan,
        edges: Vec<EdgePlan>,
        work: Vec<Bound<'_, PyAny>>,
        context: Py<PyAny>,
        on_error: Py<PyAny>,
        deadline_ns: Option<u64>,
        clock: Option<&Bound<'_, ManualClock>>,
        checkpoints: Option<(Vec<usize>, Vec<bool>, Py<PyAny>)>,
        contexts: Option<Vec<Py<PyAny>>>,
        store_refused: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let symbols = Symbols::get(py)?;
        let edges = plan.edges(edges)?;
        let open = edges.iter().any(|edge| edge.source.is_none());
        let manual = clock.map(|clock| clock.get());
        let clock = match manual {
            Some(manual) => manual.clock(),
            // Python's own clock, so that timestamps can be compared with `time.monotonic_ns()`.
            None => Clock::monotonic(symbols.monotonic_ns.call0(py)?.extract(py)?),
        };
        let shared = Arc::new(SharedState::new(plan.node_count(), edges.len()));
        let own = |node: usize| contexts.as_ref().and_then(|contexts| contexts.get(node));
        let node_context = |node: usize| NodeContext {
            context: own(node).unwrap_or(&context).clone_ref(py),
            shared: shared.clone(),
            node: node as u16,
        };
        let nodes = plan.nodes(&work, node_context)?;
        let checkpoints = checkpoints.map(|(segment_of, by_checkpoint, on_cut)| {
            for (node, &segment) in nodes.nodes.iter().zip(&segment_of) {
                if let (Some(acks), Some(true)) = (&node.acks, by_checkpoint.get(segment)) {
                    acks.settle_by_checkpoint();
                }
            }
            checkpoints_of(segment_of, by_checkpoint.len(), on_cut)
        });
        let requests = checkpoints.as_ref().map(|checkpoints| checkpoints.requests.clone());
        let blueprint = Blueprint {
            nodes: nodes.nodes,
            edges,
            quarter_weight: plan.quarter_weight,
            turn_elements: plan.runtime.turn_elements,
            turn_time_ns: plan.runtime.turn_time_ns,
            drain_timeout_ns: plan.runtime.drain_timeout_ns,
            deadline_ns,
            hosted: open || nodes.needs_python,
            annotate: Some(annotate),
            timing: plan.timing,
            on_error: Some(report_to(on_error.clone_ref(py))),
            store_refused: store_refused.as_ref().map(|callback| store_with(callback.clone_ref(py))),
            checkpoints,
        };
        let exit = node_context(0);
        let flow = Flow::new(blueprint, shared.clone(), clock);
        if let Some(manual) = manual {
            manual.watch(&flow);
        }
        Ok(Self { flow, signal: OnceLock::new(), node_context: exit, on_error, store_refused, requests })
    }

    /// Runs turns on this thread until the flow is over, has an output, or must wait.
    ///
    /// With `wait`, a parked flow is waited for, and Ctrl-C raises.
    #[pyo3(signature = (until_output=false, wait=true))]
    fn drive<'py>(&self, py: Python<'py>, until_output: bool, wait: bool) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, self.drive_turns(py, until_output, wait)?)
    }

    /// Runs one turn. Also returns when a parked flow is due, in nanoseconds from now; None if only a wake-up resumes it.
    fn turn_once<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Option<u64>)> {
        let status = self.flow.run_turn(false, true).ok_or_else(busy)?;
        let due_ns = match status {
            // A manual clock does not move by itself: there is no time to wait for.
            Status::Parked(Some(due)) if !self.flow.clock().is_manual() => {
                Some(due.saturating_sub(self.flow.now_ns()))
            }
            _ => None,
        };
        Ok((to_python(py, turn_status(status))?, due_ns))
    }

    /// The calling thread drives from now on, and is woken when it waits.
    fn drive_from_thread(&self) -> PyResult<()> {
        self.signal()?;
        Ok(())
    }

    /// An event loop drives from now on: `waker` notifies it with `token`.
    fn drive_from_loop(&self, waker: &Bound<'_, PyWaker>, token: u64) {
        self.flow.set_driver(Driver::Notify(waker.get().notifier(token)));
    }

    /// The workers drive from now on.
    fn start(&self, workers: &Bound<'_, Workers>) {
        self.flow.start(workers.get().pool.clone());
    }

    /// Sets a callback for the end of the flow; it runs once, on the thread of the last turn.
    fn set_end_callback(&self, callback: Py<PyAny>) {
        self.flow.set_end_hook(Box::new(move || {
            Python::attach(|py| {
                if let Err(error) = callback.call0(py) {
                    error.write_unraisable(py, Some(callback.bind(py)));
                }
            });
        }));
    }

    /// Sets a callback for the start of each turn on a worker. A flow of native stages has none.
    fn set_turn_callback(&self, callback: Py<PyAny>) {
        if !self.flow.hosted {
            return;
        }
        self.flow.set_turn_hook(Box::new(move || {
            Python::attach(|py| {
                if let Err(error) = callback.call0(py) {
                    error.write_unraisable(py, Some(callback.bind(py)));
                }
            });
        }));
    }

    fn wake(&self) {
        self.flow.wake();
    }

    fn cancel(&self) {
        self.flow.cancel();
    }

    fn drain(&self) {
        self.flow.drain();
    }

    fn interrupt(&self) {
        self.flow.interrupt();
    }

    /// Drains the flow after so many elements of its sources; 0 pulls nothing.
    fn limit(&self, elements: u64) {
        self.flow.shared.set_limit(elements);
    }

    fn node(&self, index: usize) -> NodeHandle {
        NodeHandle::new(Arc::downgrade(&self.flow), index)
    }

    #[getter]
    fn state<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, self.flow.shared.state())
    }

    #[getter]
    fn is_over(&self) -> bool {
        self.flow.shared.state().is_over()
    }

    #[getter]
    fn key(&self) -> usize {
        Arc::as_ptr(&self.flow) as usize
    }

    #[getter]
    fn now_ns(&self) -> u64 {
        self.flow.now_ns()
    }

    /// How the flow ended, or None.
    fn end<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let end = self.flow.shared.outcome().end.clone();
        end.map(|end| end_object(py, Symbols::get(py)?, &end)).transpose()
    }

    /// How the flow failed; only the first call returns it.
    fn take_failure<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        take_failure(py, &self.flow.shared)
    }

    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        statistics_dict(py, &self.flow.shared)
    }

    /// Bytes of reactor state and of queue slots.
    fn memory(&self) -> (usize, usize) {
        self.flow.memory()
    }

    fn trace(&self, limit: usize) {
        self.flow.trace(limit);
    }

    /// The recorded calls, and how many exceeded the limit.
    fn take_trace<'py>(&self, py: Python<'py>) -> PyResult<(Vec<TraceRow<'py>>, u64)> {
        take_trace(py, &self.flow)
    }

    /// The outputs so far; does not run the flow.
    #[pyo3(signature = (most=usize::MAX))]
    fn outputs<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyList>> {
        let mut elements = VecDeque::new();
        self.flow.take_output(&mut elements, most);
        let list = PyList::empty(py);
        for mut element in elements {
            list.append(self.to_python(py, &mut element)?)?;
        }
        Ok(list)
    }

    /// Feeds as many items as the entry has capacity for and runs the flow. Returns its outputs and how many items it
    /// accepted.
    fn feed<'py>(
        &self,
        py: Python<'py>,
        items: &Bound<'py, PyList>,
    ) -> PyResult<(Bound<'py, PyList>, usize)> {
        feed_items(self, py, items)
    }

    /// Feeds one text; returns the outputs joined if they are only text.
    fn feed_text<'py>(&self, py: Python<'py>, text: &Bound<'py, PyString>) -> PyResult<Fed<'py>> {
        feed_text(self, py, text)
    }

    /// Ends the input and returns the outputs that are ready. With offloaded stages, `outputs` returns the rest later.
    fn finish_feed<'py>(
        &self,
        py: Python<'py>,
        end: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        finish_feed(self, py, end)
    }

    /// An iterator over the outputs that drives the flow on this thread. It calls `on_end` once, which may raise.
    #[pyo3(signature = (on_end, text=false))]
    fn iterate(slf: Bound<'_, Self>, on_end: Py<PyAny>, text: bool) -> FlowIterator {
        FlowIterator::new(slf.unbind(), on_end, text)
    }

    /// Counts what offloaded stages answered after the last turn. Call it when their runners have ended.
    fn count_late_results(&self) {
        self.flow.count_late_results();
    }

    /// Holds the sources of a segment until it is at rest; then `on_cut` is called in the turn.
    fn request_cut(&self, segment: usize) {
        if let Some(requests) = &self.requests {
            requests.request(segment);
            self.flow.wake();
        }
    }

    /// The sources of a segment go on.
    fn release_cut(&self, segment: usize) {
        if let Some(requests) = &self.requests {
            requests.release(segment);
            self.flow.wake();
        }
    }

    /// How many elements the source at `index` has emitted, in a segment with checkpoints.
    fn issued(&self, index: usize) -> u64 {
        self.flow.acks(index).map_or(0, |acks| acks.issued())
    }

    /// A durable checkpoint holds the first `count` elements of the source at `index`.
    fn settle_checkpoint(&self, index: usize, count: u64) {
        if let Some(acks) = self.flow.acks(index) {
            acks.settle_all(count);
            self.flow.wake();
        }
    }

    /// How many settled elements the source at `index` has not been told about.
    fn take_acknowledgements(&self, index: usize) -> u64 {
        self.flow.take_acknowledgements(index)
    }

    /// Counts the last `outputs` outputs as unread: the caller did not read them.
    fn count_unread(&self, outputs: u64) {
        self.flow.count_unread_output(outputs);
    }

    /// The index of the node whose component is being called, or None.
    #[getter]
    fn current_node(&self) -> Option<usize> {
        self.flow.shared.running_node()
    }

    /// A component that refers to its own flow forms a cycle through native code, so the garbage collector visits what
    /// the stages refer to. Finalizers run first, so the flow is cancelled and torn down as if it were dropped.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let mut result = Ok(());
        let is_seen = self.flow.visit(&mut |pointer| {
            // SAFETY: a live object that a stage owns; the reference is only borrowed, its count does not change.
            let object = ManuallyDrop::new(unsafe { std::mem::transmute::<NonNull<()>, Py<PyAny>>(pointer) });
            if result.is_ok() {
                result = visit.call(&*object);
            }
        });
        result?;
        for callback in std::iter::once(&self.on_error).chain(&self.store_refused) {
            if is_seen {
                // The flow has a reference of its own.
                visit.call(callback)?;
            }
            visit.call(callback)?;
        }
        Ok(())
    }

    /// Releases components and queues.
    fn close(&self) {
        self.flow.close();
    }
}

/// Calls `on_cut` with the segment and the states of its native stages, in the turn that brought it to rest.
fn checkpoints_of(segment_of: Vec<usize>, segments: usize, on_cut: Py<PyAny>) -> Checkpoints {
    let call = move |rest: Rest| {
        Python::attach(|py| {
            let states = rest.states.iter().map(|(node, state)| (*node, PyBytes::new(py, state)));
            let states: Vec<_> = states.collect();
            on_cut
                .call1(py, (rest.segment, states, rest.finished))
                .map(|_| ())
                .map_err(|error| component_error(py, error))
        })
    };
    Checkpoints { segment_of, requests: CutRequests::new(segments), on_cut: Box::new(call) }
}
