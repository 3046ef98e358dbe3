//! The steps of an engine in Python, read where their text is guarded and sent.
//!
//! An async iterator. While it is open, text of the only choice goes to the client here, without a step of Python but the
//! engine's own; what else the engine sends comes out. It is also its own awaitable: one reader waits for one step.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use pyo3::exceptions::PyStopIteration;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::iterator::PySendResult;
use pyo3::types::{PyIterator, PyList, PyString, PyTuple};

use crate::client::direct::{DirectText, Fared};
use crate::flow::NativeFlow;
use crate::lock::lock;

/// An engine that never waits is left after that time, so that its reader lets others take their turns.
const SLICE: Duration = Duration::from_micros(500);

/// Where text goes.
struct Open {
    text: Py<DirectText>,
    flow: Option<Py<NativeFlow>>,
    /// At so many tokens the choice ends, which is for Python.
    tokens_left: u64,
}

#[derive(Default)]
struct State {
    open: Option<Open>,
    /// The engine's own wait for its next step, absent while it runs.
    waiting: Option<Py<PyIterator>>,
    /// When the first step came since the engine last waited, or its reader has taken a turn.
    began: Option<Instant>,
    is_turn_over: bool,
}

#[pyclass(frozen, module = "torvyn._native")]
pub struct DirectSteps {
    engine: Py<PyAny>,
    state: Mutex<State>,
}

/// What became of a step.
enum Taken {
    /// The client gets it.
    Sent,
    /// The reader must flush, or take over what left the flow.
    ForReader,
    /// Python must look at it.
    Left,
}

#[pymethods]
impl DirectSteps {
    #[new]
    fn new(engine: Py<PyAny>) -> Self {
        Self { engine, state: Mutex::default() }
    }

    /// From the next step on, text goes there, as long as there are less than so many tokens.
    #[pyo3(signature = (text, flow, tokens_left))]
    fn open(&self, text: Py<DirectText>, flow: Option<Py<NativeFlow>>, tokens_left: u64) {
        lock(&self.state).open = Some(Open { text, flow, tokens_left });
    }

    /// From the next step on, everything comes out. From any thread.
    fn shut(&self) {
        // Dropped without the lock: it may be the last reference.
        let _open = lock(&self.state).open.take();
    }

    /// Whether the engine was left because it has not waited for a while.
    #[getter(is_turn_over)]
    fn was_turn_over(&self) -> bool {
        lock(&self.state).is_turn_over
    }

    /// Others had their turns.
    fn begin_turn(&self) {
        let mut state = lock(&self.state);
        (state.is_turn_over, state.began) = (false, None);
    }

    fn __aiter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// The awaitable of the next step for Python; None: the reader must flush, or absorb.
    fn __anext__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let this = slf.get();
        if lock(&this.state).open.is_some() { Ok(slf.clone().into_any()) } else { this.ask(slf.py()) }
    }

    fn __await__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let waiting = lock(&self.state).waiting.take();
        let waiting = match waiting {
            Some(waiting) => waiting.into_bound(py),
            None => self.begin_wait(py)?,
        };
        let sent = waiting.send(&py.None().into_bound(py));
        self.resume(py, waiting, sent)
    }

    /// The wait has failed or was cancelled: so was the engine's own.
    #[pyo3(signature = (error, value=None, traceback=None))]
    fn throw<'py>(
        &self,
        py: Python<'py>,
        error: &Bound<'py, PyAny>,
        value: Option<&Bound<'py, PyAny>>,
        traceback: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let waiting = lock(&self.state).waiting.take();
        let Some(waiting) = waiting.map(|waiting| waiting.into_bound(py)) else {
            return Err(PyErr::from_value(error.clone()));
        };
        let arguments = match (value, traceback) {
            (None, _) => PyTuple::new(py, [error])?,
            (Some(value), None) => PyTuple::new(py, [error, value])?,
            (Some(value), Some(traceback)) => PyTuple::new(py, [error, value, traceback])?,
        };
        let thrown = match waiting.call_method1(intern!(py, "throw"), arguments) {
            Ok(value) => Ok(PySendResult::Next(value)),
            Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
                error.value(py).getattr(intern!(py, "value")).map(PySendResult::Return)
            }
            Err(error) => Err(error),
        };
        self.resume(py, waiting, thrown)
    }

    /// Gives up the wait.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let waiting = lock(&self.state).waiting.take();
        waiting.map_or(Ok(()), |waiting| waiting.call_method0(py, intern!(py, "close")).map(drop))
    }
}

