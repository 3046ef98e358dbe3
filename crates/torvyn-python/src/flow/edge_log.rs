//! The log of an edge that leaves the process, for its carrier in Python.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use torvyn_log::{
    Attributes, BatchBuilder, Bell, EdgeLog, Keys, Lane, Limits, LogReader, LogWriter, Marks, Receipts,
    Restore, decode,
};
use torvyn_stream::{
    ContentType, Delivery, Element, Emission, ErrorKind, Foreign, Payload, Stage, StageError,
};
use torvyn_text::text_field;

use crate::element::convert::{attributes_of, bare_element, component_error};
use crate::element::foreign::{foreign, object};
use crate::interpreter;
use crate::lock::lock;
use crate::symbols::Symbols;

/// Decoding so much takes less time than to give the interpreter away and to get it back.
const QUICK_BYTES: usize = 32 * 1024;

/// Wakes the carrier of a flow.
#[pyclass(frozen, module = "torvyn._native", name = "Bell")]
pub struct PyBell(pub Arc<Bell>);

#[pymethods]
impl PyBell {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    fn ring(&self) {
        self.0.ring();
    }

    /// Waits until it rings. False when the time has passed before.
    fn wait(&self, py: Python<'_>, timeout_s: f64) -> bool {
        let bell = self.0.clone();
        interpreter::detached(py, move || bell.wait(Duration::from_secs_f64(timeout_s)))
    }
}

/// Unix time in nanoseconds, content type, attributes as JSON or nothing, payload.
type StoredElement = (i64, String, Py<PyBytes>, Py<PyBytes>);

/// The receipts of a batch, which are settled when it is durable.
#[pyclass(frozen, module = "torvyn._native", name = "BatchReceipts")]
pub struct PyReceipts(Mutex<Receipts>);

#[pymethods]
impl PyReceipts {
    fn settle(&self) {
        lock(&self.0).settle();
    }
}

/// First sequence number, count, Unix time of the newest element, body, receipts, key.
type TakenBatch = (u64, u32, i64, Py<PyBytes>, PyReceipts, Option<Py<PyString>>);

#[pyclass(frozen, module = "torvyn._native", name = "EdgeLog")]
pub struct PyEdgeLog(pub Arc<EdgeLog>);

impl PyEdgeLog {
    pub fn writer(&self) -> Box<dyn Stage> {
        Box::new(LogWriter::new(self.0.clone()))
    }

    pub fn reader(&self, rate: f64, by_checkpoint: bool) -> Box<dyn Stage> {
        Box::new(LogReader::new(self.0.clone(), rate, by_checkpoint))
    }
}

#[pymethods]
impl PyEdgeLog {
    // Arguments of one call in Python.
    #[allow(clippy::too_many_arguments)]
    #[new]
    #[pyo3(signature = (bell, next_sequence, buffer_bytes, max_element_bytes, pauses, batch_bytes=None, key=None, field=None))]
    fn new(
        bell: &Bound<'_, PyBell>,
        next_sequence: u64,
        buffer_bytes: usize,
        max_element_bytes: usize,
        pauses: bool,
        batch_bytes: Option<usize>,
        key: Option<Py<PyAny>>,
        field: Option<String>,
    ) -> Self {
        let bell = bell.get().0.clone();
        let codec = Box::new(JsonAttributes);
        let limits = Limits { buffer_bytes, pauses, max_element_bytes, batch_bytes };
        let keys = key.map(|function| Box::new(KeyFunction { field, function }) as Box<dyn Keys>);
        Self(Arc::new(EdgeLog::new(bell, codec, next_sequence, limits, keys)))
    }

    fn set_offset(&self, offset_ns: i64) {
        self.0.set_offset_ns(offset_ns);
    }

    /// The wall clock was set: later elements are written with this offset.
    fn step_offset(&self, offset_ns: i64) {
        self.0.step_offset_ns(offset_ns);
    }

    /// Everything that waits for the carrier, as one batch, or None.
    fn take(&self, py: Python<'_>) -> Option<TakenBatch> {
        let batch = self.0.take()?;
        let body = PyBytes::new(py, &batch.body).unbind();
        let receipts = PyReceipts(Mutex::new(batch.receipts));
        let key = batch.key.map(|key| PyString::new(py, &key).unbind());
        Some((batch.first, batch.count, batch.newest_ns, body, receipts, key))
    }

    fn fail(&self, message: String) {
        self.0.fail(message);
    }

    #[getter]
    fn pending(&self) -> (u32, usize) {
        self.0.pending()
    }

