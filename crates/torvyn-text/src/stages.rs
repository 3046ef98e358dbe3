//! The text state machines as stages of a flow.

use torvyn_stream::{Call, Element, Emission, ErrorKind, Outbox, Stage, StageError, Step};

use crate::blocklist::Blocklist;
use crate::sentence::Splitter;

fn bytes<'a>(element: &'a Element, call: Call<'_>) -> Result<&'a [u8], StageError> {
    element
        .read(call.ledger)
        .ok_or_else(|| StageError::new(ErrorKind::InvalidInput, "the payload cannot be read"))
}

/// Drops elements that are a listed word.
pub struct BlocklistStage(pub Blocklist);

impl Stage for BlocklistStage {
    fn accept(
        &mut self,
        element: &mut Element,
        call: Call<'_>,
        _out: &mut Outbox,
    ) -> Result<Step, StageError> {
        let blocked = self.0.matches(bytes(element, call)?);
        Ok(if blocked { Step::Drop } else { Step::Forward })
    }
}

/// Turns tokens into sentences. After `idle_flush_ns` without a token it sends the buffer.
pub struct SentenceStage {
    splitter: Splitter,
    idle_flush_ns: Option<u64>,
    alarm_ns: Option<u64>,
}

impl SentenceStage {
    pub fn new(splitter: Splitter, idle_flush_ns: Option<u64>) -> Self {
        Self { splitter, idle_flush_ns, alarm_ns: None }
    }
}

impl Stage for SentenceStage {
    fn accept(
        &mut self,
        element: &mut Element,
        call: Call<'_>,
        out: &mut Outbox,
    ) -> Result<Step, StageError> {
        let text = std::str::from_utf8(bytes(element, call)?).map_err(|error| {
            let message = format!("the payload is not UTF-8: {error}");
            StageError::new(ErrorKind::InvalidInput, message)
        })?;
        self.splitter.put(text, |sentence| out.emit(Emission::text(sentence)));
        self.alarm_ns = self.idle_flush_ns.map(|idle| call.now_ns + idle);
        Ok(Step::Done)
    }

    fn flush(&mut self, _call: Call<'_>, out: &mut Outbox) -> Result<Step, StageError> {
        if let Some(rest) = self.splitter.finish() {
            out.emit(Emission::text(&rest));
        }
        Ok(Step::Done)
    }

    fn due(&self) -> Option<u64> {
        self.alarm_ns
    }

    fn tick(&mut self, _call: Call<'_>, out: &mut Outbox) -> Result<(), StageError> {
        self.alarm_ns = None;
        if let Some(rest) = self.splitter.flush_idle() {
            out.emit(Emission::text(&rest));
        }
        Ok(())
    }

    fn interrupt(&mut self) {
        self.splitter.clear();
        self.alarm_ns = None;
    }

    fn held_bytes(&self) -> usize {
        self.splitter.held_bytes()
    }
}
