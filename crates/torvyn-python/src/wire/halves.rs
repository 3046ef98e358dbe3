//! Halves of surrogate pairs: an upstream may split a pair over two texts, and neither half can be encoded alone.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// Per choice of an answer, the first half of a pair that waits for the second; 0 for none.
pub struct Halves(Vec<AtomicU32>);

impl Halves {
    pub fn new(choices: u32) -> PyResult<Self> {
        if choices == 0 {
            return Err(PyValueError::new_err("an answer has at least one choice"));
        }
        Ok(Self((0..choices).map(|_| AtomicU32::new(0)).collect()))
    }

    pub fn choices(&self) -> u32 {
        self.0.len() as u32
    }

    pub fn check(&self, index: u32) -> PyResult<()> {
        let choices = self.0.len();
        if (index as usize) < choices {
            return Ok(());
        }
        Err(PyValueError::new_err(format!("choice {index} is out of range: the answer has {choices}")))
    }

    /// The text with a waiting half in front, and without one at its end; None if there is nothing to send.
    #[inline]
    pub fn joined<'a>(&self, text: &'a Bound<'_, PyString>, index: u32) -> PyResult<Option<Cow<'a, str>>> {
        self.check(index)?;
        let half = &self.0[index as usize];
        let Ok(text) = text.to_str() else {
            return Ok(Some(pairs(text, half)?).filter(|text| !text.is_empty()));
        };
        if half.load(Ordering::Relaxed) == 0 || text.is_empty() {
            return Ok(Some(Cow::Borrowed(text)));
        }
        half.store(0, Ordering::Relaxed);
        Ok(Some(Cow::Owned(format!("\u{fffd}{text}"))))
    }

    /// The answer ends: the choices whose half is alone, which becomes U+FFFD.
    pub fn release(&self) -> impl Iterator<Item = u32> + '_ {
        let is_alone = |half: &AtomicU32| half.swap(0, Ordering::Relaxed) != 0;
        self.0.iter().enumerate().filter(move |(_, half)| is_alone(half)).map(|(index, _)| index as u32)
    }
}

/// Joins the halves in a text that cannot be encoded as it is.
fn pairs<'a>(text: &Bound<'_, PyString>, half: &AtomicU32) -> PyResult<Cow<'a, str>> {
    let encoded = text.call_method1("encode", ("utf-16-le", "surrogatepass"))?;
    let bytes = encoded.cast::<PyBytes>()?.as_bytes();
    let waiting = half.swap(0, Ordering::Relaxed);
    let mut units: Vec<u16> = (waiting != 0).then_some(waiting as u16).into_iter().collect();
    units.extend(bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])));
    if let Some(last @ 0xd800..0xdc00) = units.last().copied() {
        half.store(u32::from(last), Ordering::Relaxed);
        units.pop();
    }
    Ok(Cow::Owned(String::from_utf16_lossy(&units)))
}
