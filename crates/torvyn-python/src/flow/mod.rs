//! The handle of a flow in Python: build, drive, feed, ask, stop.

pub mod blueprint;
pub mod clock;
pub mod iterator;
pub mod pool;
pub mod port;
pub mod report;
pub mod text_feed;
pub mod waker;

use std::collections::VecDeque;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use pyo3::{PyTraverseError, PyVisit};
use torvyn_reactor::{Blueprint, Clock, Driver, Flow, Role, SharedState, Status, StayOnExit, WakePipe};
use torvyn_stream::{Element, End};

use crate::element::convert::{NodeContext, companion, emission, end_of, wrong_result};
use crate::enums::{TurnStatus, to_python};
use crate::flow::blueprint::{EdgePlan, Plan};
use crate::flow::clock::ManualClock;
use crate::flow::iterator::{FlowIterator, NodeHandle};
use crate::flow::pool::Workers;
use crate::flow::report::{annotate, report_to, statistics_dict, take_failure};
use crate::flow::text_feed::{Fed, feed_text};
use crate::flow::waker::PyWaker;
use crate::symbols::Symbols;

/// Native flows run detached this long before signals are looked at again.
const DETACHED_SLICE: Duration = Duration::from_millis(5);

#[pyclass(frozen, module = "torvyn._native")]
pub struct NativeFlow {
    pub flow: Arc<Flow>,
    signal: OnceLock<Arc<WakePipe>>,
    pub node_context: NodeContext,
    /// Kept a second time, beside the flow's own reference, so that the collector can see it.
    on_error: Py<PyAny>,
}

