//! Guards for Python: from a component's options to a native stage, or to an object for Python.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use torvyn_stream::Stage;
use torvyn_text::guard::{
    self, Address, Audit, Divisible, Finding, Guard, GuardStage, Made, Passage, PatternError, Patterns,
    Rules, Settings, redact_patterns,
};
use torvyn_text::holdback::{WordOptions, WordRules};

use crate::component::native_stage::need;
use crate::element::PyElement;
use crate::element::foreign::text_stream;
use crate::enums::{RulesKind, SharedEnum, from_python};
use crate::symbols::Symbols;

fn invalid_value(error: &impl ToString) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Which pattern is invalid, and why.
fn pattern_error(error: &PatternError) -> PyErr {
    PyValueError::new_err((error.index(), error.to_string()))
}

fn rules(parameters: &Bound<'_, PyDict>) -> PyResult<Rules> {
    Ok(match need_member(parameters, "rules")? {
        RulesKind::Words => {
            let words: Vec<String> = need(parameters, "words")?;
            let options = WordOptions {
                whole: need(parameters, "whole")?,
                homoglyphs: need(parameters, "homoglyphs")?,
            };
            Rules::Words(Arc::new(WordRules::new(words, options).map_err(|error| invalid_value(&error))?))
        }
        RulesKind::Patterns => {
            let patterns: Vec<String> = need(parameters, "patterns")?;
            let made = Patterns::new(&patterns, need(parameters, "window")?);
            Rules::Patterns(Arc::new(made.map_err(|error| pattern_error(&error))?))
        }
        RulesKind::Redact => {
            let kinds: Vec<String> = need(parameters, "kinds")?;
            let made = redact_patterns(&kinds).map_err(|error| invalid_value(&error))?;
            Rules::Patterns(Arc::new(made.map_err(|error| pattern_error(&error))?))
        }
    })
}

