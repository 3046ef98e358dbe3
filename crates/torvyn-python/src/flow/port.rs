//! The port of an offloaded stage, for its Python runner: takes tasks, returns results, waits for credit.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use torvyn_reactor::{Offload, Role, Task, TaskResult};
use torvyn_stream::{Answers, End, Outbox, Pull, Settled, StageError, Step};

use crate::component::batch_results::{interpret, pull_batch_step};
use crate::component::interpret::{
    Answer, PortNames, emit_item, filter_step, made_step, pull_step, sink_step,
};
use crate::element::convert::{NodeContext, component_error, element_object, end_object, end_of};
use crate::enums::{TaskKind, from_python, to_python};
use crate::flow::waker::PyWaker;
use crate::symbols::Symbols;

#[pyclass(frozen, module = "torvyn._native")]
pub struct Port {
    pub exchange: Arc<Offload>,
    role: Role,
    ports: PortNames,
    node_context: std::sync::OnceLock<NodeContext>,
    /// The last result has been delivered.
    ended: AtomicBool,
    /// Whether its source asks for acknowledgements.
    pub acknowledges: bool,
}

impl Port {
    pub fn set_node_context(&self, node_context: NodeContext) {
        let _ = self.node_context.set(node_context);
    }

    pub fn role(&self) -> Role {
        self.role
    }

    fn deliver(&self, out: Outbox, outcome: Result<Step, StageError>, consumed: bool) -> bool {
        self.deliver_held(out, outcome, consumed, None)
    }

    fn deliver_held(
        &self,
        out: Outbox,
        outcome: Result<Step, StageError>,
        consumed: bool,
        held_elements: Option<usize>,
    ) -> bool {
        self.exchange.give(TaskResult {
            consumed,
            made: out.made,
            ports: out.ports,
            outcome,
            last: false,
            end: None,
            followed: false,
            held_elements,
        })
    }

    fn step(
        &self,
        py: Python<'_>,
        symbols: &Symbols,
        value: Bound<'_, PyAny>,
        out: &mut Outbox,
    ) -> Result<Step, StageError> {
        match self.role {
            Role::Filter => filter_step(py, symbols, &value, out),
            Role::Sink => sink_step(symbols, &value),
            Role::Router => self.ports.route(py, &value, out),
            role => match made_step(py, symbols, role, value, out)? {
                Answer::Step(step) => Ok(step),
                Answer::Iterator(items) => {
                    for item in items.try_iter().map_err(|error| component_error(py, error))? {
                        let item = item.map_err(|error| component_error(py, error))?;
                        emit_item(py, symbols, role, &item, out)?;
                    }
                    Ok(Step::Done)
                }
            },
        }
    }
}

#[pymethods]
impl Port {
    #[new]
    #[pyo3(signature = (role, ports, acknowledges=false))]
    fn new(
        py: Python<'_>,
        role: &Bound<'_, PyAny>,
        ports: Vec<String>,
        acknowledges: bool,
    ) -> PyResult<Self> {
        let names = ports.iter().map(|name| PyString::intern(py, name).unbind()).collect();
        Ok(Self {
            exchange: Arc::default(),
            role: from_python(role)?,
            ports: PortNames(names),
            node_context: std::sync::OnceLock::new(),
            ended: AtomicBool::new(false),
            acknowledges,
        })
    }

    /// Sets what is notified when the port has tasks or credit.
    fn notify(&self, waker: &Bound<'_, PyWaker>, token: u64) {
        self.exchange.set_worker(waker.get().notifier(token));
    }

    /// Whether the flow has stopped, or the stage has delivered its last result.
    #[getter]
    fn stopped(&self) -> bool {
        self.ended.load(Ordering::Acquire) || self.exchange.is_stopped()
    }

    /// Whether the runner waits for the reactor and has nothing to deliver.
    #[getter]
    fn idle(&self) -> bool {
        self.exchange.is_idle(self.ended.load(Ordering::Acquire))
    }

