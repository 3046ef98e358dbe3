//! The end of an edge that elements leave through: a sink that encodes what it accepts.

use std::sync::Arc;

use torvyn_stream::{Call, Element, End, ErrorKind, Outbox, Stage, StageError, Step};

use crate::edge_log::EdgeLog;

/// The carrier is woken for the elements of a turn together, or for those of so much time.
const COLLECT_NS: u64 = 250_000;

pub struct LogWriter {
    log: Arc<EdgeLog>,
    attributes: Vec<u8>,
    /// Since when elements wait of which the carrier does not know.
    untold_ns: Option<u64>,
}

impl LogWriter {
    pub fn new(log: Arc<EdgeLog>) -> Self {
        Self { log, attributes: Vec::new(), untold_ns: None }
    }
}

impl Stage for LogWriter {
    fn accept(
        &mut self,
        element: &mut Element,
        call: Call<'_>,
        _out: &mut Outbox,
    ) -> Result<Step, StageError> {
        let Some(payload) = element.read(call.ledger) else {
            return Err(StageError::new(ErrorKind::Internal, "the element's bytes cannot be read"));
        };
        let limits = self.log.limits;
        self.attributes.clear();
        if let Some(companion) = &element.companion {
            // Before the lock: the host may run another thread meanwhile, and that one may wait for the lock.
            self.log.codec.encode(companion, &mut self.attributes)?;
        }
        let size = payload.len() + self.attributes.len();
        if size > limits.max_element_bytes {
            let most = limits.max_element_bytes;
            let whose =
                if limits.batch_bytes.is_some() { ", because of the broker's `max_payload`" } else { "" };
            let message = format!("it has {size} bytes, and the edge stores at most {most}{whose}");
            return Err(StageError::new(ErrorKind::InvalidInput, message));
        }
        let key = self.log.keys.as_ref().map(|keys| keys.key_of(element, payload)).transpose()?;
        let mut state = self.log.write();
        if let Some(message) = state.failure.take() {
            return Err(StageError::new(ErrorKind::Fatal, message));
        }
        // Within the lock, so that a step of the clock is between two elements.
        let time_ns = (element.timestamp_ns as i64).wrapping_add(self.log.offset.now_ns());
        let is_first =
            state.push(key.as_ref(), element, payload, time_ns, &self.attributes, limits.batch_bytes);
        let is_full = if limits.batch_bytes.is_some() {
            state.pending().1 >= limits.buffer_bytes
        } else {
            state.open.builder.len_bytes() >= limits.buffer_bytes
        };
        if is_full && !limits.pauses && limits.batch_bytes.is_none() {
            state.close_batch();
        }
        state.is_paused |= is_full && limits.pauses;
        drop(state);
        if is_first {
            self.untold_ns = self.untold_ns.or(Some(call.now_ns));
        }
        let is_late = |since: u64| call.now_ns.saturating_sub(since) >= COLLECT_NS;
        if is_full || self.untold_ns.is_some_and(is_late) {
            self.untold_ns = None;
            self.log.bell.ring();
        }
        // The carrier resumes the node when it has taken the batch.
        Ok(if is_full && limits.pauses { Step::Pause } else { Step::Done })
    }

    fn rest(&mut self) {
        if self.untold_ns.take().is_some() {
            self.log.bell.ring();
        }
    }

    fn complete(&mut self, _end: &End) -> Result<(), StageError> {
        self.log.write().is_closed = true;
        self.log.bell.ring();
        Ok(())
    }
}
