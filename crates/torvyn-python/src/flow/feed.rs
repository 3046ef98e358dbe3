//! Feeds items or one text into a flow and runs it. Texts are the path of a served token: no object per element.

use std::collections::VecDeque;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use torvyn_reactor::Role;
use torvyn_stream::{ContentType, CopyReason, Element, End, StageError};

use crate::component::interpret::json_or_wrong;
use crate::element::convert::{attributes_of, end_of};
use crate::element::emission::emission;
use crate::element::foreign::object;
use crate::enums::TurnStatus;
use crate::flow::NativeFlow;
use crate::symbols::Symbols;

/// Feeds as many items as the entry has capacity for; returns the outputs and how many items were accepted.
pub fn feed_items<'py>(
    native: &NativeFlow,
    py: Python<'py>,
    items: &Bound<'py, PyList>,
) -> PyResult<(Bound<'py, PyList>, usize)> {
    let symbols = Symbols::get(py)?;
    let out = PyList::empty(py);
    // A wrong item rejects the whole batch, so that the caller can feed it again.
    let mut waiting = VecDeque::with_capacity(items.len());
    for item in items {
        let made = match emission(py, symbols, &item) {
            Ok(Some(made)) => Ok(made),
            Ok(None) => json_or_wrong(py, symbols, Role::Source, &item),
            Err(error) => Err(error),
        };
        waiting.push_back(made.map_err(|error| raise(py, error))?);
    }
    let mut fed = 0;
    let mut has_driven = false;
    loop {
        let before = fed;
        while native.flow.feed_capacity() > 0
            && let Some(made) = waiting.pop_front()
        {
            match native.flow.feed(made) {
                Ok(None) => fed += 1,
                // The queue has capacity for elements, but not for bytes.
                Ok(Some(back)) => {
                    waiting.push_front(back);
                    break;
                }
                Err(failure) => return Err(raise(py, failure.error)),
            }
        }
        let status = native.drive_ready(py, &out)?;
        if status == TurnStatus::Over || waiting.is_empty() || (fed == before && has_driven) {
            return Ok((out, fed));
        }
        has_driven = true;
    }
}

/// The result of `feed_text`: joined text if all outputs are text, otherwise the outputs and how many texts were accepted.
#[derive(IntoPyObject)]
pub enum Fed<'py> {
    Text(Bound<'py, PyString>),
    Elements((Bound<'py, PyList>, usize)),
}

pub fn feed_text<'py>(
    native: &NativeFlow,
    py: Python<'py>,
    text: &Bound<'py, PyString>,
) -> PyResult<Fed<'py>> {
    let symbols = Symbols::get(py)?;
    let made = emission(py, symbols, text.as_any()).map_err(|error| raise(py, error))?;
    let mut fed = 0;
    if let Some(made) = made
        && native.flow.feed_capacity() > 0
        && native.flow.feed(made).map_err(|failure| raise(py, failure.error))?.is_none()
    {
        fed = 1;
    }
    let mut taken = VecDeque::new();
    let status = loop {
        let status = native.drive_turns(py, false, false)?;
        native.flow.take_output(&mut taken, usize::MAX);
        if matches!(status, TurnStatus::Parked | TurnStatus::Over) {
            break status;
        }
    };
    if status == TurnStatus::Parked
        && fed == 1
        && let Some(text) = joined(native, py, symbols, &taken)
    {
        return Ok(Fed::Text(text));
    }
    let list = PyList::empty(py);
    for mut element in taken {
        list.append(native.to_python(py, &mut element)?)?;
    }
    Ok(Fed::Elements((list, fed)))
}

pub fn finish_feed<'py>(
    native: &NativeFlow,
    py: Python<'py>,
    end: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyList>> {
    let symbols = Symbols::get(py)?;
    let end = end.and_then(|end| end_of(symbols, &end)).unwrap_or_else(|| End::because("stop"));
    native.flow.finish(end);
    let out = PyList::empty(py);
    native.drive_ready(py, &out)?;
    Ok(out)
}