#[pymethods]
impl NativeFlow {
    // Keyword arguments of one call in Python; a struct would only give them a second name.
    #[allow(clippy::too_many_arguments)]
    #[new]
    #[pyo3(signature = (plan, edges, work, context, *, on_error, deadline_ns=None, clock=None))]
    fn new(
        py: Python<'_>,
        plan: Plan,
        edges: Vec<EdgePlan>,
        work: Vec<Bound<'_, PyAny>>,
        context: Py<PyAny>,
        on_error: Py<PyAny>,
        deadline_ns: Option<u64>,
        clock: Option<&Bound<'_, ManualClock>>,
    ) -> PyResult<Self> {
        Symbols::get(py)?;
        let edges = plan.edges(edges)?;
        let open = edges.iter().any(|edge| edge.source.is_none());
        let hand = clock.map(|clock| clock.get());
        let clock = match hand {
            Some(hand) => hand.clock(),
            None => Clock::monotonic(monotonic_ns(py)?),
        };
        let shared = Arc::new(SharedState::new(plan.node_count(), edges.len()));
        let node_context = |node: usize| NodeContext {
            context: context.clone_ref(py),
            shared: shared.clone(),
            node: node as u16,
        };
        let nodes = plan.nodes(&work, node_context)?;
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
        };
        let exit = node_context(0);
        let flow = Flow::new(blueprint, shared.clone(), clock);
        if let Some(hand) = hand {
            hand.watch(&flow);
        }
        Ok(Self { flow, signal: OnceLock::new(), node_context: exit, on_error })
    }

    /// Runs turns on this thread until the flow is over, something has left it, or it must wait.
    ///
    /// With `wait`, a parked flow is waited for, and Ctrl-C raises.
    #[pyo3(signature = (until_output=false, wait=true))]
    fn drive<'py>(&self, py: Python<'py>, until_output: bool, wait: bool) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, self.drive_turns(py, until_output, wait)?)
    }

    /// When a parked flow has something to do by itself, in nanoseconds from now; None when only others can wake it.
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

    /// From now on the calling thread drives, and is woken when it waits.
    fn drive_from_thread(&self) -> PyResult<()> {
        self.signal()?;
        Ok(())
    }

    /// From now on an event loop drives: `waker` rings `token`.
    fn drive_from_loop(&self, waker: &Bound<'_, PyWaker>, token: u64) {
        self.flow.set_driver(Driver::Notify(waker.get().notifier(token)));
    }

    /// From now on the workers drive.
    fn start(&self, workers: &Bound<'_, Workers>) {
        self.flow.start(workers.get().pool.clone());
    }

    /// Called once when the flow is over, on the thread that ran its last turn.
    fn on_over(&self, callback: Py<PyAny>) {
        self.flow.set_on_over(Box::new(move || {
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

    /// Drain after so many elements of the sources; 0: pull nothing.
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
        end.map(|end| crate::element::convert::end_object(py, Symbols::get(py)?, &end)).transpose()
    }

    /// How the flow failed; gives it once.
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

    /// The calls recorded: `(node, outcome, made, copied_bytes, sequence, start_ns, nanos)`, and how many were missed.
    #[allow(clippy::type_complexity)]
    fn take_trace(&self) -> (Vec<(u16, &'static str, u32, u64, u64, u64, u64)>, u64) {
        let Some(tracer) = self.flow.take_trace() else { return (Vec::new(), 0) };
        let events = tracer.events.iter();
        let rows = events.map(|event| {
            (
                event.node,
                event.outcome,
                event.made,
                event.copied_bytes,
                event.sequence,
                event.start_ns,
                event.nanos,
            )
        });
        (rows.collect(), tracer.missed)
    }

    /// What has left the flow, without running it.
    #[pyo3(signature = (most=usize::MAX))]
    fn outputs<'py>(&self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyList>> {
        let mut taken = VecDeque::new();
        self.flow.take_output(&mut taken, most);
        let list = PyList::empty(py);
        for mut element in taken {
            list.append(self.to_python(py, &mut element)?)?;
        }
        Ok(list)
    }

    /// Puts items into the entry as far as there is room, runs what can run, and gives what came out and how many
    /// items were taken.
    fn feed<'py>(
        &self,
        py: Python<'py>,
        items: &Bound<'py, PyList>,
    ) -> PyResult<(Bound<'py, PyList>, usize)> {
        let symbols = Symbols::get(py)?;
        let out = PyList::empty(py);
        // All or nothing is refused: who is told of a wrong item may feed the batch again.
        let mut waiting = VecDeque::with_capacity(items.len());
        for item in items {
            let made = emission(py, symbols, &item).map_err(|error| raise(py, error))?;
            waiting.push_back(made.ok_or_else(|| raise(py, wrong_result(Role::Source, &item)))?);
        }
        let mut fed = 0;
        let mut has_driven = false;
        loop {
            let before = fed;
            while self.flow.feed_capacity() > 0
                && let Some(made) = waiting.pop_front()
            {
                match self.flow.feed(made) {
                    Ok(None) => fed += 1,
                    // There was room in elements, but not in bytes.
                    Ok(Some(back)) => {
                        waiting.push_front(back);
                        break;
                    }
                    Err(failure) => return Err(raise(py, failure.error)),
                }
            }
            let status = self.drive_ready(py, &out)?;
            if status == TurnStatus::Over || waiting.is_empty() || (fed == before && has_driven) {
                return Ok((out, fed));
            }
            has_driven = true;
        }
    }

    /// `feed` of one text; what leaves is joined when it is text and nothing else.
    fn feed_text<'py>(&self, py: Python<'py>, text: &Bound<'py, PyString>) -> PyResult<Fed<'py>> {
        feed_text(self, py, text)
    }

    /// No more will be fed. What is ready is given; the rest follows by `outputs` when a stage is away.
    fn finish_feed<'py>(
        &self,
        py: Python<'py>,
        end: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let symbols = Symbols::get(py)?;
        let end = end.and_then(|end| end_of(symbols, &end)).unwrap_or_else(|| End::because("stop"));
        self.flow.finish(end);
        let out = PyList::empty(py);
        self.drive_ready(py, &out)?;
        Ok(out)
    }

    /// An iterator over what leaves the flow, which this thread drives. `on_end` is called once, may raise.
    #[pyo3(signature = (on_end, text=false))]
    fn iterate(slf: Bound<'_, Self>, on_end: Py<PyAny>, text: bool) -> FlowIterator {
        FlowIterator::new(slf.unbind(), on_end, text)
    }

    /// Counts what thread and async stages answered after the last turn. To be called when their runners have ended.
    fn settle(&self) {
        self.flow.settle();
    }

    /// `count` of the outputs taken last were not read by anybody.
    fn give_back(&self, count: u64) {
        self.flow.give_back_output(count);
    }

    /// The index of the node whose component is being called, or None.
    #[getter]
    fn current_node(&self) -> Option<usize> {
        self.flow.shared.running_node()
    }

    /// A flow that its own component leads back to is a cycle through native code: the collector is shown what the
    /// stages keep. Finalizers run before anything is cleared, so the flow is cancelled and torn down as when it is dropped.
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        let mut result = Ok(());
        let is_seen = self.flow.visit(&mut |pointer| {
            // SAFETY: a live object that a stage keeps; the reference is looked at, neither taken nor given back.
            let object = ManuallyDrop::new(unsafe { std::mem::transmute::<NonNull<()>, Py<PyAny>>(pointer) });
            if result.is_ok() {
                result = visit.call(&*object);
            }
        });
        result?;
        if is_seen {
            // The flow has a reference of its own, beside the one here.
            visit.call(&self.on_error)?;
        }
        visit.call(&self.on_error)
    }

    /// Lets go of components and queues.
    fn close(&self) {
        self.flow.close();
    }
}