fn need_member<T: SharedEnum>(parameters: &Bound<'_, PyDict>, name: &str) -> PyResult<T> {
    from_python(&need::<Bound<'_, PyAny>>(parameters, name)?)
}

fn settings(parameters: &Bound<'_, PyDict>) -> PyResult<Arc<Settings>> {
    Ok(Arc::new(Settings {
        rules: rules(parameters)?,
        action: need_member(parameters, "action")?,
        policy: need_member(parameters, "policy")?,
        replacements: need(parameters, "replacements")?,
    }))
}

fn facts(finding: &Finding) -> (u32, u64, u64, u64) {
    (finding.rule, finding.position, finding.length, finding.exposed)
}

pub fn stage(parameters: &Bound<'_, PyDict>) -> PyResult<Box<dyn Stage>> {
    let audit: Option<Py<PyAny>> = need(parameters, "audit")?;
    let audit = audit.map(|audit| -> Audit {
        // Rare enough to attach for each, in flows that run detached.
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

/// Guards one stream of text.
#[pyclass(module = "torvyn._native")]
pub struct TextGuard(Guard);

#[pymethods]
impl TextGuard {
    #[new]
    fn new(parameters: &Bound<'_, PyDict>) -> PyResult<Self> {
        Ok(Self(Guard::new(settings(parameters)?)))
    }

    /// A guard with the same rules for another stream.
    fn fork(&self) -> Self {
        Self(Guard::new(self.0.settings().clone()))
    }

    /// A guard over elements with the same rules: each kind and choice is a text of its own.
    fn elements(&self, kinds: Vec<String>) -> GuardedTexts {
        GuardedTexts { texts: guard::GuardedTexts::new(self.0.settings().clone(), kinds), blocked: false }
    }

    /// Takes text; returns the text that may be sent.
    fn put(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        self.0.put(text, |made| take(made, &mut out));
        out
    }

    /// Ends the input: everything is decided, and the guard is reset, except for a block.
    fn finish(&mut self) -> String {
        let mut out = String::new();
        self.0.finish(|made| take(made, &mut out));
        out
    }

    /// Drops the buffered text.
    fn clear(&mut self) {
        self.0.clear();
    }

    /// Whether a match has ended the stream.
    #[getter]
    fn blocked(&self) -> bool {
        self.0.blocked().is_some()
    }

    /// Bytes in the buffer.
    #[getter]
    fn held_bytes(&self) -> usize {
        self.0.held_bytes()
    }

    /// The matches since the last call: rule, position, length and exposed characters.
    fn take_findings(&mut self) -> Vec<(u32, u64, u64, u64)> {
        self.0.take_findings().map(|finding| facts(&finding)).collect()
    }
}

fn take(made: Made<'_>, out: &mut String) {
    match made {
        Made::Text { text, .. } | Made::Instead { text, .. } => out.push_str(text),
    }
}

/// A Python element that is kept until its text is decided and all before it have left.
struct Kept(Py<PyAny>);

/// A part of an element's text (None: the element itself), the element, and whether this is the last part of an element
/// without a match.
type Part = (Option<String>, Py<PyAny>, bool);

impl Divisible for Kept {
    type Output = Part;

    fn part(&self, text: &str, is_rest: bool) -> Part {
        (Some(text.to_owned()), Python::attach(|py| self.0.clone_ref(py)), is_rest)
    }

    fn whole(self) -> Part {
        (None, self.0, true)
    }
}

/// Guards elements in order; each kind and choice is a text of its own.
#[pyclass(module = "torvyn._native")]
pub struct GuardedTexts {
    texts: guard::GuardedTexts<Kept>,
    blocked: bool,
}

#[pymethods]
impl GuardedTexts {
    /// Takes an element. None: send it unchanged. Otherwise what to send instead.
    fn put(
        &mut self,
        element: Bound<'_, PyAny>,
        kind: &str,
        choice: i64,
        text: Option<&str>,
    ) -> Option<Vec<Part>> {
        let address = Address { kind: Some(kind).filter(|kind| *kind != "text"), choice };
        let (mut out, make) = (Vec::new(), || Kept(element.unbind()));
        let passage = match text {
            Some(text) if self.texts.guards(address.kind) => self.texts.put(address, text, make, &mut out),
            _ => self.texts.pass(address, text.map_or(0, str::len), make, &mut out),
        };
        self.blocked |= passage == Passage::Blocked;
        (passage != Passage::Unchanged).then_some(out)
    }

    /// The kind and the choice of an element; raises `InvalidInput` if they name no text.
    #[staticmethod]
    fn address<'py>(element: &Bound<'py, PyElement>) -> PyResult<(Bound<'py, PyString>, i64)> {
        let py = element.py();
        let (kind, choice) = match &element.get().attributes {
            None => (None, 0),
            Some(attributes) => text_stream(attributes.bind(py)).map_err(|message| {
                let raise = |symbols: &Symbols| symbols.invalid_input.bind(py).call1((message,));
                Symbols::get(py).and_then(raise).map_or_else(|error| error, PyErr::from_value)
            })?,
        };
        Ok((kind.unwrap_or_else(|| intern!(py, "text").clone()), choice))
    }

    /// Ends the input: everything is decided.
    fn finish(&mut self) -> Vec<Part> {
        let mut out = Vec::new();
        self.blocked |= self.texts.finish(&mut out);
        out
    }

    /// Whether a match has ended the stream.
    #[getter]
    fn blocked(&self) -> bool {
        self.blocked
    }

    /// Bytes in the buffer.
    #[getter]
    fn held_bytes(&self) -> usize {
        self.texts.held_bytes()
    }

    /// The matches since the last call: rule, position, length and exposed characters.
    fn take_findings(&mut self) -> Vec<(u32, u64, u64, u64)> {
        let mut all = Vec::new();
        self.texts.take_findings(|finding| all.push(facts(finding)));
        all
    }
}
