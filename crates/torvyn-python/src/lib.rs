//! The border between Python and the native core: the only crate that names pyo3.

mod text;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    use super::*;

    #[pymodule_export]
    use super::text::SentenceSplitter;
    #[pymodule_export]
    use super::text::Utf8Decoder;

    #[pymodule_init]
    fn init(_module: &Bound<'_, PyModule>) -> PyResult<()> {
        Ok(())
    }
}
