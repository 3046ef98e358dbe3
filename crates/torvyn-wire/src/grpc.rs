//! gRPC's messages in the body of an HTTP/2 request: a flag, a length of four bytes, the message.
//!
//! A call is handed over at its head. Its messages are read within limits: one that was begun must be complete in time,
//! and all that are incomplete count as bodies that are being received.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http::header::{CONTENT_TYPE, HeaderName, TE};
use http::request::Parts;
use http::{Method, Version};
use http_body::Body;
use hyper::body::Incoming;

use crate::bodies::Place;
use crate::inbox::{End, Inbox, InboxWriter, Message, inbox};
use crate::reactor::Sleeper;
use crate::server::Shared;

const PREFIX_BYTES: usize = 5;
/// How much a message may add to the texts of a body.
const ENVELOPE_BYTES: usize = 1024;

/// Whether a request is a call. Clients say that they understand trailers; pages in browsers cannot.
pub fn is_call(head: &Parts) -> bool {
    let kind = value(head, CONTENT_TYPE).split(';').next().unwrap_or_default().trim();
    let is_grpc =
        ["application/grpc", "application/grpc+proto"].iter().any(|name| kind.eq_ignore_ascii_case(name));
    is_grpc && head.version == Version::HTTP_2 && head.method == Method::POST && value(head, TE) == "trailers"
}

fn value(head: &Parts, name: HeaderName) -> &str {
    head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// Appends a message, which `write` writes, with its prefix.
pub fn append_message(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[0; PREFIX_BYTES]);
    write(out);
    let size = (out.len() - start - PREFIX_BYTES) as u32;
    out[start + 1..start + PREFIX_BYTES].copy_from_slice(&size.to_be_bytes());
}

/// Splits a body into messages, however it arrives.
struct Splitter {
    max_bytes: usize,
    prefix: Vec<u8>,
    message: Vec<u8>,
}

impl Splitter {
    fn new(max_bytes: usize) -> Self {
        Self { max_bytes, prefix: Vec::with_capacity(PREFIX_BYTES), message: Vec::new() }
    }

    /// The next message that is complete with `data`, of which it takes what it needs.
    fn next(&mut self, data: &mut Bytes) -> Result<Option<Bytes>, End> {
        take(&mut self.prefix, PREFIX_BYTES, data);
        let Some((flag, size)) = self.prefix.split_first_chunk::<1>() else { return Ok(None) };
        let Ok(size) = <[u8; 4]>::try_from(size) else { return Ok(None) };
        let size = u32::from_be_bytes(size) as usize;
        if *flag != [0] {
            // Compressed, which this server has not offered.
            return Err(End::Malformed);
        }
        if size > self.max_bytes {
            return Err(End::TooLarge);
        }
        take(&mut self.message, size, data);
        if self.message.len() < size {
            return Ok(None);
        }
        self.prefix.clear();
        Ok(Some(std::mem::take(&mut self.message).into()))
    }

    fn is_between_messages(&self) -> bool {
        self.prefix.is_empty()
    }
}

/// Fills `buffer` up to `size`.
fn take(buffer: &mut Vec<u8>, size: usize, data: &mut Bytes) {
    let count = data.len().min(size - buffer.len());
    buffer.extend_from_slice(&data[..count]);
    data.advance(count);
}

/// Starts to read the messages of a call.
pub fn read_messages(shared: &Arc<Shared>, body: Incoming, id: u64) -> Inbox {
    let (messages, inbox) = inbox(id, shared.events.clone());
    shared.handle.spawn(MessageReader::new(shared.clone(), body, messages));
    inbox
}

/// Reads the messages of one call into its inbox, as long as that has room.
struct MessageReader {
    shared: Arc<Shared>,
    body: Incoming,
    inbox: InboxWriter,
    splitter: Splitter,
    /// What has arrived and was not split yet.
    rest: Bytes,
    place: Place,
    /// Runs while a message is incomplete.
    timer: Option<Sleeper>,
}

impl MessageReader {
    fn new(shared: Arc<Shared>, body: Incoming, inbox: InboxWriter) -> Self {
        let splitter = Splitter::new(shared.options.max_body_bytes + ENVELOPE_BYTES);
        let place = shared.bodies.enter();
        Self { shared, body, inbox, splitter, rest: Bytes::new(), place, timer: None }
    }

    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<End> {
        loop {
            if self.inbox.is_closed(context) {
                return Poll::Ready(End::Complete);
            }
            ready!(self.inbox.poll_room(context));
            match self.splitter.next(&mut self.rest) {
                Ok(Some(message)) => self.push(message),
                Ok(None) => match ready!(self.poll_data(context)) {
                    Ok(data) => self.rest = data,
                    Err(end) => return Poll::Ready(end),
                },
                Err(end) => return Poll::Ready(end),
            }
        }
    }

