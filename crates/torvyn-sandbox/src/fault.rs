//! Faults: error messages for failed guests, with the function, the cause and the guest's own backtrace.

use std::time::Duration;

use torvyn_stream::{ErrorKind, StageError};
use wasmtime::{Error, FrameInfo, Trap, WasmBacktrace};

use crate::contract::ProcessError;

/// The host cut off a call that waited in the host.
#[derive(Debug, thiserror::Error)]
#[error("the call waited in the host")]
pub struct CallTimeout;

/// The guest was refused memory in a call that cannot report it. The limiter knows what it was.
#[derive(Debug, thiserror::Error)]
#[error("the memory limit was exceeded")]
pub struct MemoryExceeded;

/// The longest text that is kept from a guest: it may fill its memory with one, and it is logged.
const TEXT_MAX: usize = 4 << 10;
/// A name in a guest's backtrace.
const NAME_MAX: usize = 200;

/// Cuts a guest's text if it is too long.
pub fn clip(mut text: String) -> String {
    if text.len() > TEXT_MAX {
        let whole = text.len();
        let end = (0..=TEXT_MAX).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
        text.shrink_to_fit();
        text.push_str(&format!("... ({whole} bytes)"));
    }
    text
}

/// A name from the guest's file, which may contain anything: made one line, and cut.
fn plain(name: &str) -> String {
    let shown = |c: char| if c.is_control() || is_bidi_control(c) { '\u{fffd}' } else { c };
    name.chars().take(NAME_MAX).map(shown).collect()
}

/// Whether it changes the order in which a terminal shows the text around it, or ends a line for some readers.
fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The error that a guest returned.
pub fn guest_error(error: ProcessError) -> StageError {
    let (kind, message) = match error {
        ProcessError::InvalidInput(message) => (ErrorKind::InvalidInput, message),
        ProcessError::Unavailable(message) => (ErrorKind::Unavailable, message),
        ProcessError::Internal(message) => (ErrorKind::Internal, message),
        ProcessError::DeadlineExceeded => (ErrorKind::DeadlineExceeded, "the deadline was exceeded".into()),
        ProcessError::Fatal(message) => (ErrorKind::Fatal, message),
    };
    StageError::new(kind, clip(message))
}

/// The error of a call that did not return. `refused` is what the limiter refused before.
pub fn trap_error(function: &str, error: &Error, refused: Option<&str>, limit: Duration) -> StageError {
    let (kind, mut message) = match cause(error) {
        Cause::CallTimeout => {
            let limit_s = limit.as_secs_f64();
            (
                ErrorKind::DeadlineExceeded,
                format!("`{function}` took longer than {limit_s} s and was stopped"),
            )
        }
        Cause::Fuel => (ErrorKind::DeadlineExceeded, format!("`{function}` used up its fuel")),
        Cause::Trap(what) => (ErrorKind::Internal, format!("`{function}` trapped: {what}")),
    };
    if let Some(refused) = refused {
        message.push_str(&format!("; the sandbox refused {refused}"));
    }
    if let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() {
        message.push_str(&frames(backtrace));
    }
    StageError::new(kind, message)
}

enum Cause {
    CallTimeout,
    Fuel,
    Trap(String),
}

fn cause(error: &Error) -> Cause {
    if error.downcast_ref::<CallTimeout>().is_some() {
        return Cause::CallTimeout;
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => Cause::CallTimeout,
        Some(Trap::OutOfFuel) => Cause::Fuel,
        Some(trap) => Cause::Trap(trap.to_string().trim_start_matches("wasm trap: ").to_owned()),
        None => {
            let what = error.root_cause().to_string();
            // The library's error has no public type.
            if what.ends_with("fuel allocated for hostcalls has been exhausted") {
                return Cause::Trap(
                    "it passed more strings and lists in one call than the host accepts".to_owned(),
                );
            }
            Cause::Trap(clip(what))
        }
    }
}

/// Innermost first, as wasmtime counts them. A recursive function appears once.
fn frames(backtrace: &WasmBacktrace) -> String {
    let mut text = String::from("\nguest backtrace:");
    let named: Vec<String> = backtrace.frames().iter().map(named).collect();
    let mut at = 0;
    for same in named.chunk_by(|one, next| one == next) {
        text.push_str(&format!("\n  {at}: {}", same[0]));
        if same.len() > 1 {
            text.push_str(&format!(" ({} times)", same.len()));
        }
        at += same.len();
    }
    text
}

fn named(frame: &FrameInfo) -> String {
    let mut text = match frame.func_name() {
        Some(name) => plain(name),
        None => format!("function {}", frame.func_index()),
    };
    let place = frame.symbols().first().and_then(|symbol| Some((symbol.file()?, symbol.line()?)));
    if let Some((file, line)) = place {
        text.push_str(&format!(" at {}:{line}", plain(file)));
    }
    text
}

/// Why a guest cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    #[error("the sandbox cannot be set up: {0}")]
    Engine(String),
    #[error("it is not a valid WebAssembly component: {0}")]
    Invalid(String),
    #[error("it is too complex: {0}")]
    TooComplex(String),
    #[error("it is a core module, not a component")]
    CoreModule,
    #[error("it exports none of Torvyn's roles: {exports}")]
    NoRole { exports: String },
    #[error("it exports several roles: {roles}")]
    SeveralRoles { roles: String },
    #[error("it imports an interface that this host does not provide: {import}")]
    Import { import: String },
    #[error("its interface `{interface}` does not match the contract: {reason}")]
    Contract { interface: String, reason: String },
    #[error("a grant cannot be opened: {0}")]
    Grant(String),
    #[error("the cache cannot be used: {0}")]
    Cache(#[from] std::io::Error),
}
