"""The templates' components in Rust, with the names, configs and outputs of those in Python."""

from __future__ import annotations

from textwrap import dedent
from typing import Final

WIT_BINDGEN: Final = "0.26"
"""The version that the crates ask for."""

WORKSPACE: Final = f"""\
[workspace]
resolver = "2"
members = ["components/*"]

[workspace.package]
version = "0.1.0"
edition = "2021"
publish = false

[workspace.dependencies]
wit-bindgen = "{WIT_BINDGEN}"

[profile.release]
panic = "abort"
strip = "debuginfo"
"""

_CRATE: Final = """\
[package]
name = "{name}"
version.workspace = true
edition.workspace = true
publish.workspace = true

[lib]
crate-type = ["cdylib"]

[dependencies]
wit-bindgen.workspace = true

# For summaries: the plural noun for its outputs. For a router: its ports.
[package.metadata.torvyn]
{notes}
"""


def _code(text: str) -> str:
    return dedent(text).lstrip("\n").replace("OUTPUT\n", _OUTPUT)


_OUTPUT = dedent("""\
    fn output(text: &str) -> Result<OutputElement, ProcessError> {
        let failed = |error: BufferError| ProcessError::Internal(format!("{error:?}"));
        let buffer = allocate(text.len() as u64).map_err(failed)?;
        buffer.append(text.as_bytes()).map_err(failed)?;
        let content_type = "text/plain; charset=utf-8".to_owned();
        let meta = ElementMeta { sequence: 0, timestamp_ns: 0, content_type };
        Ok(OutputElement { meta, payload: buffer.freeze() })
    }
""")

_COUNTDOWN = _code("""
    //! Counts down; its config is the number to start from.

    use std::cell::Cell;

    wit_bindgen::generate!({
        world: "data-source",
        path: "../../wit",
    });

    use exports::torvyn::streaming::lifecycle::Guest as Lifecycle;
    use exports::torvyn::streaming::source::Guest as Source;
    use torvyn::streaming::buffer_allocator::allocate;
    use torvyn::streaming::types::{
        BackpressureSignal, BufferError, ElementMeta, OutputElement, ProcessError,
    };

    thread_local! {
        static NEXT: Cell<u64> = const { Cell::new(3) };
    }

    struct Countdown;

    impl Lifecycle for Countdown {
        fn init(config: String) -> Result<(), ProcessError> {
            if !config.is_empty() {
                let number = config.parse();
                NEXT.set(number.map_err(|_| ProcessError::Fatal(format!("{config}: no number")))?);
            }
            Ok(())
        }

        fn teardown() {}
    }

    impl Source for Countdown {
        /// `None` ends the stream.
        fn pull() -> Result<Option<OutputElement>, ProcessError> {
            let number = NEXT.get();
            if number == 0 {
                return Ok(None);
            }
            NEXT.set(number - 1);
            output(&number.to_string()).map(Some)
        }

        fn notify_backpressure(_signal: BackpressureSignal) {}
    }

    OUTPUT

    export!(Countdown);
""")

_SHOUT = _code("""
    //! Converts every element to upper case.

    wit_bindgen::generate!({
        world: "transform",
        path: "../../wit",
    });

    use exports::torvyn::streaming::processor::Guest as Processor;
    use torvyn::streaming::buffer_allocator::allocate;
    use torvyn::streaming::types::{
        BufferError, ElementMeta, OutputElement, ProcessError, ProcessResult, StreamElement,
    };

    struct Shout;

    impl Processor for Shout {
        fn process(element: StreamElement) -> Result<ProcessResult, ProcessError> {
            let text = String::from_utf8(element.payload.read_all())
                .map_err(|error| ProcessError::InvalidInput(error.to_string()))?;
            output(&format!("{}!", text.to_uppercase())).map(ProcessResult::Emit)
        }
    }

    OUTPUT

    export!(Shout);
""")

