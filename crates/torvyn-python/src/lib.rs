//! The border between Python and the native core: the only crate that names pyo3.

mod text;
mod toml;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use super::text::SentenceSplitter;
    #[pymodule_export]
    use super::text::Utf8Decoder;
    #[pymodule_export]
    use super::toml::{TomlError, parse_toml};

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        Ok(())
    }
}
