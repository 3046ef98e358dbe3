//! The one exception of the native module. It carries fields; Python writes the sentence that a person reads.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;

create_exception!(
    torvyn._native,
    NativeError,
    PyValueError,
    "A failure in native code. `args` are its kind, a message, and the fields that the failing function documents."
);
