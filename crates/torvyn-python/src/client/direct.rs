//! The direct path of text: from a reply, or from an engine in Python, through a flow into the answer to a client.
//!
//! From a reply it takes chunks with text of the only choice and nothing else. At anything else it hands over to Python,
//! with everything that it has counted, and waits until it is armed again. An engine in Python puts its text in one call.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use pyo3::prelude::*;
use pyo3::types::{PyList, PyString};
use torvyn_wire::bytes::Bytes;

use crate::flow::NativeFlow;
use crate::flow::feed::TextFeed;
use crate::lock::lock;
use crate::server::exchange::WireExchange;
use crate::server::text_frame::TextFrame;
use crate::wire::events::{ChunkParser, Part};

/// Python collects the times of delivery after so many.
const MOST_TIMES: usize = 512;

/// How a text has fared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fared {
    NotTaken = 0,
    Kept = 1,
    /// It is time to flush.
    Due = 2,
    /// What left the flow is for Python.
    ForPython = 3,
}

#[derive(Default)]
struct Counts {
    tokens: u64,
    times_s: Vec<f64>,
    /// What left the flow, when that is not only text or the flow is over.
    outputs: Option<Py<PyList>>,
    has_sent: bool,
    /// Whether the client must be waited for since the last text that was sent.
    is_full: bool,
    is_closed: bool,
    /// Text that was put and not sent, and from how many texts.
    kept: String,
    kept_texts: usize,
}

/// Where the text goes, and what was counted on the way.
#[pyclass(frozen, module = "torvyn._native")]
pub struct DirectText {
    exchange: Py<WireExchange>,
    frame: TextFrame,
    counts: Mutex<Counts>,
    began: Instant,
    clock_s: f64,
    /// So many texts or bytes are sent together at most.
    most_texts: usize,
    most_bytes: usize,
}

#[pymethods]
impl DirectText {
    /// `clock_s` is the time now, by the clock of the times that `take` returns. `opening` replaces the bracket with which
    /// a frame begins.
    #[new]
    #[pyo3(signature = (exchange, encoder, clock_s, most_texts, most_bytes, opening=None))]
    fn new(
        exchange: Py<WireExchange>,
        encoder: &Bound<'_, PyAny>,
        clock_s: f64,
        most_texts: usize,
        most_bytes: usize,
        opening: Option<&[u8]>,
    ) -> PyResult<Self> {
        let (frame, began) = (TextFrame::new(encoder, opening)?, Instant::now());
        Ok(Self { exchange, frame, counts: Mutex::default(), began, clock_s, most_texts, most_bytes })
    }

    /// Puts a text of the only choice through the flow. What leaves it is kept until `flush`.
    #[pyo3(signature = (text, flow))]
    fn put(
        &self,
        py: Python<'_>,
        text: &Bound<'_, PyString>,
        flow: Option<&Bound<'_, NativeFlow>>,
    ) -> PyResult<u8> {
        let Ok(text) = text.to_str() else { return Ok(Fared::NotTaken as u8) };
        Ok(self.put_text(py, text, flow.map(Bound::get), 0)? as u8)
    }

    /// Sends what was kept. False: the client has left, or must be waited for.
    pub fn flush(&self) -> bool {
        let text = {
            let mut counts = lock(&self.counts);
            counts.kept_texts = 0;
            if counts.kept.is_empty() {
                return !std::mem::take(&mut counts.is_full);
            }
            std::mem::take(&mut counts.kept)
        };
        self.send(&text)
    }

    /// Since the last call: the tokens, when text was delivered, and what left the flow, if that is for Python.
    fn take(&self) -> (u64, Vec<f64>, Option<Py<PyList>>) {
        let mut counts = lock(&self.counts);
        (std::mem::take(&mut counts.tokens), std::mem::take(&mut counts.times_s), counts.outputs.take())
    }

    /// From now on, all text goes to Python.
    fn close(&self) {
        self.flush();
        lock(&self.counts).is_closed = true;
    }

    /// The same, and what was kept is dropped: the client does not want it.
    fn drop(&self) {
        let mut counts = lock(&self.counts);
        counts.kept = String::new();
        counts.is_closed = true;
    }
}

impl DirectText {
    pub fn is_closed(&self) -> bool {
        lock(&self.counts).is_closed
    }

    /// `put` of a text that counts as so many tokens from here on.
    pub fn put_text(
        &self,
        py: Python<'_>,
        text: &str,
        flow: Option<&NativeFlow>,
        tokens: u64,
    ) -> PyResult<Fared> {
        if self.is_closed() {
            return Ok(Fared::NotTaken);
        }
        let Some(flow) = flow else { return Ok(self.keep(text, 1, tokens)) };
        // Without a lock: the flow may let other threads of Python run.
        let mut feed = TextFeed::new(flow);
        if !feed.put(py, text) {
            return Ok(Fared::NotTaken);
        }
        feed.run(py);
        let mut out = String::with_capacity(text.len());
        if let Some(count) = feed.append_to(py, &mut out)? {
            return Ok(self.keep(&out, count, tokens));
        }
        self.flush();
        let outputs = feed.into_elements(py)?.unbind();
        let mut counts = lock(&self.counts);
        counts.tokens += tokens;
        counts.outputs = Some(outputs);
        Ok(Fared::ForPython)
    }

