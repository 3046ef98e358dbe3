//! `torvyn.Element` for Python: frozen, owns its data, and exports it by the buffer protocol.

pub mod batch;
pub mod convert;
pub mod emission;
pub mod foreign;
pub mod port_ids;

use std::sync::Arc;

use pyo3::exceptions::{PyAttributeError, PyBufferError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::pyclass::CompareOp;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyMemoryView, PyString, PyTuple};
use torvyn_reactor::SharedState;
use torvyn_stream::{ContentName, ContentType, CopyReason, LONGEST_NAME, Payload};

use crate::element::emission::json_text;
use crate::symbols::Symbols;

pub enum Data {
    Text(Py<PyString>),
    Bytes(Py<PyBytes>),
    /// Native bytes that Python has not read yet. The first reader pays for the copy.
    Native(Box<NativeData>),
}

pub struct NativeData {
    pub payload: Payload,
    pub len: u32,
    pub reader: Option<(Arc<SharedState>, u16)>,
    text: PyOnceLock<Py<PyString>>,
}

impl NativeData {
    pub fn new(payload: Payload, len: u32, reader: Option<(Arc<SharedState>, u16)>) -> Self {
        Self { payload, len, reader, text: PyOnceLock::new() }
    }

    fn bytes(&self) -> &[u8] {
        self.payload.bytes(self.len).unwrap_or_default()
    }

    fn note_copy(&self) {
        if let Some((shared, node)) = &self.reader {
            let ledger = &shared.nodes[usize::from(*node)].ledger;
            ledger.copy(CopyReason::NativeToHost, self.bytes().len() as u64);
        }
    }
}

/// An element of text. Its `text` is a plain member, which the interpreter reads without a call; otherwise it is an
/// `Element`.
#[pyclass(frozen, module = "torvyn", name = "Element", extends = PyElement)]
pub struct TextElement {
    #[pyo3(get)]
    pub text: Py<PyString>,
}

#[pyclass(frozen, module = "torvyn", name = "Element", weakref, subclass)]
pub struct PyElement {
    pub data: Data,
    #[pyo3(get)]
    pub sequence: u64,
    #[pyo3(get)]
    pub timestamp_ns: u64,
    pub content_type: ContentName,
    pub attributes: Option<Py<PyDict>>,
    pub context: Option<Py<PyAny>>,
}

impl PyElement {
    pub fn view(&self, py: Python<'_>) -> PyResult<&[u8]> {
        match &self.data {
            // SAFETY: the UTF-8 form is cached in the str, which this frozen object keeps alive.
            Data::Text(text) => text
                .bind(py)
                .to_str()
                .map(|text| unsafe { std::slice::from_raw_parts(text.as_ptr(), text.len()) }),
            Data::Bytes(bytes) => Ok(bytes.as_bytes(py)),
            Data::Native(native) => Ok(native.bytes()),
        }
    }

    /// Counts a copy of native bytes into Python.
    pub fn note_read(&self) {
        if let Data::Native(native) = &self.data {
            native.note_copy();
        }
    }

    fn data_object<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok(match &self.data {
            Data::Text(text) => text.bind(py).clone().into_any(),
            Data::Bytes(bytes) => bytes.bind(py).clone().into_any(),
            Data::Native(native) => match std::str::from_utf8(native.bytes()) {
                Ok(text) if !self.content_type.is(ContentType::BINARY) => PyString::new(py, text).into_any(),
                _ => PyBytes::new(py, native.bytes()).into_any(),
            },
        })
    }

    fn attributes_dict<'py>(&self, py: Python<'py>) -> Bound<'py, PyDict> {
        self.attributes.as_ref().map_or_else(|| PyDict::new(py), |dict| dict.bind(py).clone())
    }
}

