//! Stands in for a language model: sends its words one at a time.

use std::cell::Cell;

wit_bindgen::generate!({
    world: "data-source",
    path: "../../wit/torvyn-streaming",
});

use exports::torvyn::streaming::lifecycle::Guest as Lifecycle;
use exports::torvyn::streaming::source::Guest as Source;
use torvyn::streaming::buffer_allocator::allocate;
use torvyn::streaming::types::{BackpressureSignal, BufferError, ElementMeta, OutputElement, ProcessError};

const TEXT: &str = "The| quick| brown| fox| jumped| over| the| lazy| dog|.| The| blocked_word| was| filtered|.\
    | Torvyn| handles| streaming| tokens|.";

thread_local! {
    static NEXT: Cell<usize> = const { Cell::new(0) };
}

struct TokenSource;

impl Lifecycle for TokenSource {
    fn init(_config: String) -> Result<(), ProcessError> {
        NEXT.set(0);
        Ok(())
    }

    fn teardown() {}
}

impl Source for TokenSource {
    fn pull() -> Result<Option<OutputElement>, ProcessError> {
        let at = NEXT.replace(NEXT.get() + 1);
        TEXT.split('|').nth(at).map(element).transpose()
    }

    fn notify_backpressure(_signal: BackpressureSignal) {}
}

fn element(token: &str) -> Result<OutputElement, ProcessError> {
    let failed = |error: BufferError| ProcessError::Internal(format!("{error:?}"));
    let buffer = allocate(token.len() as u64).map_err(failed)?;
    buffer.append(token.as_bytes()).map_err(failed)?;
    let content_type = "text/plain; charset=utf-8".to_owned();
    let meta = ElementMeta { sequence: 0, timestamp_ns: 0, content_type };
    Ok(OutputElement { meta, payload: buffer.freeze() })
}

export!(TokenSource);
