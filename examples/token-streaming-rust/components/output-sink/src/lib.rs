//! Prints each sentence with its number. Printing needs a grant: without it the lines go to the log.

use std::cell::Cell;

wit_bindgen::generate!({
    world: "data-sink",
    path: "../../wit/torvyn-streaming",
});

use exports::torvyn::streaming::lifecycle::Guest as Lifecycle;
use exports::torvyn::streaming::sink::Guest as Sink;
use torvyn::streaming::types::{BackpressureSignal, ProcessError, StreamElement};

thread_local! {
    static RECEIVED: Cell<u64> = const { Cell::new(0) };
}

struct OutputSink;

impl Lifecycle for OutputSink {
    fn init(_config: String) -> Result<(), ProcessError> {
        RECEIVED.set(0);
        Ok(())
    }

    fn teardown() {}
}

impl Sink for OutputSink {
    fn push(element: StreamElement) -> Result<BackpressureSignal, ProcessError> {
        let text = String::from_utf8(element.payload.read_all())
            .map_err(|error| ProcessError::InvalidInput(error.to_string()))?;
        println!("[output-sink] sentence {}: {text}", RECEIVED.replace(RECEIVED.get() + 1));
        Ok(BackpressureSignal::Ready)
    }

    fn complete() -> Result<(), ProcessError> {
        println!("[output-sink] Stream complete.");
        Ok(())
    }
}

export!(OutputSink);