    #[getter]
    fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Puts batches in front of what waits; returns the number of their first element. Raises ValueError when one is
    /// damaged, and then puts none.
    fn put_back(&self, batches: Vec<Vec<u8>>, now_ns: i64) -> PyResult<u64> {
        self.0.put_back(&batches, now_ns).map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// A batch of one element of bytes.
    #[staticmethod]
    fn encode(py: Python<'_>, payload: &[u8], time_ns: i64) -> Py<PyBytes> {
        let mut batch = BatchBuilder::default();
        let emission = Emission {
            payload: Payload::from_slice(payload),
            len: payload.len() as u32,
            content_type: ContentType::BINARY,
            companion: None,
            delivery: Delivery::default(),
        };
        batch.push(&Element::made(emission, 0, 0, 0), payload, time_ns, &[]);
        PyBytes::new(py, &batch.finish()).unbind()
    }

    /// The elements of a batch; raises ValueError when it is damaged.
    #[staticmethod]
    fn decode(py: Python<'_>, batch: &[u8]) -> PyResult<Vec<StoredElement>> {
        let stored = decode(batch).map_err(|error| PyValueError::new_err(error.to_string()))?;
        let bytes = |data: &[u8]| PyBytes::new(py, data).unbind();
        let elements = stored.iter().map(|one| {
            (one.time_ns, one.name.as_str().to_owned(), bytes(one.attributes), bytes(one.payload))
        });
        Ok(elements.collect())
    }

    /// Supplies the reader with a part of a batch; raises ValueError when it is damaged.
    // Keyword arguments of one call in Python.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (body, first, start, end, *, is_backlog, is_historical=false, is_live=false))]
    fn supply(
        &self,
        py: Python<'_>,
        body: &[u8],
        first: u64,
        start: u64,
        end: u64,
        is_backlog: bool,
        is_historical: bool,
        is_live: bool,
    ) -> PyResult<usize> {
        let lane = if is_live { Lane::Live } else { Lane::Ordered };
        let how = Restore { lane, is_backlog, is_historical };
        let log = self.0.clone();
        let supply = move || log.supply(body, first, start..end, how);
        let is_quick = body.len() <= QUICK_BYTES;
        let supplied = if is_quick { supply() } else { interpreter::detached(py, supply) };
        supplied.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Takes a range back from the reader if `expected` elements of it wait there.
    fn withdraw(&self, start: u64, end: u64, expected: usize) -> bool {
        self.0.withdraw(start..end, expected)
    }

    fn withdraw_all(&self) -> Vec<(u64, u64)> {
        self.0.withdraw_all()
    }

    #[getter]
    fn waiting(&self) -> (usize, usize) {
        self.0.waiting()
    }

    #[getter]
    fn live_bytes(&self) -> usize {
        self.0.live_bytes()
    }

    #[getter]
    fn unsettled(&self) -> u64 {
        self.0.unsettled()
    }

    fn finish(&self) {
        self.0.finish();
    }

    fn take_settled(&self) -> Vec<(u64, u64)> {
        self.0.take_settled()
    }

    fn take_expired(&self) -> Vec<(u64, u64)> {
        self.0.take_expired()
    }

    fn take_emitted(&self) -> Vec<(u64, u64)> {
        self.0.take_emitted()
    }
}

/// Calls a function of Python with each element, unless the key is a field that is found without it.
struct KeyFunction {
    field: Option<String>,
    function: Py<PyAny>,
}

impl Keys for KeyFunction {
    fn key_of(&self, element: &Element, payload: &[u8]) -> Result<Arc<str>, StageError> {
        if let Some(key) = self.field.as_ref().and_then(|field| text_field(payload, field)) {
            return Ok(key.into());
        }
        Python::attach(|py| {
            let read = || -> PyResult<Arc<str>> {
                let made = bare_element(py, Symbols::get(py)?, element)?;
                Ok(self.function.bind(py).call1((made,))?.extract::<&str>()?.into())
            };
            read().map_err(|error| component_error(py, error))
        })
    }
}

/// Attributes are stored as JSON.
pub struct JsonAttributes;

impl Attributes for JsonAttributes {
    fn encode(&self, companion: &Foreign, out: &mut Vec<u8>) -> Result<(), StageError> {
        Python::attach(|py| {
            let mut write = || -> PyResult<()> {
                let Some(attributes) = attributes_of(py, Symbols::get(py)?, companion) else { return Ok(()) };
                let text = py.import("json")?.call_method1("dumps", (attributes,))?;
                out.extend_from_slice(text.extract::<&str>()?.as_bytes());
                Ok(())
            };
            write().map_err(|error| {
                let error = component_error(py, error);
                let message = format!("its attributes cannot be stored: {}", error.message);
                StageError::new(ErrorKind::InvalidInput, message)
            })
        })
    }

    fn decode(&self, stored: &[u8]) -> Option<Foreign> {
        Python::attach(|py| {
            let read = || -> PyResult<Bound<'_, PyDict>> {
                let value = py.import("json")?.call_method1("loads", (PyBytes::new(py, stored),))?;
                Ok(value.cast_into::<PyDict>()?)
            };
            read().ok().map(|attributes| foreign(attributes.into_any()))
        })
    }

    fn mark(&self, decoded: Option<Foreign>, marks: Marks) -> Option<Foreign> {
        Python::attach(|py| {
            let attributes =
                decoded.as_ref().and_then(|decoded| object(py, decoded).cast_into::<PyDict>().ok());
            let attributes = attributes.unwrap_or_else(|| PyDict::new(py));
            let mark = || -> PyResult<()> {
                if let Some(time_ns) = marks.event_time_ns {
                    attributes.set_item("event_time_ns", time_ns)?;
                }
                if marks.is_historical {
                    attributes.set_item("historical", true)?;
                }
                Ok(())
            };
            mark().ok().map(|()| foreign(attributes.into_any()))
        })
    }
}
