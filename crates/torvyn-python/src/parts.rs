//! The parts that a build of the native module may lack, and what becomes of the classes of a part that it lacks.

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;

/// The classes of each part, by the part's name, which is a feature of this crate.
const CLASSES: [(&str, &[&str]); 4] = [
    ("sandbox", &["CompiledComponent", "WasmTools"]),
    ("network", &["DirectSteps", "DirectText", "WireClient", "WireExchange", "WireServer"]),
    ("disk", &["Database"]),
    ("nats", &["NatsClient", "NatsInput", "NatsOutput", "nkey_sign"]),
];

/// The parts of this build.
pub const BUILT_IN: &[&str] = &[
    #[cfg(feature = "sandbox")]
    "sandbox",
    #[cfg(feature = "network")]
    "network",
    #[cfg(feature = "disk")]
    "disk",
    #[cfg(feature = "nats")]
    "nats",
    #[cfg(all(feature = "cross", feature = "sandbox"))]
    "cross",
];

/// Python asks here for what the module does not have, so that each import of a class of a missing part ends in the
/// one error that says how to build it.
#[pyfunction]
#[pyo3(name = "__getattr__")]
pub fn absent_class(py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
    match CLASSES.iter().find(|(_, classes)| classes.contains(&name)) {
        Some((part, _)) => Err(missing_part(py, part)),
        None => Err(PyAttributeError::new_err(format!("module 'torvyn._native' has no attribute '{name}'"))),
    }
}

fn missing_part(py: Python<'_>, part: &str) -> PyErr {
    let made =
        py.import("torvyn._io.native_parts").and_then(|module| module.call_method1("missing", (part,)));
    made.map_or_else(|error| error, PyErr::from_value)
}