#[pymethods]
impl PyElement {
    #[new]
    #[pyo3(signature = (data, sequence=0, timestamp_ns=0, content_type=None, attributes=None, context=None))]
    fn new(
        data: &Bound<'_, PyAny>,
        sequence: u64,
        timestamp_ns: u64,
        content_type: Option<&str>,
        attributes: Option<&Bound<'_, PyAny>>,
        context: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let py = data.py();
        let (data, default) = if let Ok(text) = data.cast::<PyString>() {
            (Data::Text(text.clone().unbind()), ContentName::TEXT)
        } else if let Ok(bytes) = data.cast::<PyBytes>() {
            (Data::Bytes(bytes.clone().unbind()), ContentName::BINARY)
        } else if let Some(text) = json_text(Symbols::get(py)?, data)? {
            (Data::Text(text.unbind()), ContentName::WellKnown(ContentType::JSON))
        } else {
            let kind = data.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "the data of an element must be str or bytes, not {kind}"
            )));
        };
        let content_type = match content_type.filter(|name| !name.is_empty()) {
            Some(name) => content_name(name)?,
            None => default,
        };
        let attributes = match attributes {
            Some(mapping) if mapping.is_truthy()? => {
                let dict = PyDict::new(py);
                dict.update(mapping.cast::<pyo3::types::PyMapping>()?)?;
                Some(dict.unbind())
            }
            _ => None,
        };
        Ok(Self { data, sequence, timestamp_ns, content_type, attributes, context })
    }

    /// The payload as text; raises `InvalidInput` when it is not UTF-8.
    #[getter]
    fn text<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        match &self.data {
            Data::Text(text) => Ok(text.bind(py).clone()),
            Data::Bytes(bytes) => match std::str::from_utf8(bytes.as_bytes(py)) {
                Ok(text) => Ok(PyString::new(py, text)),
                Err(error) => Err(not_utf8(py, &error)?),
            },
            Data::Native(native) => {
                if let Some(text) = native.text.get(py) {
                    return Ok(text.bind(py).clone());
                }
                match std::str::from_utf8(native.bytes()) {
                    Ok(text) => {
                        native.note_copy();
                        let text = native.text.get_or_init(py, || PyString::new(py, text).unbind());
                        Ok(text.bind(py).clone())
                    }
                    Err(error) => Err(not_utf8(py, &error)?),
                }
            }
        }
    }

    /// The payload as text; invalid bytes become U+FFFD.
    fn text_lossy<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyString>> {
        match &self.data {
            Data::Text(text) => Ok(text.bind(py).clone()),
            _ => Ok(PyString::new(py, &String::from_utf8_lossy(self.view(py)?))),
        }
    }

    /// The payload as JSON; raises `InvalidInput` when it is not JSON.
    fn json<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Symbols::get(slf.py())?.read_json.bind(slf.py()).call1((slf,))
    }

    /// The payload as a read-only view of bytes; no copy.
    #[getter]
    fn data<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        PyMemoryView::from(slf.as_any())
    }

    #[getter]
    fn content_type<'py>(&self, py: Python<'py>) -> Bound<'py, PyString> {
        match &self.content_type {
            ContentName::WellKnown(_) => PyString::intern(py, self.content_type.as_str()),
            ContentName::Other(name) => PyString::new(py, name),
        }
    }

    #[getter]
    fn attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match &self.attributes {
            None => Ok(Symbols::get(py)?.no_attributes.bind(py).clone()),
            Some(dict) => {
                let proxy = py.import("types")?.getattr("MappingProxyType")?;
                proxy.call1((dict.bind(py),))
            }
        }
    }

    #[getter]
    fn context(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.context.as_ref().map(|context| context.clone_ref(py))
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.view(py)?.len())
    }

    fn __setattr__(&self, name: &str, _value: Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyAttributeError::new_err(format!("an element is immutable: cannot set `{name}`")))
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<Py<PyAny>> {
        let py = other.py();
        let same = match other.cast::<PyElement>() {
            Ok(element) => {
                let other = element.get();
                self.sequence == other.sequence
                    && self.timestamp_ns == other.timestamp_ns
                    && self.content_type == other.content_type
                    && self.view(py)? == other.view(py)?
                    && self.attributes_dict(py).eq(other.attributes_dict(py))?
            }
            Err(_) => return Ok(py.NotImplemented()),
        };
        match op {
            CompareOp::Eq => Ok(same.into_pyobject(py)?.to_owned().unbind().into_any()),
            CompareOp::Ne => Ok((!same).into_pyobject(py)?.to_owned().unbind().into_any()),
            _ => Ok(py.NotImplemented()),
        }
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        PyTuple::new(
            py,
            [PyBytes::new(py, self.view(py)?).into_any(), self.sequence.into_pyobject(py)?.into_any()],
        )?
        .hash()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let data = self.data_object(py)?.repr()?;
        Ok(format!("Element({data}, sequence={})", self.sequence))
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        let this = slf.get();
        let attributes = this.attributes.as_ref().map(|dict| dict.clone_ref(py));
        let arguments = (
            this.data_object(py)?,
            this.sequence,
            this.timestamp_ns,
            this.content_type.as_str(),
            attributes,
            this.context.as_ref().map(|context| context.clone_ref(py)),
        );
        (py.get_type::<PyElement>(), arguments).into_pyobject(py)
    }

    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: std::ffi::c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view"));
        }
        let this = slf.get();
        if let Data::Native(native) = &this.data {
            native.note_copy();
        }
        let bytes = this.view(slf.py())?;
        // SAFETY: `bytes` lives as long as this frozen object, which the view keeps alive; read-only is enforced.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                bytes.as_ptr() as *mut std::ffi::c_void,
                bytes.len() as isize,
                1,
                flags,
            )
        };
        if filled != 0 { Err(PyErr::fetch(slf.py())) } else { Ok(()) }
    }
}

/// Parses a content type; raises `ValueError` if the name is too long.
pub fn content_name(name: &str) -> PyResult<ContentName> {
    ContentName::new(name).ok_or_else(|| {
        let (length, longest) = (name.len(), LONGEST_NAME);
        PyValueError::new_err(format!("a content type may have at most {longest} bytes, not {length}"))
    })
}

fn not_utf8(py: Python<'_>, error: &std::str::Utf8Error) -> PyResult<PyErr> {
    let class = Symbols::get(py)?.invalid_input.bind(py);
    Ok(PyErr::from_value(class.call1((format!("the payload is not UTF-8: {error}"),))?))
}