_KEEP_SHORT = _code("""
    //! Passes short elements; its config is the maximum length in bytes.

    use std::cell::Cell;

    wit_bindgen::generate!({
        world: "content-filter",
        path: "../../wit",
    });

    use exports::torvyn::filtering::filter::Guest as Filter;
    use exports::torvyn::streaming::lifecycle::Guest as Lifecycle;
    use torvyn::streaming::types::{ProcessError, StreamElement};

    thread_local! {
        static LIMIT: Cell<u64> = const { Cell::new(3) };
    }

    struct KeepShort;

    impl Lifecycle for KeepShort {
        fn init(config: String) -> Result<(), ProcessError> {
            if !config.is_empty() {
                let limit = config.parse();
                LIMIT.set(limit.map_err(|_| ProcessError::Fatal(format!("{config}: no number")))?);
            }
            Ok(())
        }

        fn teardown() {}
    }

    impl Filter for KeepShort {
        /// Reads the size only, so no byte is copied into the sandbox.
        fn evaluate(element: StreamElement) -> Result<bool, ProcessError> {
            Ok(element.payload.size() <= LIMIT.get())
        }
    }

    export!(KeepShort);
""")

_BY_LENGTH = _code("""
    //! Sends short elements to one port and long elements to another, without reading them.

    wit_bindgen::generate!({
        world: "content-router",
        path: "../../wit",
    });

    use exports::torvyn::filtering::router::Guest as Router;
    use exports::torvyn::streaming::lifecycle::Guest as Lifecycle;
    use torvyn::streaming::types::{ProcessError, StreamElement};

    struct ByLength;

    impl Lifecycle for ByLength {
        fn init(_config: String) -> Result<(), ProcessError> {
            Ok(())
        }

        fn teardown() {}
    }

    impl Router for ByLength {
        fn route(element: StreamElement) -> Result<Vec<String>, ProcessError> {
            let port = if element.payload.size() <= 3 { "short" } else { "long" };
            Ok(vec![port.to_owned()])
        }
    }

    export!(ByLength);
""")

_PAIRS = _code("""
    //! Joins every two elements into one.

    use std::cell::RefCell;

    wit_bindgen::generate!({
        world: "stream-aggregator",
        path: "../../wit",
    });

    use exports::torvyn::aggregation::aggregator::Guest as Aggregator;
    use exports::torvyn::streaming::lifecycle::Guest as Lifecycle;
    use torvyn::streaming::buffer_allocator::allocate;
    use torvyn::streaming::types::{
        BufferError, ElementMeta, OutputElement, ProcessError, StreamElement,
    };

    thread_local! {
        static TEXTS: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    }

    struct Pairs;

    impl Lifecycle for Pairs {
        fn init(_config: String) -> Result<(), ProcessError> {
            Ok(())
        }

        fn teardown() {}
    }

    impl Aggregator for Pairs {
        fn ingest(element: StreamElement) -> Result<Option<OutputElement>, ProcessError> {
            let text = String::from_utf8(element.payload.read_all())
                .map_err(|error| ProcessError::InvalidInput(error.to_string()))?;
            TEXTS.with_borrow_mut(|texts| texts.push(text));
            if TEXTS.with_borrow(Vec::len) == 2 { join().map(Some) } else { Ok(None) }
        }

        /// The input has ended.
        fn flush() -> Result<Vec<OutputElement>, ProcessError> {
            if TEXTS.with_borrow(Vec::is_empty) { Ok(vec![]) } else { Ok(vec![join()?]) }
        }
    }

    fn join() -> Result<OutputElement, ProcessError> {
        output(&TEXTS.take().join(" and "))
    }

    OUTPUT

    export!(Pairs);
""")