    /// Whether the reactor has results left to fetch.
    #[getter]
    fn has_results(&self) -> bool {
        self.exchange.has_results()
    }

    /// How many results it has given to the flow.
    #[getter]
    fn given(&self) -> u64 {
        self.exchange.given()
    }

    /// All tasks, each with its kind and value.
    fn take<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let symbols = Symbols::get(py)?;
        let tasks = PyList::empty(py);
        for task in self.exchange.take() {
            let (kind, value) = match task {
                Task::Accept(element) => {
                    let Some(node_context) = self.node_context.get() else { continue };
                    (TaskKind::Element, element_object(py, symbols, &element, node_context)?.into_any())
                }
                Task::Flush(end) => (TaskKind::Flush, end_object(py, symbols, &end)?.into_any()),
                Task::Complete(end) => (TaskKind::Complete, end_object(py, symbols, &end)?.into_any()),
                Task::Pressure(active) => {
                    let signal = if active { &symbols.pause } else { &symbols.ready };
                    (TaskKind::Pressure, signal.bind(py).clone())
                }
                Task::Interrupt => (TaskKind::Interrupt, py.None().into_bound(py)),
            };
            tasks.append((to_python(py, kind)?, value))?;
        }
        Ok(tasks)
    }

    /// How many more elements of a source are settled since the last call.
    fn take_settled(&self) -> u64 {
        self.exchange.take_settled()
    }

    /// How many elements the component may emit now.
    fn credit(&self) -> usize {
        self.exchange.credit()
    }

    /// Blocks until there are tasks or credit. False: the flow has stopped.
    #[pyo3(signature = (for_credit=false, timeout_s=3600.0))]
    fn wait(&self, py: Python<'_>, for_credit: bool, timeout_s: f64) -> bool {
        if self.stopped() {
            return false;
        }
        let exchange = self.exchange.clone();
        py.detach(move || exchange.wait(for_credit, Duration::from_secs_f64(timeout_s)))
    }

    /// Answers the oldest element. False: an interrupt has dropped it.
    #[pyo3(signature = (value, held_elements=None))]
    fn answer(
        &self,
        py: Python<'_>,
        value: Bound<'_, PyAny>,
        held_elements: Option<usize>,
    ) -> PyResult<bool> {
        let mut out = Outbox::default();
        let outcome = self.step(py, Symbols::get(py)?, value, &mut out);
        Ok(self.deliver_held(out, outcome, true, held_elements))
    }

    /// The component takes all that waits in one call. Must be called before the flow is built.
    fn take_batches(&self) {
        self.exchange.set_in_batches();
    }

    /// Answers the oldest `count` elements with what the batch method returned. False: the flow has stopped, or decides
    /// what follows an error.
    #[pyo3(signature = (value, count, held_elements=None))]
    fn answer_batch(
        &self,
        py: Python<'_>,
        value: Bound<'_, PyAny>,
        count: usize,
        held_elements: Option<usize>,
    ) -> PyResult<bool> {
        let mut answers = Answers::default();
        let interpreted = interpret(Symbols::get(py)?, self.role, &value, count, |_| None, &mut answers);
        if let Err(error) = interpreted {
            return Ok(self.deliver(Outbox::default(), Err(error), true));
        }
        let mut made = answers.made.into_iter();
        let result = |(at, settled): (usize, Settled)| TaskResult {
            consumed: true,
            made: made.by_ref().take(settled.made()).collect(),
            ports: Vec::new(),
            outcome: settled.outcome(),
            last: false,
            end: None,
            followed: at + 1 < count,
            held_elements,
        };
        let results = answers.settled.into_iter().enumerate().map(result).collect();
        Ok(self.exchange.give_batch(results))
    }

    /// Resumes a sink that answered with PAUSE. False: the flow has stopped.
    fn resumed(&self) -> bool {
        self.exchange.give_resumed()
    }

    /// Emits an element before the answer.
    fn emit(&self, py: Python<'_>, value: Bound<'_, PyAny>) -> PyResult<bool> {
        let mut out = Outbox::default();
        let outcome = emit_item(py, Symbols::get(py)?, self.role, &value, &mut out);
        Ok(self.deliver(out, outcome.map(|()| Step::Done), false))
    }

    /// Reports that the call for the oldest element failed; a source has none.
    #[pyo3(signature = (error, consumed=true))]
    fn fail(&self, py: Python<'_>, error: Bound<'_, PyAny>, consumed: bool) -> bool {
        let error = component_error(py, PyErr::from_value(error));
        self.deliver(Outbox::default(), Err(error), consumed)
    }

    /// Reports that a flush, a completion or a whole stream failed.
    fn fail_last(&self, py: Python<'_>, error: Bound<'_, PyAny>) -> bool {
        let error = component_error(py, PyErr::from_value(error));
        self.close(Outbox::default(), Err(error), None)
    }

    /// Delivers a source's item. Returns the seconds to wait for `PENDING.after`, -1 for `PENDING`, else None.
    fn pulled(&self, py: Python<'_>, value: Bound<'_, PyAny>) -> PyResult<Option<f64>> {
        let mut out = Outbox::default();
        match pull_step(py, Symbols::get(py)?, &value, 0) {
            Ok(Pull::Ready(made)) => {
                out.emit(made);
                self.deliver(out, Ok(Step::Done), false)
            }
            Ok(Pull::Pending(after)) => return Ok(Some(after.map_or(-1.0, |ns| ns as f64 / 1e9))),
            Ok(Pull::End(end)) => self.close(out, Ok(Step::Done), Some(end)),
            Err(error) => self.deliver(out, Err(error), false),
        };
        Ok(None)
    }

    /// Delivers what `pull_batch` returned. The result is that of `pulled`.
    fn pulled_batch(&self, py: Python<'_>, value: Bound<'_, PyAny>, most: usize) -> PyResult<Option<f64>> {
        let mut out = Outbox::default();
        let outcome = pull_batch_step(Symbols::get(py)?, &value, most, 0, &mut out);
        if !out.made.is_empty() {
            self.deliver(out, Ok(Step::Done), false);
        }
        match outcome {
            Ok(Some(Pull::Pending(after))) => return Ok(Some(after.map_or(-1.0, |ns| ns as f64 / 1e9))),
            Ok(Some(Pull::End(end))) => self.close(Outbox::default(), Ok(Step::Done), Some(end)),
            Ok(_) => true,
            Err(error) => self.deliver(Outbox::default(), Err(error), false),
        };
        Ok(None)
    }

    /// Delivers the last result: of a flush, a completion, or the end of a source.
    fn finish(&self, py: Python<'_>, value: Bound<'_, PyAny>) -> PyResult<()> {
        let symbols = Symbols::get(py)?;
        let mut out = Outbox::default();
        if let Some(end) = end_of(symbols, &value) {
            self.close(out, Ok(Step::Done), Some(end));
            return Ok(());
        }
        let outcome = match self.role {
            Role::Processor | Role::Aggregator => self.step(py, symbols, value, &mut out),
            Role::Filter if value.is_instance(symbols.verdict_type.bind(py)).unwrap_or(false) => {
                filter_step(py, symbols, &value, &mut out)
            }
            Role::Filter => made_step(py, symbols, self.role, value, &mut out).map(|_| Step::Done),
            _ => Ok(Step::Done),
        };
        self.close(out, outcome, None);
        Ok(())
    }
}

impl Port {
    fn close(&self, out: Outbox, outcome: Result<Step, StageError>, end: Option<End>) -> bool {
        self.ended.store(true, Ordering::Release);
        self.exchange.give(TaskResult {
            consumed: false,
            made: out.made,
            ports: out.ports,
            outcome,
            last: true,
            end,
            followed: false,
            held_elements: None,
        })
    }
}
