//! The body of an answer, as hyper takes it.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::Aborted;
use crate::connection::InFlight;

pub enum AnswerBody {
    /// All of it. It is over for its connection when it is dropped.
    Whole { data: Option<Bytes>, _in_flight: InFlight },
    /// What its outbox gets. Over HTTP/1 the connection that writes it also takes it.
    Streamed { in_flight: InFlight, is_http1: bool },
    /// The connection becomes something else.
    None,
}

impl AnswerBody {
    pub fn new(whole: Option<Bytes>, in_flight: InFlight, is_http1: bool) -> Self {
        match whole {
            Some(data) => Self::Whole { data: Some(data), _in_flight: in_flight },
            None => Self::Streamed { in_flight, is_http1 },
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Aborted;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Aborted>>> {
        match self.get_mut() {
            Self::Whole { data, .. } => Poll::Ready(data.take().map(|data| Ok(Frame::data(data)))),
            Self::Streamed { in_flight, is_http1 } => {
                in_flight.answer.take(context, *is_http1 && in_flight.is_blocked())
            }
            Self::None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole { data, .. } => data.as_ref().is_none_or(Bytes::is_empty),
            Self::Streamed { in_flight, .. } => in_flight.answer.is_end(),
            Self::None => true,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole { data, .. } => SizeHint::with_exact(data.as_ref().map_or(0, Bytes::len) as u64),
            Self::Streamed { .. } => SizeHint::default(),
            Self::None => SizeHint::with_exact(0),
        }
    }
}