    fn push(&mut self, message: Bytes) {
        self.timer = None;
        self.place.clear();
        self.inbox.push(Message::Data(message));
    }

    fn poll_data(&mut self, context: &mut Context<'_>) -> Poll<Result<Bytes, End>> {
        if self.place.is_refused(context) {
            return Poll::Ready(Err(End::Slow));
        }
        let is_between = self.splitter.is_between_messages();
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                let data = frame.into_data().unwrap_or_default();
                self.place.add(data.len(), self.shared.options.max_bodies_bytes);
                Poll::Ready(Ok(data))
            }
            Poll::Ready(Some(Err(_))) => Poll::Ready(Err(End::Left)),
            Poll::Ready(None) if is_between => Poll::Ready(Err(End::Complete)),
            Poll::Ready(None) => Poll::Ready(Err(End::Malformed)),
            Poll::Pending if is_between => Poll::Pending,
            Poll::Pending => {
                let limit = self.shared.options.body_timeout;
                let timer = self.timer.get_or_insert_with(|| self.shared.handle.sleep(limit));
                Pin::new(timer).poll(context).map(|()| Err(End::Slow))
            }
        }
    }
}

impl Future for MessageReader {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let end = ready!(self.poll_end(context));
        self.inbox.end(end);
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(version: Version, method: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().version(version).method(method);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).expect("a request").into_parts().0
    }

    fn framed(messages: &[&[u8]]) -> Vec<u8> {
        let mut out = Vec::new();
        for message in messages {
            append_message(&mut out, |out| out.extend_from_slice(message));
        }
        out
    }

    /// The messages of a body that arrives in pieces of that size.
    fn split(body: &[u8], size: usize, max_bytes: usize) -> (Vec<Bytes>, Option<End>, bool) {
        let mut splitter = Splitter::new(max_bytes);
        let mut messages = Vec::new();
        for piece in body.chunks(size) {
            let mut data = Bytes::copy_from_slice(piece);
            loop {
                match splitter.next(&mut data) {
                    Ok(Some(message)) => messages.push(message),
                    Ok(None) => break,
                    Err(end) => return (messages, Some(end), false),
                }
            }
        }
        (messages, None, splitter.is_between_messages())
    }

    #[test]
    fn messages_are_the_same_however_the_body_is_split() {
        let long = vec![b'x'; 300];
        let body = framed(&[b"one", b"", &long, b"four"]);
        for size in 1..=body.len() {
            let (messages, end, is_between) = split(&body, size, 300);
            assert_eq!(messages, [&b"one"[..], b"", &long, b"four"]);
            assert_eq!((end, is_between), (None, true));
        }
    }

    #[test]
    fn a_message_that_is_too_large_is_refused_at_its_prefix() {
        let body = framed(&[b"1234", b"12345"]);
        let (messages, end, _) = split(&body[..PREFIX_BYTES + 4 + PREFIX_BYTES], 100, 4);
        assert_eq!((messages.len(), end), (1, Some(End::TooLarge)));
    }

    #[test]
    fn a_compressed_message_is_malformed() {
        assert_eq!(split(&[1, 0, 0, 0, 0], 1, 4).1, Some(End::Malformed));
    }

    #[test]
    fn a_body_may_end_between_messages_only() {
        let body = framed(&[b"1234"]);
        for count in 1..body.len() {
            assert!(!split(&body[..count], 100, 4).2);
        }
    }

    #[test]
    fn a_call_is_a_post_over_http_2_that_takes_trailers() {
        let kind = |kind| [("content-type", kind), ("te", "trailers")];
        let is_two = |headers: &[(&str, &str)]| is_call(&head(Version::HTTP_2, "POST", headers));
        assert!(is_two(&kind("application/grpc")));
        assert!(is_two(&kind("application/grpc+proto")));
        assert!(is_two(&kind("application/grpc; charset=utf-8")));
        assert!(!is_two(&kind("application/grpc-web")));
        assert!(!is_two(&kind("application/grpc+json")));
        assert!(!is_two(&[("content-type", "application/grpc")]));
        assert!(!is_call(&head(Version::HTTP_11, "POST", &kind("application/grpc"))));
        assert!(!is_call(&head(Version::HTTP_2, "GET", &kind("application/grpc"))));
    }
}
