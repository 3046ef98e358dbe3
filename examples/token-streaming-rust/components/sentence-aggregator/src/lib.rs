//! Joins tokens into sentences: one ends with the token that ends in `.`, `!` or `?`.

use std::cell::RefCell;

wit_bindgen::generate!({
    world: "stream-aggregator",
    path: "../../wit",
});

use exports::torvyn::aggregation::aggregator::Guest as Aggregator;
use exports::torvyn::streaming::lifecycle::Guest as Lifecycle;
use torvyn::streaming::buffer_allocator::allocate;
use torvyn::streaming::types::{BufferError, ElementMeta, OutputElement, ProcessError, StreamElement};

thread_local! {
    static OPEN: RefCell<String> = const { RefCell::new(String::new()) };
}

struct SentenceAggregator;

impl Lifecycle for SentenceAggregator {
    fn init(_config: String) -> Result<(), ProcessError> {
        OPEN.take();
        Ok(())
    }

    fn teardown() {}
}

impl Aggregator for SentenceAggregator {
    fn ingest(element: StreamElement) -> Result<Option<OutputElement>, ProcessError> {
        let token = String::from_utf8(element.payload.read_all())
            .map_err(|error| ProcessError::InvalidInput(error.to_string()))?;
        OPEN.with_borrow_mut(|open| open.push_str(&token));
        if token.trim_end().ends_with(['.', '!', '?']) { finish() } else { Ok(None) }
    }

    fn flush() -> Result<Vec<OutputElement>, ProcessError> {
        Ok(finish()?.into_iter().collect())
    }
}

/// The sentence so far, unless it is blank.
fn finish() -> Result<Option<OutputElement>, ProcessError> {
    let sentence = OPEN.take();
    let text = sentence.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let failed = |error: BufferError| ProcessError::Internal(format!("{error:?}"));
    let buffer = allocate(text.len() as u64).map_err(failed)?;
    buffer.append(text.as_bytes()).map_err(failed)?;
    let meta = ElementMeta { sequence: 0, timestamp_ns: 0, content_type: "text/plain".to_owned() };
    Ok(Some(OutputElement { meta, payload: buffer.freeze() }))
}

export!(SentenceAggregator);
