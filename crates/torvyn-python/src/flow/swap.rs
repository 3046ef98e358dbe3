//! Hot swap from Python: the order of a swap, and the stages that were exchanged.

use std::sync::{Arc, Mutex, Weak};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use torvyn_reactor::{Exchanged, Flow, Refusal, Replacement, Swap};
use torvyn_stream::{ErrorKind, StageError};

use crate::element::convert::{NodeContext, component_error};
use crate::element::foreign::object;
use crate::flow::blueprint::{NodePlan, nanoseconds, worker_of};
use crate::lock::lock;

/// `torvyn._flow.swap_order.SwapOrder`: what to do, and the methods that the flow calls inside its turn.
#[derive(FromPyObject)]
pub struct SwapOrder {
    node: NodePlan,
    context: Py<PyAny>,
    #[pyo3(from_py_with = nanoseconds, attribute("timeout_s"))]
    timeout_ns: u64,
    #[pyo3(from_py_with = nanoseconds, attribute("trial_s"))]
    trial_ns: u64,
    moves_state: bool,
    discards_state: bool,
    keeps_hold: bool,
    is_return: bool,
    is_forced: bool,
    /// `is_idle()`: whether the runner of the old stage waits.
    is_idle: Py<PyAny>,
    /// `prepare(state)` gives the new stage its state and returns its work; None holds the node.
    prepare: Py<PyAny>,
    /// `exchanged(old, pause_ns, failure, was_unused)`; returns the order of the way back, or None.
    exchanged: Py<PyAny>,
    /// `refused(reason, error)`.
    refused: Py<PyAny>,
}

/// A stage that was exchanged, with its error policy. It may take its place again.
#[pyclass(frozen, module = "torvyn._native")]
pub struct RetiredStage(Mutex<Option<Replacement>>);

impl RetiredStage {
    fn new(stage: Replacement) -> Self {
        Self(Mutex::new(Some(stage)))
    }
}

#[pymethods]
impl RetiredStage {
    /// Stops its worker, or closes it: a guest's instance returns to its component.
    fn release(&self) {
        let retired = lock(&self.0).take();
        if let Some(retired) = retired {
            retired.release();
        }
    }
}

impl SwapOrder {
    pub fn into_swap(self, index: usize, flow: &Arc<Flow>) -> Swap {
        let weak = Arc::downgrade(flow);
        let Self { node, context, is_idle, prepare, exchanged, refused, .. } = self;
        let prepare_weak = weak.clone();
        let prepare = move |state: Option<Vec<u8>>| {
            Python::attach(|py| {
                let state = state.map(|state| PyBytes::new(py, &state));
                let work = prepare.bind(py).call1((state,)).map_err(|error| component_error(py, error))?;
                if work.is_none() {
                    return Ok(None);
                }
                replacement(&work, &node, context, index, &prepare_weak).map(Some)
            })
        };
        let done = move |outcome| Python::attach(|py| tell(py, outcome, &exchanged, &refused, index, &weak));
        Swap {
            node: index,
            timeout_ns: self.timeout_ns,
            trial_ns: self.trial_ns,
            moves_state: self.moves_state,
            discards_state: self.discards_state,
            is_idle: Box::new(move || Python::attach(|py| is_true(is_idle.bind(py).call0()))),
            prepare: Box::new(prepare),
            done: Box::new(done),
            keeps_hold: self.keeps_hold,
            is_return: self.is_return,
            is_forced: self.is_forced,
            failure: None,
            was_unused: false,
            until_ns: None,
            held_ns: None,
        }
    }
}

fn is_true(answer: PyResult<Bound<'_, PyAny>>) -> bool {
    answer.and_then(|answer| answer.is_truthy()).unwrap_or(false)
}

/// What takes the place of the old stage: a new one, or one that was here before.
fn replacement(
    work: &Bound<'_, PyAny>,
    node: &NodePlan,
    context: Py<PyAny>,
    index: usize,
    flow: &Weak<Flow>,
) -> Result<Replacement, StageError> {
    let gone = |what: &str| StageError::new(ErrorKind::Internal, what);
    let flow = flow.upgrade().ok_or_else(|| gone("the flow is gone"))?;
    if let Ok(retired) = work.cast::<RetiredStage>() {
        return lock(&retired.get().0).take().ok_or_else(|| gone("the old stage was released"));
    }
    let node_context = || NodeContext { context, shared: flow.shared.clone(), node: index as u16 };
    let (worker, is_python) =
        worker_of(work, node, node_context).map_err(|error| component_error(work.py(), error))?;
    if is_python && !flow.hosted {
        let what = "the flow runs without Python, and the new component needs it";
        return Err(StageError::new(ErrorKind::Contract, what));
    }
    Ok(node.replacement(worker, &flow))
}

/// Reports how the swap ended. Returns the way back.
fn tell(
    py: Python<'_>,
    outcome: Result<Exchanged, Refusal>,
    exchanged: &Py<PyAny>,
    refused: &Py<PyAny>,
    index: usize,
    flow: &Weak<Flow>,
) -> Option<Box<Swap>> {
    let told = match outcome {
        Ok(done) => {
            let failure = done.failure.map(|error| exception(py, error));
            let old = done.old.map(|old| Bound::new(py, RetiredStage::new(old))).transpose();
            old.and_then(|old| exchanged.bind(py).call1((old, done.pause_ns, failure, done.was_unused)))
        }
        Err(Refusal::Ended) => refused.bind(py).call1(("ended", "", None::<PyErr>)),
        Err(Refusal::Busy(what)) => refused.bind(py).call1(("busy", what, None::<PyErr>)),
        Err(Refusal::State(error)) => {
            let message = error.message.clone();
            refused.bind(py).call1(("state", message, exception(py, error)))
        }
    };
    let back = told
        .and_then(|answer| if answer.is_none() { Ok(None) } else { answer.extract::<SwapOrder>().map(Some) });
    match back {
        Ok(back) => Some(Box::new(back?.into_swap(index, &flow.upgrade()?))),
        Err(error) => {
            error.write_unraisable(py, Some(exchanged.bind(py)));
            None
        }
    }
}

/// The host's exception, or one with the message of native code.
fn exception(py: Python<'_>, error: StageError) -> Bound<'_, PyAny> {
    match &error.object {
        Some(raised) => object(py, raised),
        None => {
            let made = pyo3::exceptions::PyRuntimeError::new_err(error.message);
            made.into_value(py).into_bound(py).into_any()
        }
    }
}
