//! The end of an edge that elements leave through: a sink that encodes what it accepts.

use std::sync::Arc;

use torvyn_stream::{Call, Element, End, ErrorKind, Outbox, Stage, StageError, Step};

use crate::edge_log::EdgeLog;

pub struct LogWriter(Arc<EdgeLog>);

impl LogWriter {
    pub fn new(log: Arc<EdgeLog>) -> Self {
        Self(log)
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
        if payload.len() > self.0.max_element_bytes {
            let most = self.0.max_element_bytes;
            let message = format!("it has {} bytes, and the edge stores at most {most}", payload.len());
            return Err(StageError::new(ErrorKind::InvalidInput, message));
        }
        let time_ns = (element.timestamp_ns as i64).wrapping_add(self.0.offset_ns());
        let mut state = self.0.write();
        if let Some(message) = state.failure.take() {
            return Err(StageError::new(ErrorKind::Fatal, message));
        }
        state.builder.push(element, payload, time_ns, &*self.0.codec)?;
        state.receipts.extend(element.receipt());
        let is_first = state.builder.count() == 1;
        let is_full = state.builder.len_bytes() >= self.0.buffer_bytes;
        if is_full && !self.0.pauses {
            let full = (std::mem::take(&mut state.builder), std::mem::take(&mut state.receipts));
            state.full.push_back(full);
        }
        drop(state);
        if is_first || is_full {
            self.0.bell.ring();
        }
        // The carrier resumes the node when it has taken the batch.
        Ok(if is_full && self.0.pauses { Step::Pause } else { Step::Done })
    }

    fn complete(&mut self, _end: &End) -> Result<(), StageError> {
        self.0.write().is_closed = true;
        self.0.bell.ring();
        Ok(())
    }
}
