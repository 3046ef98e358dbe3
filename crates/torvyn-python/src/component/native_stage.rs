//! Native stages, created from the parameters that a built-in component's Python class has parsed and checked.

use std::sync::Mutex;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use torvyn_reactor::native_stages::{Null, Scripted};
use torvyn_stream::Stage;
use torvyn_text::{Blocklist, BlocklistStage, Mode, Options, SentenceStage, Splitter};

use crate::flow::edge_log::PyEdgeLog;
use crate::wire::frame_stage::FrameStage;
use crate::wire::frames::FrameEncoder;

/// A native stage for one flow.
#[pyclass(frozen, module = "torvyn._native")]
pub struct NativeStage {
    pub stage: Mutex<Option<Box<dyn Stage>>>,
    /// Whether it is one end of an edge that leaves the process.
    pub is_carrier: bool,
}

pub fn need<'py, T>(parameters: &Bound<'py, PyDict>, name: &str) -> PyResult<T>
where
    T: for<'a> FromPyObject<'a, 'py, Error: Into<PyErr>>,
{
    let value = parameters
        .get_item(name)?
        .ok_or_else(|| PyValueError::new_err(format!("parameter `{name}` is missing")))?;
    value.extract().map_err(Into::into)
}

#[pymethods]
impl NativeStage {
    #[new]
    fn new(kind: &str, parameters: &Bound<'_, PyDict>) -> PyResult<Self> {
        let stage: Box<dyn Stage> = match kind {
            "scripted" => {
                let tokens: Vec<String> = need(parameters, "tokens")?;
                Box::new(Scripted::new(&tokens, need(parameters, "repeat")?))
            }
            "blocklist" => {
                let words: Vec<String> = need(parameters, "words")?;
                Box::new(BlocklistStage(Blocklist::new(words)))
            }
            "guard" => crate::text::guard::stage(parameters)?,
            "sentence" => sentence(parameters)?,
            "frames" => frames(parameters)?,
            "null" => Box::new(Null),
            "log-writer" => need::<Bound<'_, PyEdgeLog>>(parameters, "log")?.get().writer(),
            "log-reader" => {
                let log: Bound<'_, PyEdgeLog> = need(parameters, "log")?;
                log.get().reader(need(parameters, "rate")?, need(parameters, "by_checkpoint")?)
            }
            other => return Err(PyValueError::new_err(format!("unknown native stage `{other}`"))),
        };
        let is_carrier = kind.starts_with("log-");
        Ok(Self { stage: Mutex::new(Some(stage)), is_carrier })
    }
}

fn frames(parameters: &Bound<'_, PyDict>) -> PyResult<Box<dyn Stage>> {
    let encoder: Bound<'_, FrameEncoder> = need(parameters, "encoder")?;
    Ok(Box::new(FrameStage::new(&encoder, need(parameters, "index")?)?))
}

fn sentence(parameters: &Bound<'_, PyDict>) -> PyResult<Box<dyn Stage>> {
    let mode: String = need(parameters, "mode")?;
    let language: String = need(parameters, "language")?;
    let idle_s: f64 = need(parameters, "idle_flush_s")?;
    let options = Options {
        mode: if mode == "simple" { Mode::Simple } else { Mode::Normal },
        first_min: need(parameters, "first_min")?,
        min: need(parameters, "min")?,
        max: need(parameters, "max")?,
        language: crate::text::splitter::parse_language(&language)?,
    };
    let idle_ns = (idle_s > 0.0).then_some((idle_s * 1e9) as u64);
    Ok(Box::new(SentenceStage::new(Splitter::new(options), idle_ns)))
}
