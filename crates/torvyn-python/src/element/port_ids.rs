//! Port names as small numbers, so that an output carries its port without a string. Ids start at 1 and are never freed.

use std::sync::Mutex;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use torvyn_stream::Delivery;

use crate::lock::lock;

static NAMES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// The id of a port name, the same for every node of the process.
pub fn port_id(name: &str) -> PyResult<u16> {
    let mut names = lock(&NAMES);
    let at = match names.iter().position(|known| known == name) {
        Some(at) => at,
        None => {
            names.push(name.to_owned());
            names.len() - 1
        }
    };
    let id = u16::try_from(at + 1).ok().filter(|id| *id <= Delivery::MAX_PORT);
    id.ok_or_else(|| PyValueError::new_err("too many port names in one process"))
}
