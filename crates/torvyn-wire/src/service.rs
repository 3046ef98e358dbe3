//! From a request to its answer, as hyper calls it.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode, Uri, Version};
use hyper::body::Incoming;
use hyper::rt::Executor;

use crate::answer::{Aborted, Answer, AnswerBody};
use crate::bodies::BodyError;
use crate::connection::Connection;
use crate::events::Event;
use crate::exchange::{Exchange, Framing};
use crate::grpc;
use crate::inbox::inbox;
use crate::reactor::{Handle, lock};
use crate::server::Shared;
use crate::websocket::{self, Upgrade};

/// A larger answer gets a larger buffer in the kernel.
const LARGE_BYTES: usize = 32 * 1024;
const LARGE_BUFFER_BYTES: usize = 512 * 1024;

type Answering = Pin<Box<dyn Future<Output = Result<Response<AnswerBody>, Aborted>> + Send>>;

/// What waits for hyper to give a connection away.
pub type UpgradeSlot = Arc<Mutex<Option<Box<Upgrade>>>>;

pub struct Service {
    pub shared: Arc<Shared>,
    pub connection: Arc<Connection>,
    pub upgrade: UpgradeSlot,
}

impl hyper::service::Service<Request<Incoming>> for Service {
    type Response = Response<AnswerBody>;
    type Error = Aborted;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        Box::pin(answer(self.shared.clone(), self.connection.clone(), self.upgrade.clone(), request))
    }
}

async fn answer(
    shared: Arc<Shared>,
    connection: Arc<Connection>,
    slot: UpgradeSlot,
    mut request: Request<Incoming>,
) -> Result<Response<AnswerBody>, Aborted> {
    let answer = Answer::new(shared.next_id(), shared.events.clone(), shared.handle.clone());
    let mut in_flight = connection.enter(answer.clone());
    STREAM.set(Some(answer.clone()));
    let asked = websocket::is_asked(&request).then(|| hyper::upgrade::on(&mut request));
    let (messages, inbox) = asked.as_ref().map(|_| inbox(answer.id, shared.events.clone())).unzip();
    let (head, body) = request.into_parts();
    let is_http1 = head.version < Version::HTTP_2;
    let is_call = grpc::is_call(&head);
    let (body, inbox) = if is_call {
        connection.carry_calls();
        (Ok(Bytes::new()), Some(grpc::read_messages(&shared, body, answer.id)))
    } else {
        (shared.bodies.collect(body, &shared.options, &shared.handle).await, inbox)
    };
    in_flight.received();
    if body == Err(BodyError::Left) {
        return Err(Aborted);
    }
    shared.events.push(Event::Request(Box::new(Exchange {
        // Over HTTP/1, hyper keeps that buffer for as long as it answers.
        head: if is_http1 && asked.is_none() { head } else { compact(head) },
        body,
        peer: connection.peer,
        answer: answer.clone(),
        framing: match (is_call, &asked) {
            (true, _) => Framing::Grpc,
            (false, Some(_)) => Framing::WebSocket,
            (false, None) => Framing::None,
        },
        inbox,
        connection: Arc::downgrade(&connection),
    })));
    if connection.is_half_closed() {
        answer.half_close();
    }
    let (head, whole) = poll_fn(|context| answer.poll_head(context)).await?;
    if head.status == StatusCode::SWITCHING_PROTOCOLS
        && let Some((upgraded, inbox)) = asked.zip(messages)
    {
        *lock(&slot) = Some(Box::new(Upgrade { upgraded, inbox, in_flight }));
        return Ok(Response::from_parts(head, AnswerBody::None));
    }
    if whole.as_ref().is_some_and(|data| data.len() > LARGE_BYTES) {
        connection.line.enlarge_send_buffer(LARGE_BUFFER_BYTES);
    }
    Ok(Response::from_parts(head, AnswerBody::new(whole, in_flight, is_http1)))
}

/// A head that owns its bytes. Those of hyper are slices of the buffer that was read into, and whoever has the head would
/// keep all of it.
fn compact(head: Parts) -> Parts {
    let (mut own, ()) = Request::new(()).into_parts();
    own.method = head.method;
    own.version = head.version;
    own.uri = Uri::from_maybe_shared(Bytes::from(head.uri.to_string())).unwrap_or(head.uri);
    own.headers = HeaderMap::with_capacity(head.headers.keys_len());
    for (name, value) in &head.headers {
        let name = HeaderName::from_bytes(name.as_str().as_bytes()).unwrap_or_else(|_| name.clone());
        let mut copy = HeaderValue::from_bytes(value.as_bytes()).unwrap_or_else(|_| value.clone());
        copy.set_sensitive(value.is_sensitive());
        own.headers.append(name, copy);
    }
    own
}

thread_local! {
    /// The answer of the HTTP/2 stream that is being polled.
    static STREAM: RefCell<Option<Arc<Answer>>> = const { RefCell::new(None) };
}

/// Runs the streams of HTTP/2 connections as tasks.
#[derive(Clone)]
pub struct StreamExecutor(pub Arc<Handle>);

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for StreamExecutor {
    fn execute(&self, stream: F) {
        self.0.spawn(StreamTask { stream: Box::pin(stream), answer: None });
    }
}

/// A stream, which is dropped, and so reset, when its answer is aborted: while the client accepts nothing hyper does
/// not look at the answer.
struct StreamTask<F> {
    stream: Pin<Box<F>>,
    answer: Option<Arc<Answer>>,
}

impl<F: Future<Output = ()>> Future for StreamTask<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        STREAM.set(None);
        let polled = self.stream.as_mut().poll(context);
        if let Some(answer) = STREAM.take() {
            self.answer = Some(answer);
        }
        match &self.answer {
            Some(answer) if polled.is_pending() && answer.poll_aborted(context) => Poll::Ready(()),
            _ => polled,
        }
    }
}