impl NativeFlow {
    fn signal(&self) -> PyResult<Arc<WakePipe>> {
        if let Some(signal) = self.signal.get() {
            return Ok(signal.clone());
        }
        let signal = Arc::new(WakePipe::new()?);
        let signal = self.signal.get_or_init(|| signal).clone();
        self.flow.set_driver(Driver::Caller(signal.clone()));
        Ok(signal)
    }

    /// Runs turns until the flow is over, has an output, or must wait and may not.
    pub fn drive_turns(&self, py: Python<'_>, until_output: bool, wait: bool) -> PyResult<TurnStatus> {
        loop {
            let status = if self.flow.hosted {
                self.flow.run_turn(false, until_output)
            } else {
                py.detach(|| self.run_slice(until_output))
            };
            match status.ok_or_else(busy)? {
                Status::Again if wait => py.check_signals()?,
                Status::Parked(due_ns) if wait => self.wait(py, due_ns)?,
                status => return Ok(turn_status(status)),
            }
        }
    }

    fn run_slice(&self, until_output: bool) -> Option<Status> {
        let started = Instant::now();
        loop {
            match self.flow.run_turn(false, until_output) {
                Some(Status::Again) if started.elapsed() < DETACHED_SLICE => {}
                status => return status,
            }
        }
    }

    /// The first wait only makes the signal, which costs system calls that a flow without waits is spared: a wake-up
    /// before now rang for nobody, so the flow must run another turn before anybody sleeps.
    fn wait(&self, py: Python<'_>, due_ns: Option<u64>) -> PyResult<()> {
        let Some(signal) = self.signal.get() else {
            self.signal()?;
            return Ok(());
        };
        let clock = self.flow.clock();
        // A hand-driven clock does not run while we wait: only a wake-up helps, and moving the hand sends one.
        let left = match due_ns {
            Some(due) if !clock.is_manual() => Some(due.saturating_sub(self.flow.now_ns())),
            _ => None,
        };
        let mut heard = Ok(());
        StayOnExit::around(|| {
            py.detach(|| {
                signal.wait(left, || {
                    heard = Python::attach(|py| py.check_signals());
                    heard.is_err()
                })
            })
        });
        heard?;
        py.check_signals()
    }

    /// Runs until nothing more is ready, gathering what comes out.
    fn drive_ready(&self, py: Python<'_>, out: &Bound<'_, PyList>) -> PyResult<TurnStatus> {
        let mut taken = VecDeque::new();
        loop {
            let status = self.drive_turns(py, false, false)?;
            self.flow.take_output(&mut taken, usize::MAX);
            for mut element in taken.drain(..) {
                out.append(self.to_python(py, &mut element)?)?;
            }
            if matches!(status, TurnStatus::Parked | TurnStatus::Over) {
                return Ok(status);
            }
        }
    }

    pub fn to_python<'py>(&self, py: Python<'py>, element: &mut Element) -> PyResult<Bound<'py, PyAny>> {
        let pointer = companion(py, Symbols::get(py)?, element, &self.node_context)?;
        // SAFETY: a live object that the element's companion keeps.
        Ok(unsafe { Bound::from_borrowed_ptr(py, pointer) })
    }
}

fn turn_status(status: Status) -> TurnStatus {
    match status {
        Status::Over => TurnStatus::Over,
        Status::Output => TurnStatus::Output,
        Status::Again => TurnStatus::Again,
        Status::Parked(_) => TurnStatus::Parked,
    }
}

fn busy() -> PyErr {
    PyRuntimeError::new_err("the flow is already being driven by workers, another thread or a component")
}

pub fn raise(py: Python<'_>, error: torvyn_stream::StageError) -> PyErr {
    match &error.object {
        Some(held) => PyErr::from_value(crate::element::foreign::object(py, held)),
        None => PyValueError::new_err(error.message),
    }
}

/// Python's own monotonic clock, so that timestamps can be compared with `time.monotonic_ns()`.
fn monotonic_ns(py: Python<'_>) -> PyResult<u64> {
    py.import("time")?.getattr("monotonic_ns")?.call0()?.extract()
}