_NUMBERED = _code("""
    //! Prints every element with its number. Printing needs a grant in `Torvyn.toml`.

    use std::cell::Cell;

    wit_bindgen::generate!({
        world: "data-sink",
        path: "../../wit",
    });

    use exports::torvyn::streaming::lifecycle::Guest as Lifecycle;
    use exports::torvyn::streaming::sink::Guest as Sink;
    use torvyn::streaming::types::{BackpressureSignal, ProcessError, StreamElement};

    thread_local! {
        static RECEIVED: Cell<u64> = const { Cell::new(0) };
    }

    struct Numbered;

    impl Lifecycle for Numbered {
        fn init(_config: String) -> Result<(), ProcessError> {
            Ok(())
        }

        fn teardown() {}
    }

    impl Sink for Numbered {
        fn push(element: StreamElement) -> Result<BackpressureSignal, ProcessError> {
            let text = String::from_utf8(element.payload.read_all())
                .map_err(|error| ProcessError::InvalidInput(error.to_string()))?;
            RECEIVED.set(RECEIVED.get() + 1);
            println!("{}. {text}", RECEIVED.get());
            Ok(BackpressureSignal::Ready)
        }

        fn complete() -> Result<(), ProcessError> {
            Ok(())
        }
    }

    export!(Numbered);
""")

_DETECTOR = _code("""
    //! Scores each reading: its distance from the moving mean, in standard deviations.

    use std::cell::RefCell;

    wit_bindgen::generate!({
        world: "transform",
        path: "../../wit",
    });

    use exports::torvyn::streaming::processor::Guest as Processor;
    use torvyn::streaming::buffer_allocator::allocate;
    use torvyn::streaming::types::{
        BufferError, ElementMeta, OutputElement, ProcessError, ProcessResult, StreamElement,
    };

    const ALPHA: f64 = 0.1;
    const CLIP: f64 = 3.0;
    const NOISE: f64 = 0.01;
    const THRESHOLD: f64 = 4.0;

    #[derive(Default)]
    struct Detector {
        mean: Option<f64>,
        variance: f64,
    }

    thread_local! {
        static DETECTOR: RefCell<Detector> = RefCell::default();
    }

    impl Processor for Detector {
        fn process(element: StreamElement) -> Result<ProcessResult, ProcessError> {
            let text = String::from_utf8_lossy(&element.payload.read_all()).into_owned();
            let wrong = |_| ProcessError::InvalidInput("the reading is not a number".to_owned());
            let value: f64 = text.parse().map_err(wrong)?;
            let score = DETECTOR.with_borrow_mut(|detector| detector.learn(value));
            let anomaly = score > THRESHOLD;
            output(&format!(r#"{{"value": {text}, "score": {score:.2}, "anomaly": {anomaly}}}"#))
                .map(ProcessResult::Emit)
        }
    }

    impl Detector {
        fn learn(&mut self, value: f64) -> f64 {
            let mean = self.mean.unwrap_or(value);
            let deviation = (self.variance + NOISE).sqrt();
            let score = (value - mean).abs() / deviation;
            // An anomaly must not become the new normal.
            let distance = (value - mean).clamp(-CLIP * deviation, CLIP * deviation);
            self.mean = Some(mean + ALPHA * distance);
            self.variance = (1.0 - ALPHA) * (self.variance + ALPHA * distance * distance);
            score
        }
    }

    OUTPUT

    export!(Detector);
""").replace("text/plain; charset=utf-8", "application/json")

_SOURCES: Final = {
    "detector": (_DETECTOR, 'unit = "readings"'),
    "countdown": (_COUNTDOWN, 'unit = "numbers"'),
    "shout": (_SHOUT, 'unit = "shouts"'),
    "keep-short": (_KEEP_SHORT, 'unit = "words"'),
    "by-length": (_BY_LENGTH, 'ports = ["short", "long"]'),
    "pairs": (_PAIRS, 'unit = "pairs"'),
    "numbered": (_NUMBERED, 'unit = "lines"'),
}
"""Name -> the text of its `lib.rs`, and what its `Cargo.toml` says to Torvyn."""


def crate_files(name: str) -> dict[str, str]:
    """The files of a component, by their paths in its folder."""
    source, notes = _SOURCES[name]
    return {"Cargo.toml": _CRATE.format(name=name, notes=notes), "src/lib.rs": source}