impl DirectSteps {
    /// What the engine offers to wait for.
    fn ask<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.engine.bind(py).call_method0(intern!(py, "__anext__"))
    }

    fn begin_wait<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        // That of an async generator is an iterator itself.
        match self.ask(py)?.cast_into() {
            Ok(waiting) => Ok(waiting),
            Err(other) => Ok(other.into_inner().call_method0(intern!(py, "__await__"))?.cast_into()?),
        }
    }

    /// Goes on where the engine has waited, until it waits again or Python must go on.
    fn resume<'py>(
        &self,
        py: Python<'py>,
        mut waiting: Bound<'py, PyIterator>,
        mut sent: PyResult<PySendResult<'py>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let none = py.None().into_bound(py);
        loop {
            let step = match sent? {
                PySendResult::Next(value) => {
                    let mut state = lock(&self.state);
                    state.began = None;
                    state.waiting = Some(waiting.unbind());
                    return Ok(Some(value));
                }
                PySendResult::Return(step) => step,
            };
            match self.take(&step)? {
                Taken::Sent if !self.is_turn_over() => {}
                Taken::Sent | Taken::ForReader => {
                    self.shut();
                    return Ok(None);
                }
                Taken::Left => {
                    self.shut();
                    return Err(PyStopIteration::new_err((step.unbind(),)));
                }
            }
            waiting = self.begin_wait(py)?;
            sent = waiting.send(&none);
        }
    }

    fn is_turn_over(&self) -> bool {
        let mut state = lock(&self.state);
        let began = *state.began.get_or_insert_with(Instant::now);
        state.is_turn_over = began.elapsed() >= SLICE;
        state.is_turn_over
    }

    fn take(&self, step: &Bound<'_, PyAny>) -> PyResult<Taken> {
        let py = step.py();
        // A step that cannot be read is reported by whoever reads all of it.
        let Ok(Some((text, tokens))) = plain_text(step) else { return Ok(Taken::Left) };
        let Ok(text) = text.to_str() else { return Ok(Taken::Left) };
        let (direct, flow) = {
            let mut state = lock(&self.state);
            let Some(open) = state.open.as_mut().filter(|open| tokens < open.tokens_left) else {
                return Ok(Taken::Left);
            };
            open.tokens_left -= tokens;
            (open.text.clone_ref(py), open.flow.as_ref().map(|flow| flow.clone_ref(py)))
        };
        let direct = direct.get();
        Ok(match direct.put_text(py, text, flow.as_ref().map(Py::get), tokens)? {
            Fared::NotTaken => Taken::Left,
            Fared::Kept => Taken::Sent,
            Fared::Due if direct.flush() && direct.goes_on() => Taken::Sent,
            Fared::Due | Fared::ForPython => Taken::ForReader,
        })
    }
}

/// The text that a step adds to the only choice, and how many tokens, if it adds nothing else.
fn plain_text<'py>(step: &Bound<'py, PyAny>) -> PyResult<Option<(Bound<'py, PyString>, u64)>> {
    let py = step.py();
    let choices = step.getattr(intern!(py, "choices"))?;
    let part = match (choices.cast::<PyTuple>(), choices.cast::<PyList>()) {
        (Ok(parts), _) if parts.len() == 1 => parts.get_item(0)?,
        (_, Ok(parts)) if parts.len() == 1 => parts.get_item(0)?,
        _ => return Ok(None),
    };
    let kind = part.getattr(intern!(py, "kind"))?;
    let is_plain = step.getattr(intern!(py, "usage"))?.is_none()
        && part.getattr(intern!(py, "finish_reason"))?.is_none()
        && part.getattr(intern!(py, "call"))?.is_none()
        && !part.getattr(intern!(py, "token_ids"))?.is_truthy()?
        && !part.getattr(intern!(py, "index"))?.is_truthy()?
        && (kind.is(intern!(py, "text")) || kind.eq(intern!(py, "text"))?);
    let text = part.getattr(intern!(py, "text"))?;
    if !is_plain || !text.is_truthy()? {
        return Ok(None);
    }
    let tokens = part.getattr(intern!(py, "tokens"))?.extract()?;
    Ok(text.cast_into::<PyString>().ok().map(|text| (text, tokens)))
}
