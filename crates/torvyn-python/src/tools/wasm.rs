//! Component files for Python: encode, describe, annotate, and the built-in WIT.

use std::collections::BTreeMap;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use torvyn_tools::describe::{self, Item};
use torvyn_tools::wasm::{self, Error};
use torvyn_tools::wit::FILES;

use crate::error::NativeError;

#[pyclass(frozen, module = "torvyn._native")]
pub struct WasmTools;

#[pymethods]
impl WasmTools {
    /// The component of a core module, and its world: `world`, or the one that its exports name.
    #[staticmethod]
    #[pyo3(signature = (core, world=None))]
    fn encode<'py>(
        py: Python<'py>,
        core: &[u8],
        world: Option<&str>,
    ) -> PyResult<(Bound<'py, PyBytes>, String)> {
        let made = py.detach(|| {
            let world = match world {
                Some(name) => name.to_owned(),
                None => wasm::world_of(core)?,
            };
            Ok((wasm::encode(core, &world)?, world))
        });
        let (bytes, world) = made.map_err(|error| wasm_error(&error))?;
        Ok((PyBytes::new(py, &bytes), world))
    }

    /// World, imports, exports and sizes of a component.
    #[staticmethod]
    fn describe<'py>(py: Python<'py>, component: &[u8]) -> PyResult<Bound<'py, PyDict>> {
        let found = py.detach(|| describe::describe(component)).map_err(|error| wasm_error(&error))?;
        let fields = PyDict::new(py);
        fields.set_item("world", found.world)?;
        fields.set_item("imports", pairs(found.imports))?;
        fields.set_item("exports", pairs(found.exports))?;
        fields.set_item("notes", found.notes.into_iter().collect::<BTreeMap<_, _>>())?;
        fields.set_item("size_bytes", found.size_bytes)?;
        fields.set_item("modules", found.sizes.modules)?;
        fields.set_item("functions", found.sizes.functions)?;
        fields.set_item("code_bytes", found.sizes.code_bytes)?;
        fields.set_item("data_bytes", found.sizes.data_bytes)?;
        fields.set_item("custom_bytes", found.sizes.custom_bytes)?;
        fields.set_item("memory_bytes", found.sizes.memory_bytes)?;
        Ok(fields)
    }

    /// The notes in a component.
    #[staticmethod]
    fn notes(component: &[u8]) -> PyResult<BTreeMap<String, String>> {
        let found = describe::notes(component).map_err(|error| wasm_error(&error))?;
        Ok(found.into_iter().collect())
    }

    /// The component with one more note, such as `unit` and `tokens`.
    #[staticmethod]
    fn annotate<'py>(py: Python<'py>, component: &[u8], name: &str, text: &str) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &wasm::annotate(component, name, text))
    }

    /// The worlds of a folder of WIT files; raises `NativeError` of the kind `malformed` if it does not resolve.
    #[staticmethod]
    fn wit_worlds(py: Python<'_>, folder: std::path::PathBuf) -> PyResult<Vec<String>> {
        py.detach(|| torvyn_tools::wit_folder::worlds(&folder)).map_err(|error| wasm_error(&error))
    }

    /// The built-in WIT files, as paths and texts.
    #[staticmethod]
    fn wit_files() -> Vec<(&'static str, &'static str)> {
        FILES.to_vec()
    }
}

fn pairs(items: Vec<Item>) -> Vec<(String, Vec<String>)> {
    items.into_iter().map(|item| (item.name, item.functions)).collect()
}

fn wasm_error(error: &Error) -> PyErr {
    let (kind, message, names) = match error {
        Error::Malformed { message } => ("malformed", message.clone(), Vec::new()),
        Error::NoWorld { interfaces } => ("no-world", String::new(), interfaces.clone()),
        Error::WorldUnknown { world, known } => ("world-unknown", world.clone(), known.clone()),
        Error::Unfit { world, message } => ("unfit", message.clone(), vec![world.clone()]),
        Error::Contract { message } => ("contract", message.clone(), Vec::new()),
    };
    NativeError::new_err((kind, message, names))
}
