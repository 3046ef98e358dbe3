//! The stage: a component as the reactor sees it, and what it may answer.
//!
//! A stage never touches a queue. It puts what it makes into the outbox and says with a `Step` what becomes of the
//! element it was given; order, policies, accounting and back-pressure are the reactor's.

use std::ptr::NonNull;

use crate::content::ContentType;
use crate::element::Element;
use crate::foreign::Foreign;
use crate::ledger::Ledger;
use crate::payload::Payload;

/// Something a component made, before the reactor gives it a sequence and an owner.
#[derive(Debug)]
pub struct Emission {
    pub payload: Payload,
    pub len: u32,
    pub content_type: ContentType,
    pub companion: Option<Foreign>,
    pub keep: bool,
}

impl Emission {
    #[inline]
    pub fn text(text: &str) -> Self {
        Self {
            payload: Payload::from_slice(text.as_bytes()),
            len: text.len() as u32,
            content_type: ContentType::TEXT,
            companion: None,
            keep: false,
        }
    }
}

/// How a stream ended.
#[derive(Debug, Clone)]
pub struct End {
    pub finish_reason: String,
    pub detail: Option<String>,
    /// The host's own object, when a source ended with one.
    pub object: Option<Foreign>,
}

impl End {
    pub fn because(finish_reason: &str) -> Self {
        Self { finish_reason: finish_reason.to_owned(), detail: None, object: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    InvalidInput,
    Unavailable,
    Internal,
    DeadlineExceeded,
    Fatal,
    /// The component broke its role's contract: stops the flow like `Fatal`.
    Contract,
    /// Nobody is at fault: the person at the keyboard wants to stop. The flow is cancelled.
    Interrupted,
}

#[derive(Debug, thiserror::Error)]
#[error("{kind:?}: {message}")]
pub struct StageError {
    pub kind: ErrorKind,
    pub message: String,
    /// The host's exception, when there is one.
    pub object: Option<Foreign>,
}

impl StageError {
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), object: None }
    }

    pub fn stops_the_flow(&self) -> bool {
        matches!(self.kind, ErrorKind::Fatal | ErrorKind::Contract | ErrorKind::Interrupted)
    }

    pub fn may_be_retried(&self) -> bool {
        !self.stops_the_flow() && self.kind != ErrorKind::InvalidInput
    }
}

/// What becomes of the element a stage was given.
#[derive(Debug)]
pub enum Step {
    /// It was used up; what was made of it is in the outbox.
    Done,
    /// It goes on as it is.
    Forward,
    /// It goes on to the ports listed in the outbox.
    Route,
    /// It was judged and dropped.
    Drop,
    /// It waits, in order, for a later verdict.
    Hold,
    /// This takes its place and that of all held before it.
    Replace(Emission),
    /// The stream ends here.
    Block(String),
    /// It was used up, and no more is wanted until the stage is resumed.
    Pause,
    /// It was used up, and `resume` will make more of it.
    More,
}

/// What a source answers.
#[derive(Debug)]
pub enum Pull {
    Ready(Emission),
    /// Nothing until the source is woken, or until the time given.
    Pending(Option<u64>),
    End(End),
}

/// Where a stage puts what it makes. Reused between calls.
#[derive(Debug, Default)]
pub struct Outbox {
    pub made: Vec<Emission>,
    pub ports: Vec<u16>,
}

impl Outbox {
    #[inline]
    pub fn emit(&mut self, emission: Emission) {
        self.made.push(emission);
    }
}

/// What every call may look at besides its element.
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    pub ledger: &'a Ledger,
    pub now_ns: u64,
}

#[allow(unused_variables)]
pub trait Stage: Send {
    /// A source's next element.
    fn pull(&mut self, call: Call<'_>) -> Result<Pull, StageError> {
        Ok(Pull::End(End::because("stop")))
    }

    /// One element, for every role but a source. The element may be given a companion, nothing else.
    fn accept(&mut self, element: &mut Element, call: Call<'_>, out: &mut Outbox)
    -> Result<Step, StageError>;

    /// Goes on after `Step::More`, when what was made before has left.
    fn resume(&mut self, call: Call<'_>, out: &mut Outbox) -> Result<Step, StageError> {
        Ok(Step::Done)
    }

    /// The input has ended: what is left to send.
    fn flush(&mut self, call: Call<'_>, out: &mut Outbox) -> Result<Step, StageError> {
        Ok(Step::Done)
    }

    /// A sink's last call in a stream that ended in order.
    fn complete(&mut self, end: &End) -> Result<(), StageError> {
        Ok(())
    }

    /// When the stage wants `tick`, in the flow's time. The tick ends a pause.
    fn due(&self) -> Option<u64> {
        None
    }

    fn tick(&mut self, call: Call<'_>, out: &mut Outbox) -> Result<(), StageError> {
        Ok(())
    }

    /// Forget what is half done: an interrupt passed by.
    fn interrupt(&mut self) {}

    /// A source is told once when the flow stops taking, and once when it takes again.
    fn pressure(&mut self, active: bool) {}

    /// Bytes kept inside the stage, which count against its node's budget.
    fn held_bytes(&self) -> usize {
        0
    }

    /// The stream is over, however it ended: let go of everything that belongs to it.
    fn close(&mut self) {}

    /// The host's objects that the stage keeps, for a host that looks for cycles.
    fn visit(&self, visit: &mut dyn FnMut(NonNull<()>)) {}
}
