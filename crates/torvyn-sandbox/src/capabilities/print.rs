//! What a guest prints: complete lines, buffered until the call ends, then passed to the flow's printer.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::io::AsyncWrite;
use wasmtime_wasi::cli::{IsTerminal, StdoutStream};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

use crate::fault::clip;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    Stdout,
    Stderr,
}

/// One line, without its line end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub channel: Channel,
    pub text: String,
    /// Whether the channel is granted; other lines go to the log.
    pub granted: bool,
}

/// Receives every line after the call that printed it.
pub type Printer = Arc<dyn Fn(Line) + Send + Sync>;

/// Longer lines are split.
const LINE_MAX: usize = 64 << 10;
/// A guest that prints more in one call is cut off.
const CALL_MAX: usize = 4 << 20;
/// The cost of a line besides its bytes, so that a call that prints only line ends is cut off too.
const LINE_COST: usize = 128;

#[derive(Default)]
struct PrintedLines {
    lines: Vec<Line>,
    bytes: usize,
    open: [Vec<u8>; 2],
    granted: [bool; 2],
}

/// The lines of one instance that were not delivered yet.
#[derive(Clone, Default)]
pub struct PrintBuffer(Arc<Mutex<PrintedLines>>);

impl PrintBuffer {
    fn put(&self, channel: Channel, granted: bool, bytes: &[u8]) -> bool {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.bytes += bytes.len();
        if pages.bytes > CALL_MAX {
            return false;
        }
        pages.granted[channel as usize] = granted;
        let mut open = std::mem::take(&mut pages.open[channel as usize]);
        for byte in bytes {
            if *byte == b'\n' || open.len() >= LINE_MAX {
                pages.bytes += LINE_COST;
                if pages.bytes > CALL_MAX {
                    return false;
                }
                pages.lines.push(line(channel, granted, &open));
                open.clear();
            }
            if *byte != b'\n' {
                open.push(*byte);
            }
        }
        pages.open[channel as usize] = open;
        true
    }

    /// Passes complete lines to the printer; at the end of the instance (`last`) also incomplete ones.
    pub fn deliver(&self, printer: &Printer, last: bool) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.bytes = 0;
        let mut lines = std::mem::take(&mut pages.lines);
        if last {
            for channel in [Channel::Stdout, Channel::Stderr] {
                let open = std::mem::take(&mut pages.open[channel as usize]);
                if !open.is_empty() {
                    lines.push(line(channel, pages.granted[channel as usize], &open));
                }
            }
        }
        drop(pages);
        for line in lines {
            printer(line);
        }
    }
}

fn line(channel: Channel, granted: bool, bytes: &[u8]) -> Line {
    let text = String::from_utf8_lossy(bytes).into_owned();
    // Lines without a grant go to the log, where lines are short.
    Line { channel, text: if granted { text } else { clip(text) }, granted }
}

/// One of a guest's two channels, as WASI sees it.
#[derive(Clone)]
pub struct PrintChannel {
    pub channel: Channel,
    pub granted: bool,
    pub printed: PrintBuffer,
}

impl IsTerminal for PrintChannel {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for PrintChannel {
    fn async_stream(&self) -> Box<dyn AsyncWrite + Send + Sync> {
        // Only WASI preview 3 calls this, and no guest is linked with it.
        Box::new(tokio::io::sink())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

#[wasmtime_wasi::async_trait]
impl Pollable for PrintChannel {
    async fn ready(&mut self) {}
}

impl OutputStream for PrintChannel {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        if self.printed.put(self.channel, self.granted, &bytes) { Ok(()) } else { Err(StreamError::Closed) }
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(LINE_MAX)
    }
}
