//! The stage: a component as the reactor sees it, and what its calls may return.
//!
//! A stage never touches a queue. It puts its outputs into the outbox and returns a `Step` that says what happens to
//! its element. The reactor is responsible for order, policies, accounting and back-pressure.

use std::ptr::NonNull;

use crate::batch::{Answers, Batch};
use crate::content::ContentType;
use crate::delivery::Delivery;
use crate::element::Element;
use crate::foreign::Foreign;
use crate::ledger::Ledger;
use crate::payload::Payload;

/// An output of a component, before the reactor gives it a sequence number and an owner.
#[derive(Debug)]
pub struct Emission {
    pub payload: Payload,
    pub len: u32,
    pub content_type: ContentType,
    pub companion: Option<Foreign>,
    pub delivery: Delivery,
}

// One is written for every output, so what few of them need takes no further word.
const _: () = assert!(size_of::<Emission>() == 48);

impl Emission {
    #[inline]
    pub fn text(text: &str) -> Self {
        Self {
            payload: Payload::from_slice(text.as_bytes()),
            len: text.len() as u32,
            content_type: ContentType::TEXT,
            companion: None,
            delivery: Delivery::default(),
        }
    }

    /// Takes the emission out of its place and leaves an empty one. On its way to a queue an emission is passed by
    /// reference: passed by value, each call would copy it, and a processor stalls on such copies.
    #[inline(always)]
    pub fn take(&mut self) -> Self {
        std::mem::replace(self, Self::text(""))
    }
}

/// How a stream ended.
#[derive(Debug, Clone)]
pub struct End {
    pub finish_reason: String,
    pub detail: Option<String>,
    /// The host's own object, if a source ended with one.
    pub object: Option<Foreign>,
}

impl End {
    pub fn because(finish_reason: &str) -> Self {
        Self { finish_reason: finish_reason.to_owned(), detail: None, object: None }
    }

    /// The size of its texts.
    pub fn heap_bytes(&self) -> usize {
        self.finish_reason.capacity() + self.detail.as_ref().map_or(0, String::capacity)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    InvalidInput,
    Unavailable,
    Internal,
    DeadlineExceeded,
    Fatal,
    /// The component broke its role's contract. Stops the flow like `Fatal`.
    Contract,
    /// A person interrupted the process. The flow is cancelled and no component is at fault.
    Interrupted,
}

#[derive(Debug, thiserror::Error)]
#[error("{kind:?}: {message}")]
pub struct StageError {
    pub kind: ErrorKind,
    pub message: String,
    /// The host's exception, if there is one.
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

/// What happens to the element that a stage received.
#[derive(Debug)]
pub enum Step {
    /// It is consumed; the outputs made from it are in the outbox.
    Done,
    /// It is passed on unchanged.
    Forward,
    /// It is passed on to the ports listed in the outbox.
    Route,
    /// It is dropped by a verdict.
    Drop,
    /// It waits, in order, for a later verdict.
    Hold,
    /// This output replaces it and all elements held before it.
    Replace(Emission),
    /// The stream ends here.
    Block(String),
    /// It is consumed, and the stage wants no more until it is resumed.
    Pause,
    /// It is consumed, and `resume` will produce more outputs from it.
    More,
}

/// What a source returns.
#[derive(Debug)]
pub enum Pull {
    Ready(Emission),
    /// Nothing until the source is woken, or until the given time.
    Pending(Option<u64>),
    End(End),
}

/// Where a stage puts its outputs. Reused between calls.
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

/// What every call may use besides its element.
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

    /// The sequence number and the time that the element of the last `pull` had before it left the process, for the
    /// end of an edge that elements come back from.
    fn restored_stamp(&self) -> (u64, u64) {
        (0, 0)
    }

    /// Whether a source returns several elements per call.
    fn pulls_many(&self) -> bool {
        false
    }

    /// At most `most` elements, into the outbox, without waiting for any; they are sent whatever the result is. `None`:
    /// there may be more.
    fn pull_many(
        &mut self,
        most: usize,
        call: Call<'_>,
        out: &mut Outbox,
    ) -> Result<Option<Pull>, StageError> {
        match self.pull(call)? {
            Pull::Ready(emission) => {
                out.emit(emission);
                Ok(None)
            }
            other => Ok(Some(other)),
        }
    }

    /// One element, for every role but a source. The stage may set the element's companion and nothing else.
    fn accept(&mut self, element: &mut Element, call: Call<'_>, out: &mut Outbox)
    -> Result<Step, StageError>;

    /// How many elements `accept_batch` takes at once now. 1: the stage is called for each element.
    fn batch_limit(&self) -> usize {
        1
    }

    /// The elements that wait, at most `batch_limit` of them and at least two. An error is about the call as a whole:
    /// no element is settled, and each is given to `accept`.
    fn accept_batch(
        &mut self,
        batch: Batch<'_>,
        call: Call<'_>,
        answers: &mut Answers,
    ) -> Result<(), StageError> {
        Err(StageError::new(ErrorKind::Contract, "the stage takes no batches"))
    }

    /// Names the input of the next element, for a node whose inputs have names.
    fn set_input(&mut self, input: u16) {}

    /// Continues after `Step::More`, when the earlier outputs have been sent.
    fn resume(&mut self, call: Call<'_>, out: &mut Outbox) -> Result<Step, StageError> {
        Ok(Step::Done)
    }

    /// The input has ended: the stage emits what is left.
    fn flush(&mut self, call: Call<'_>, out: &mut Outbox) -> Result<Step, StageError> {
        Ok(Step::Done)
    }

    /// A sink's last call in a stream that ended in order.
    fn complete(&mut self, end: &End) -> Result<(), StageError> {
        Ok(())
    }

    /// When the stage wants `tick`, in the flow's time. A tick ends a pause.
    fn due(&self) -> Option<u64> {
        None
    }

    fn tick(&mut self, call: Call<'_>, out: &mut Outbox) -> Result<(), StageError> {
        Ok(())
    }

    /// The flow rests, or gives its thread to others: what was collected for somebody outside is theirs now.
    fn rest(&mut self) {}

    /// An interrupt: forget unfinished work.
    fn interrupt(&mut self) {}

    /// Tells a source once when the flow stops accepting elements, and once when it accepts them again.
    fn pressure(&mut self, active: bool) {}

    /// Whether a source asks for acknowledgements.
    fn wants_acknowledgements(&self) -> bool {
        false
    }

    /// Tells a source that its next `count` elements, in the order of its pulls, are settled.
    fn acknowledge(&mut self, count: u64) {}

    /// Tells a source that one of its elements was dropped because it became too old in the queue behind it. It counts
    /// as settled from then on.
    fn note_expired(&mut self, sequence: u64) {}

    /// Its state as bytes, for a checkpoint; `None` when it has none to save.
    fn snapshot(&mut self, call: Call<'_>) -> Result<Option<Vec<u8>>, StageError> {
        Ok(None)
    }

    /// How many of the newest elements it took lie between now and the oldest one that is not in its outputs yet. None
    /// if it does not know.
    fn held_elements(&self) -> Option<usize> {
        None
    }

    /// Bytes buffered inside the stage, which count against its node's budget.
    fn held_bytes(&self) -> usize {
        0
    }

    /// The bytes that it takes in the flow beside the component itself: what the host's border allocates for a flow.
    fn border_bytes(&self) -> usize {
        0
    }

    /// The stream is over: release everything that belongs to it.
    fn close(&mut self) {}

    /// The host's objects that the stage keeps, for a host that collects cycles.
    fn visit(&self, visit: &mut dyn FnMut(NonNull<()>)) {}
}