/// Texts that are fed and taken in native code, in batches.
#[cfg(feature = "network")]
pub struct TextFeed<'a> {
    native: &'a NativeFlow,
    outputs: VecDeque<Element>,
    /// Whether the flow takes more.
    pub is_open: bool,
}

#[cfg(feature = "network")]
impl<'a> TextFeed<'a> {
    pub fn new(native: &'a NativeFlow) -> Self {
        Self { native, outputs: VecDeque::new(), is_open: true }
    }

    /// Feeds a text; false: it was not accepted.
    pub fn put(&mut self, py: Python<'_>, text: &str) -> bool {
        if self.is_open && self.native.flow.feed_capacity() == 0 {
            self.run(py);
        }
        self.is_open =
            self.is_open && matches!(self.native.flow.feed(torvyn_stream::Emission::text(text)), Ok(None));
        self.is_open
    }

    /// Runs the flow until it waits for more, or is over.
    pub fn run(&mut self, py: Python<'_>) {
        loop {
            let status = self.native.drive_turns(py, false, false);
            self.native.flow.take_output(&mut self.outputs, usize::MAX);
            match status {
                Ok(TurnStatus::Parked) => return,
                Ok(TurnStatus::Over) | Err(_) => {
                    self.is_open = false;
                    return;
                }
                Ok(_) => {}
            }
        }
    }

    /// Appends the outputs to `out` and returns how many there were; None if they are not only text, or the flow is
    /// over.
    pub fn append_to(&self, py: Python<'_>, out: &mut String) -> PyResult<Option<usize>> {
        if !self.is_open || !are_plain(py, Symbols::get(py)?, &self.outputs) {
            return Ok(None);
        }
        let ledger =
            &self.native.node_context.shared.nodes[usize::from(self.native.node_context.node)].ledger;
        for element in &self.outputs {
            let Some(Ok(text)) = element.read(ledger).map(std::str::from_utf8) else { return Ok(None) };
            out.push_str(text);
        }
        ledger.copy(CopyReason::NativeToHost, out.len() as u64);
        Ok(Some(self.outputs.len()))
    }

    /// The outputs as elements.
    pub fn into_elements(self, py: Python<'_>) -> PyResult<Bound<'_, PyList>> {
        let list = PyList::empty(py);
        for mut element in self.outputs {
            list.append(self.native.to_python(py, &mut element)?)?;
        }
        Ok(list)
    }
}

/// Whether the elements are text without attributes.
fn are_plain(py: Python<'_>, symbols: &Symbols, elements: &VecDeque<Element>) -> bool {
    elements.iter().all(|element| {
        let attributes =
            element.companion.as_ref().and_then(|companion| attributes_of(py, symbols, companion));
        element.content_type == ContentType::TEXT && attributes.is_none()
    })
}

/// The elements as one text, if they are text without attributes.
fn joined<'py>(
    native: &NativeFlow,
    py: Python<'py>,
    symbols: &Symbols,
    elements: &VecDeque<Element>,
) -> Option<Bound<'py, PyString>> {
    if !are_plain(py, symbols, elements) {
        return None;
    }
    let ledger = &native.node_context.shared.nodes[usize::from(native.node_context.node)].ledger;
    if let [only] = elements.as_slices().0
        && elements.len() == 1
    {
        if let Some(payload) = only.payload.foreign() {
            return object(py, payload).cast_into::<PyString>().ok();
        }
        let bytes = only.read(ledger)?;
        ledger.copy(CopyReason::NativeToHost, bytes.len() as u64);
        return Some(PyString::new(py, std::str::from_utf8(bytes).ok()?));
    }
    let mut whole = String::new();
    for element in elements {
        whole.push_str(std::str::from_utf8(element.read(ledger)?).ok()?);
    }
    ledger.copy(CopyReason::NativeToHost, whole.len() as u64);
    Some(PyString::new(py, &whole))
}

fn raise(py: Python<'_>, error: StageError) -> PyErr {
    match &error.object {
        Some(exception) => PyErr::from_value(object(py, exception)),
        None => PyValueError::new_err(error.message),
    }
}
