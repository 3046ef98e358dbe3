//! One WebSocket, from its handshake to its end.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use bytes::{Buf, Bytes};
use hyper::rt::Write;
use tokio::io::{AsyncRead, ReadBuf};

use super::Upgrade;
use super::decoder::Decoder;
use crate::answer::Answer;
use crate::bodies::Place;
use crate::connection::{Connection, InFlight};
use crate::inbox::{End, InboxWriter};
use crate::reactor::{Interest, Sleeper};
use crate::server::Shared;
use crate::transport::{READ_BYTES, Transport};

/// So many bytes of pongs may wait to be sent; then no more pings are read.
const MAX_REPLY_BYTES: usize = 4 * 1024;
/// A poll ends after so many reads, so that other connections have their turn.
const READS_PER_POLL: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reading {
    Messages,
    /// What arrives is dropped: the client has broken a rule. It is read, because closing a connection with unread
    /// bytes would reset it, and the client might not see the close frame.
    Nothing,
    /// The client has closed the WebSocket, or its half of the connection.
    Over,
}

struct WebSocket {
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    in_flight: InFlight,
    inbox: InboxWriter,
    transport: Transport,
    decoder: Decoder,
    /// What the message that is incomplete takes of the memory for all of them.
    place: Option<Place>,
    reading: Reading,
    /// What is being written.
    part: Bytes,
    /// How many bytes of pongs may be waiting.
    reply_bytes: usize,
    has_shut_down: bool,
    ending_since: Option<Instant>,
    timer: Option<(Instant, Sleeper)>,
}

pub async fn serve(shared: Arc<Shared>, connection: Arc<Connection>, upgrade: Box<Upgrade>) {
    let Upgrade { upgraded, inbox, in_flight } = *upgrade;
    let Ok(upgraded) = upgraded.await else { return };
    let Ok(parts) = upgraded.downcast::<Transport>() else { return };
    let mut socket = Box::new(WebSocket {
        shared,
        connection,
        in_flight,
        inbox,
        transport: parts.io,
        decoder: Decoder::default(),
        place: None,
        reading: Reading::Messages,
        part: Bytes::new(),
        reply_bytes: 0,
        has_shut_down: false,
        ending_since: None,
        timer: None,
    });
    // A client may send messages before it has seen the answer to its handshake.
    socket.received(&parts.read_buf);
    drop(parts.read_buf);
    poll_fn(|context| socket.poll(context)).await;
}

impl WebSocket {
    fn answer(&self) -> &Answer {
        &self.in_flight.answer
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.connection.line.readiness().wake_on(Interest::Close, context);
        for _ in 0..READS_PER_POLL {
            match self.poll_send(context) {
                Poll::Ready(Ok(())) if self.reading == Reading::Over => return Poll::Ready(()),
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                _ => {}
            }
            match self.poll_receive(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => return self.poll_time(context),
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    /// Ready when everything was sent, the close frame included, and it need not wait for the client's.
    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while self.part.has_remaining() {
                let count = ready!(Pin::new(&mut self.transport).poll_write(context, &self.part))?;
                if count == 0 {
                    return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
                }
                self.part.advance(count);
            }
            // Even an empty part of a buffer would keep it.
            self.part = Bytes::new();
            self.part = match self.in_flight.answer.take(context, false) {
                Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
                Poll::Ready(Some(Err(aborted))) => return Poll::Ready(Err(io::Error::other(aborted))),
                Poll::Ready(None) => break,
                Poll::Pending => {
                    self.reply_bytes = 0;
                    ready!(Pin::new(&mut self.transport).poll_flush(context))?;
                    return Poll::Pending;
                }
            };
        }
        self.reply_bytes = 0;
        if self.reading == Reading::Messages {
            // Its own close frame is still to come.
            ready!(Pin::new(&mut self.transport).poll_flush(context))?;
            return Poll::Pending;
        }
        if !self.has_shut_down {
            ready!(Pin::new(&mut self.transport).poll_shutdown(context))?;
            self.has_shut_down = true;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.reading == Reading::Over || self.reply_bytes > MAX_REPLY_BYTES {
            return Poll::Pending;
        }
        if self.reading == Reading::Messages {
            ready!(self.inbox.poll_room(context));
        }
        let mut bytes = [0_u8; READ_BYTES];
        let mut buffer = ReadBuf::new(&mut bytes);
        ready!(AsyncRead::poll_read(Pin::new(&mut self.transport), context, &mut buffer))?;
        if buffer.filled().is_empty() {
            self.stop_reading(Reading::Over, End::Left);
        } else if self.reading == Reading::Messages {
            self.received(buffer.filled());
        }
        Poll::Ready(Ok(()))
    }

    fn received(&mut self, data: &[u8]) {
        let mut replies = Vec::new();
        let inbox = &self.inbox;
        let max_bytes = self.shared.options.max_body_bytes;
        let decoded = self.decoder.decode(data, max_bytes, &mut replies, |message| inbox.push(message));
        if !replies.is_empty() {
            self.reply_bytes += replies.len();
            self.answer().append(&replies);
        }
        match decoded {
            Ok(()) => self.count(data.len()),
            Err(End::Complete) => {
                // The answer to the close frame is the last frame.
                self.answer().finish(None);
                self.stop_reading(Reading::Over, End::Complete);
            }
            // The program closes the WebSocket after it has answered the messages before.
            Err(end) => self.stop_reading(Reading::Nothing, end),
        }
    }

    /// An incomplete message takes memory, like the body of a request.
    fn count(&mut self, bytes: usize) {
        if self.decoder.unfinished_since().is_none() {
            self.place = None;
            return;
        }
        let limit = self.shared.options.max_bodies_bytes;
        self.place.get_or_insert_with(|| self.shared.bodies.enter()).add(bytes, limit);
    }

    fn stop_reading(&mut self, reading: Reading, end: End) {
        self.reading = reading;
        self.inbox.end(end);
        self.decoder = Decoder::default();
        self.place = None;
    }

    /// Ready when the end has taken too long. A message that takes too long is the last one.
    fn poll_time(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let is_refused = self.place.as_ref().is_some_and(|place| place.is_refused(context));
        if self.poll_timer(context).is_pending() && !is_refused {
            return Poll::Pending;
        }
        if self.ending_since.is_some() {
            return Poll::Ready(());
        }
        self.stop_reading(Reading::Nothing, End::Slow);
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn poll_timer(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.reading != Reading::Messages || self.answer().is_finished() {
            self.ending_since.get_or_insert_with(Instant::now);
        }
        let since = self.ending_since.or(self.decoder.unfinished_since());
        let due = since.map(|since| since + self.shared.options.body_timeout);
        if self.timer.as_ref().map(|(at, _)| *at) != due {
            self.timer = due.map(|due| (due, self.shared.handle.sleep_until(due)));
        }
        match &mut self.timer {
            Some((_, timer)) => Pin::new(timer).poll(context),
            None => Poll::Pending,
        }
    }
}
