//! Guards across the border: from the options that a component has read to a stage, or to an object for Python.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use torvyn_stream::Stage;
use torvyn_text::guard::{
    Action, Audit, Finding, Guard, GuardStage, Made, PatternError, Patterns, Policy, Rules, Settings,
    redact_patterns,
};
use torvyn_text::holdback::WordRules;

use crate::native::need;

fn wrong(error: &impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Which pattern it is and why it is refused.
fn refused(error: &PatternError) -> PyErr {
    PyValueError::new_err((error.index(), error.to_string()))
}

fn rules(parameters: &Bound<'_, PyDict>) -> PyResult<Rules> {
    let kind: String = need(parameters, "rules")?;
    Ok(match kind.as_str() {
        "words" => {
            let (words, of): (Vec<String>, Vec<u32>) = (need(parameters, "words")?, need(parameters, "of")?);
            let whole: bool = need(parameters, "whole")?;
            let words = of.into_iter().zip(words);
            Rules::Words(Arc::new(WordRules::new(words, whole).map_err(|error| wrong(&error))?))
        }
        "patterns" => {
            let patterns: Vec<String> = need(parameters, "patterns")?;
            let made = Patterns::new(&patterns, need(parameters, "window")?);
            Rules::Patterns(Arc::new(made.map_err(|error| refused(&error))?))
        }
        "redact" => {
            let kinds: Vec<String> = need(parameters, "kinds")?;
            let made = redact_patterns(&kinds).map_err(|error| wrong(&error))?;
            Rules::Patterns(Arc::new(made.map_err(|error| refused(&error))?))
        }
        other => return Err(PyValueError::new_err(format!("no rules `{other}`"))),
    })
}

fn settings(parameters: &Bound<'_, PyDict>) -> PyResult<Arc<Settings>> {
    let (action, policy): (String, String) = (need(parameters, "action")?, need(parameters, "policy")?);
    Ok(Arc::new(Settings {
        rules: rules(parameters)?,
        action: match action.as_str() {
            "drop" => Action::Drop,
            "replace" => Action::Replace,
            "block" => Action::Block,
            other => return Err(PyValueError::new_err(format!("no action `{other}`"))),
        },
        policy: match policy.as_str() {
            "hold" => Policy::Hold,
            "optimistic" => Policy::Optimistic,
            "shadow" => Policy::Shadow,
            other => return Err(PyValueError::new_err(format!("no policy `{other}`"))),
        },
        replacements: need(parameters, "replacements")?,
    }))
}

fn facts(finding: &Finding) -> (u32, u64, u64, u64) {
    (finding.rule, finding.position, finding.length, finding.exposed)
}

pub fn stage(parameters: &Bound<'_, PyDict>) -> PyResult<Box<dyn Stage>> {
    let audit: Option<Py<PyAny>> = need(parameters, "audit")?;
    let audit = audit.map(|audit| -> Audit {
        // Seldom enough to attach for each, in flows that run without Python.
        Box::new(move |finding| {
            Python::attach(|py| {
                if let Err(error) = audit.call1(py, facts(finding)) {
                    error.write_unraisable(py, Some(audit.bind(py)));
                }
            });
        })
    });
    let name: String = need(parameters, "name")?;
    let kinds: Vec<String> = need(parameters, "guarded")?;
    let like: PyRef<'_, TextGuard> = need(parameters, "like")?;
    Ok(Box::new(GuardStage::new(like.0.settings().clone(), &name, kinds, audit)))
}

/// One guarded stream of text.
#[pyclass(module = "torvyn._native")]
pub struct TextGuard(Guard);

#[pymethods]
impl TextGuard {
    #[new]
    fn new(parameters: &Bound<'_, PyDict>) -> PyResult<Self> {
        Ok(Self(Guard::new(settings(parameters)?)))
    }

    /// Another stream under the same rules.
    fn fork(&self) -> Self {
        Self(Guard::new(self.0.settings().clone()))
    }

    /// Takes text; gives what may leave.
    fn put(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        self.0.put(text, |made| take(made, &mut out));
        out
    }

    /// The input is over: everything is decided, and the guard is as new, but for a block.
    fn finish(&mut self) -> String {
        let mut out = String::new();
        self.0.finish(|made| take(made, &mut out));
        out
    }

    /// Forgets what waits.
    fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether a match has ended the stream.
    #[getter]
    fn blocked(&self) -> bool {
        self.0.blocked().is_some()
    }

    /// Bytes that wait here.
    #[getter]
    fn held_bytes(&self) -> usize {
        self.0.held_bytes()
    }

    /// What was found since the last time: rule, position, length and exposed characters.
    fn take_findings(&mut self) -> Vec<(u32, u64, u64, u64)> {
        self.0.take_findings().map(|finding| facts(&finding)).collect()
    }
}

fn take(made: Made<'_>, out: &mut String) {
    match made {
        Made::Text { text, .. } | Made::Instead { text, .. } => out.push_str(text),
    }
}
