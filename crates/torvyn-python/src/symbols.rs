//! The Python objects that the border compares with, looked up once.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyString, PyType};

use crate::element::{PyElement, TextElement};

pub struct Symbols {
    pub pending: Py<PyAny>,
    pub pending_type: Py<PyType>,
    pub end_type: Py<PyType>,
    pub output_type: Py<PyType>,
    pub verdict_type: Py<PyType>,
    pub verdict_pass: Py<PyAny>,
    pub verdict_drop: Py<PyAny>,
    pub verdict_hold: Py<PyAny>,
    pub ready: Py<PyAny>,
    pub pause: Py<PyAny>,
    /// The `notify_backpressure` of a source that has none of its own: it does nothing.
    pub notify_nobody: Py<PyAny>,
    pub invalid_input: Py<PyType>,
    pub unavailable: Py<PyType>,
    pub deadline_exceeded: Py<PyType>,
    pub fatal: Py<PyType>,
    pub contract_error: Py<PyType>,
    pub no_attributes: Py<PyAny>,
    /// A dict or a dataclass to JSON, and an element's payload back.
    pub json_text: Py<PyAny>,
    pub read_json: Py<PyAny>,
    pub monotonic_ns: Py<PyAny>,
    pub str_type: *mut ffi::PyTypeObject,
    pub bytes_type: *mut ffi::PyTypeObject,
    pub dict_type: *mut ffi::PyTypeObject,
    pub element_type: *mut ffi::PyTypeObject,
    pub text_element_type: *mut ffi::PyTypeObject,
}

// SAFETY: the raw pointers are types that live as long as the interpreter and are only compared.
unsafe impl Send for Symbols {}
unsafe impl Sync for Symbols {}

static SYMBOLS: PyOnceLock<Symbols> = PyOnceLock::new();

impl Symbols {
    pub fn get(py: Python<'_>) -> PyResult<&'static Symbols> {
        // SAFETY: the cell is a static and never emptied, so the reference outlives every attachment.
        SYMBOLS.get_or_try_init(py, || Self::load(py)).map(|symbols| unsafe { &*std::ptr::from_ref(symbols) })
    }

    fn load(py: Python<'_>) -> PyResult<Self> {
        let signals = py.import("torvyn._contract.signals")?;
        let errors = py.import("torvyn.errors")?;
        let element = py.import("torvyn._contract.element")?;
        let source = py.import("torvyn._contract.roles")?.getattr("Source")?;
        let class = |module: &Bound<'_, PyModule>, name: &str| -> PyResult<Py<PyType>> {
            Ok(module.getattr(name)?.cast_into::<PyType>()?.unbind())
        };
        let member = |class: &str, name: &str| -> PyResult<Py<PyAny>> {
            Ok(signals.getattr(class)?.getattr(name)?.unbind())
        };
        let proxy = py.import("types")?.getattr("MappingProxyType")?;
        Ok(Self {
            pending: signals.getattr("PENDING")?.unbind(),
            pending_type: class(&signals, "Pending")?,
            end_type: class(&signals, "End")?,
            output_type: class(&element, "Output")?,
            verdict_type: class(&signals, "Verdict")?,
            verdict_pass: member("Verdict", "PASS")?,
            verdict_drop: member("Verdict", "DROP")?,
            verdict_hold: member("Verdict", "HOLD")?,
            ready: member("Signal", "READY")?,
            pause: member("Signal", "PAUSE")?,
            notify_nobody: source.getattr("notify_backpressure")?.unbind(),
            invalid_input: class(&errors, "InvalidInput")?,
            unavailable: class(&errors, "Unavailable")?,
            deadline_exceeded: class(&errors, "DeadlineExceeded")?,
            fatal: class(&errors, "Fatal")?,
            contract_error: class(&errors, "ContractError")?,
            no_attributes: proxy.call1((PyDict::new(py),))?.unbind(),
            json_text: element.getattr("json_text")?.unbind(),
            read_json: element.getattr("read_json")?.unbind(),
            monotonic_ns: py.import("time")?.getattr("monotonic_ns")?.unbind(),
            str_type: py.get_type::<PyString>().as_type_ptr(),
            bytes_type: py.get_type::<PyBytes>().as_type_ptr(),
            dict_type: py.get_type::<PyDict>().as_type_ptr(),
            element_type: py.get_type::<PyElement>().as_type_ptr(),
            text_element_type: py.get_type::<TextElement>().as_type_ptr(),
        })
    }
}