    fn keep(&self, text: &str, texts: usize, tokens: u64) -> Fared {
        let mut counts = lock(&self.counts);
        let goes_on = self.count_in(&mut counts, tokens, texts);
        counts.kept.push_str(text);
        counts.kept_texts += texts;
        let is_first = !counts.has_sent && !counts.kept.is_empty();
        let is_full = counts.kept_texts >= self.most_texts || counts.kept.len() >= self.most_bytes;
        if is_first || is_full || !goes_on { Fared::Due } else { Fared::Kept }
    }

    /// Whether Python may leave the counts alone.
    pub fn goes_on(&self) -> bool {
        lock(&self.counts).times_s.len() < MOST_TIMES
    }

    fn count(&self, tokens: u64, deliveries: usize) -> bool {
        self.count_in(&mut lock(&self.counts), tokens, deliveries)
    }

    fn count_in(&self, counts: &mut Counts, tokens: u64, deliveries: usize) -> bool {
        counts.tokens += tokens;
        if deliveries > 0 {
            let time_s = self.clock_s + self.began.elapsed().as_secs_f64();
            let new_len = counts.times_s.len() + deliveries;
            counts.times_s.resize(new_len, time_s);
        }
        counts.times_s.len() < MOST_TIMES
    }

    /// False: the client has left, or must be waited for.
    fn send(&self, text: &str) -> bool {
        let has_room = self.exchange.get().append_frame(&self.frame, text);
        let mut counts = lock(&self.counts);
        (counts.has_sent, counts.is_full) = (true, !has_room);
        has_room
    }
}

/// A reply whose text goes the direct path.
pub struct Armed {
    pub direct: Py<DirectText>,
    pub flow: Option<Py<NativeFlow>>,
    pub parser: Py<ChunkParser>,
    /// At so many tokens the choice ends, which is for Python.
    pub tokens_left: AtomicU64,
}

impl Armed {
    /// Takes what has arrived. Returns whether it had text, and what is left to Python, if it must go on.
    pub fn advance<'py>(
        &self,
        py: Python<'py>,
        data: &[Bytes],
    ) -> PyResult<(bool, Option<Bound<'py, PyList>>)> {
        let most = self.tokens_left.load(Ordering::Relaxed).saturating_sub(1);
        let (text, rest) = (String::new(), PyList::empty(py));
        let mut pass = Pass { py, most, texts: 0, text, rest, problem: Ok(()) };
        let mut feed = self.flow.as_ref().map(|flow| TextFeed::new(flow.get()));
        let mut parser = self.parser.try_borrow_mut(py)?;
        for bytes in data {
            // An error stays in the parser, where Python finds it.
            let _ = parser.parse(bytes, true, |part| pass.take(part, feed.as_mut()));
        }
        let Pass { texts, mut text, rest, problem, .. } = pass;
        problem?;
        self.tokens_left.fetch_sub(texts, Ordering::Relaxed);
        let direct = self.direct.get();
        let mut deliveries = Some(texts as usize);
        if let Some(mut feed) = feed.filter(|_| texts > 0) {
            feed.run(py);
            deliveries = feed.append_to(py, &mut text)?;
            if deliveries.is_none() {
                text.clear();
                lock(&direct.counts).outputs = Some(feed.into_elements(py)?.unbind());
            }
        }
        let goes_on = direct.count(texts, deliveries.unwrap_or(0));
        let has_room = text.is_empty() || direct.send(&text);
        let is_ours = rest.is_empty() && !parser.has_failed() && deliveries.is_some();
        Ok((texts > 0, (!is_ours || !has_room || !goes_on).then_some(rest)))
    }
}

/// What one batch of bytes has.
struct Pass<'py> {
    py: Python<'py>,
    /// So many texts are taken at most.
    most: u64,
    /// How many texts were taken.
    texts: u64,
    /// The text itself, if there is no flow.
    text: String,
    /// Parts for Python, from the first that is not text of the first choice.
    rest: Bound<'py, PyList>,
    problem: PyResult<()>,
}

impl Pass<'_> {
    fn take(&mut self, part: Part<'_>, feed: Option<&mut TextFeed<'_>>) {
        if let Part::Text(0, text) = &part
            && self.rest.is_empty()
            && self.texts < self.most
        {
            let is_taken = match feed {
                Some(feed) => feed.put(self.py, text),
                None => {
                    self.text.push_str(text);
                    true
                }
            };
            if is_taken {
                self.texts += 1;
                return;
            }
        }
        let appended = part.to_python(self.py).and_then(|part| self.rest.append(part));
        self.problem = std::mem::replace(&mut self.problem, Ok(())).and(appended);
    }
}
