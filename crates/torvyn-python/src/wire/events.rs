//! Parsers of event streams and OpenAI chunks for Python.

use std::borrow::Cow;

use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use torvyn_frames::{Event, EventError, Limits, Quick, Shape, event};

/// The exception for a failure on the wire; `torvyn.protocol.failures` writes the message.
pub fn failure(py: Python<'_>, kind: &str, number: usize) -> PyErr {
    let made = py
        .import("torvyn.protocol.failures")
        .and_then(|module| module.getattr("wire_failure"))
        .and_then(|make| make.call1((kind, number)));
    made.map_or_else(|error| error, PyErr::from_value)
}

fn event_error(py: Python<'_>, error: EventError) -> PyErr {
    match error {
        EventError::LineTooLong { limit } => failure(py, "line-too-long", limit),
        EventError::EventTooLarge { limit } => failure(py, "event-too-large", limit),
    }
}

/// One server-sent event.
#[pyclass(frozen, module = "torvyn._native", get_all)]
pub struct ServerEvent {
    /// Its type; `message` by default.
    event: Py<PyString>,
    data: Py<PyString>,
    /// The last id of the stream.
    id: Py<PyString>,
}

#[pymethods]
impl ServerEvent {
    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let part = |text: &Py<PyString>| text.bind(py).repr().map(|repr| repr.to_string());
        Ok(format!(
            "ServerEvent(event={}, data={}, id={})",
            part(&self.event)?,
            part(&self.data)?,
            part(&self.id)?
        ))
    }
}

fn event_object(py: Python<'_>, event: Event<'_>) -> PyResult<Py<ServerEvent>> {
    let text = |bytes| PyString::new(py, &String::from_utf8_lossy(bytes)).unbind();
    let kind = if event.kind.is_empty() { b"message" } else { event.kind };
    Py::new(py, ServerEvent { event: text(kind), data: text(event.data), id: text(event.id) })
}

/// Parses a stream of server-sent events.
#[pyclass(module = "torvyn._native")]
pub struct EventParser(event::EventParser);

#[pymethods]
impl EventParser {
    #[new]
    #[pyo3(signature = (*, line_limit=1_048_576, event_limit=8_388_608))]
    fn new(line_limit: usize, event_limit: usize) -> Self {
        Self(event::EventParser::new(Limits { line: line_limit, event: event_limit }))
    }

    /// The events that these bytes complete. Events before an error are returned first; the next call raises the error.
    fn put<'py>(&mut self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyList>> {
        let events = PyList::empty(py);
        let mut problem = Ok(());
        let outcome = self.0.put(data, |event| {
            let appended = event_object(py, event).and_then(|made| events.append(made));
            problem = std::mem::replace(&mut problem, Ok(())).and(appended);
        });
        problem?;
        give(py, events, outcome)
    }

    /// Ends the input: raises the error that stopped the parser. An incomplete event is dropped, as the standard says.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        self.0.failure().map_or(Ok(()), |error| Err(event_error(py, error)))
    }

    /// Bytes of an incomplete event.
    #[getter]
    fn held_bytes(&self) -> usize {
        self.0.held_bytes()
    }

    /// What to send as `Last-Event-ID` when resuming.
    #[getter]
    fn last_event_id(&self) -> String {
        String::from_utf8_lossy(self.0.last_id()).into_owned()
    }

    /// How long to wait before resuming, if the stream said so.
    #[getter]
    fn retry_ms(&self) -> Option<u64> {
        self.0.retry_ms()
    }
}

fn give<'py>(
    py: Python<'py>,
    made: Bound<'py, PyList>,
    outcome: Result<(), EventError>,
) -> PyResult<Bound<'py, PyList>> {
    match outcome {
        Err(error) if made.is_empty() => Err(event_error(py, error)),
        _ => Ok(made),
    }
}

/// Parses an OpenAI stream: `(index, text)` for common chunks, `ServerEvent` for others.
#[pyclass(module = "torvyn._native")]
pub struct ChunkParser {
    events: event::EventParser,
    quick: Quick,
    /// The first chunk identifies the answer: the full decoder reads it.
    has_begun: bool,
}

#[pymethods]
impl ChunkParser {
    #[new]
    #[pyo3(signature = (dialect, *, line_limit=1_048_576, event_limit=8_388_608))]
    fn new(dialect: &str, line_limit: usize, event_limit: usize) -> PyResult<Self> {
        let shape = match dialect {
            "openai-chat" => Shape::Chat,
            "openai-completions" => Shape::Completion,
            _ => return Err(PyValueError::new_err(format!("unknown OpenAI dialect {dialect:?}"))),
        };
        let limits = Limits { line: line_limit, event: event_limit };
        Ok(Self {
            events: event::EventParser::with_error_fields(limits),
            quick: Quick::new(shape),
            has_begun: false,
        })
    }

    /// What these bytes complete. Chunks before an error are returned first; the next call raises the error.
    fn put<'py>(&mut self, py: Python<'py>, data: &[u8]) -> PyResult<Bound<'py, PyList>> {
        let made = PyList::empty(py);
        let mut problem = Ok(());
        let outcome = self.parse(data, false, |part| {
            let appended = part.to_python(py).and_then(|part| made.append(part));
            problem = std::mem::replace(&mut problem, Ok(())).and(appended);
        });
        problem?;
        give(py, made, outcome)
    }

    /// Ends the input: raises the error that stopped the parser.
    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        self.events.failure().map_or(Ok(()), |error| Err(event_error(py, error)))
    }

    /// Bytes of an incomplete event.
    #[getter]
    fn held_bytes(&self) -> usize {
        self.events.held_bytes()
    }
}

/// Azure sends a chunk without choices, id and model before the first one.
fn names_its_answer(chunk: &[u8]) -> bool {
    let empty = b"\"choices\":[]";
    !chunk.windows(empty.len()).any(|part| part == empty)
}

/// A part of an OpenAI stream.
pub enum Part<'a> {
    /// New text of a choice, and nothing else.
    Text(u32, Cow<'a, str>),
    Event(Event<'a>),
}

impl Part<'_> {
    /// `(index, text)`, or a `ServerEvent`.
    pub fn to_python<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self {
            Self::Text(index, text) => (*index, PyString::new(py, text)).into_bound_py_any(py),
            Self::Event(event) => event_object(py, *event)?.into_bound_py_any(py),
        }
    }
}

impl ChunkParser {
    /// Gives each part that these bytes complete to `take`, in order. `is_anonymous`: nobody asks what identifies the
    /// answer, so the first chunk is like any other.
    pub fn parse(
        &mut self,
        data: &[u8],
        is_anonymous: bool,
        mut take: impl FnMut(Part<'_>),
    ) -> Result<(), EventError> {
        let Self { events, quick, has_begun } = self;
        events.put(data, |event| {
            let mut texts = Vec::new();
            let may_be_quick = (*has_begun || is_anonymous) && event.kind.is_empty();
            if may_be_quick && quick.texts(event.data, &mut texts).is_some() {
                texts.into_iter().for_each(|(index, text)| take(Part::Text(index, text)));
            } else {
                take(Part::Event(event));
            }
            *has_begun = *has_begun || names_its_answer(event.data);
        })
    }

    /// Whether the input was invalid: nothing more is parsed.
    pub fn has_failed(&self) -> bool {
        self.events.failure().is_some()
    }
}
