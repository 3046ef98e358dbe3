//! An HTTP/1.1 connection to a server: one request after the other, until either side closes it.
//!
//! hyper's connection and the body of its response are polled in the same task: what has arrived together is handed on
//! together.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::response::Parts;
use http_body::Body;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;

use super::call::{Attempt, Delivery};
use super::connect::connect;
use super::idle::Seat;
use super::{ClientError, Origin, Shared};
use crate::transport::Transport;

/// How long the end of a body is waited for when its response is over, and what may come before it.
const DRAIN: Duration = Duration::from_millis(500);
const DRAIN_BYTES: usize = 64 * 1024;
/// A task gives way to others after so many parts of a body.
const FRAMES_PER_POLL: usize = 64;
/// What is read at once, and the size of a head, as proxies have it: a response that nobody takes keeps it in memory.
const READ_BYTES: usize = 8 * 1024;

type Hyper = http1::Connection<Transport, Full<Bytes>>;
type Sender = http1::SendRequest<Full<Bytes>>;

/// Opens a connection for a request, and keeps it for others.
pub async fn open(shared: Arc<Shared>, attempt: Attempt) {
    // In a box, because the task keeps room for it as long as the connection lasts.
    let connecting = Box::pin(connect(&shared, &attempt.origin, &attempt.addresses));
    let Some(connected) = attempt.delivery.call.unless_cancelled(connecting).await else { return };
    let opened = match connected {
        Ok(transport) => {
            let opening = http1::Builder::new().max_buf_size(READ_BYTES).handshake(transport);
            opening.await.map_err(|error| broken(&error))
        }
        Err(error) => Err(error),
    };
    match opened {
        Ok((sender, hyper)) => serve(shared, attempt, sender, Line(Some(Box::pin(hyper)))).await,
        Err(error) => attempt.delivery.end(Err(error)),
    }
}

async fn serve(shared: Arc<Shared>, mut attempt: Attempt, mut sender: Sender, mut line: Line) {
    let mut is_first = true;
    loop {
        let origin = attempt.origin.clone();
        match exchange(&shared, &mut sender, &mut line, attempt).await {
            Outcome::Kept => {}
            Outcome::Closed => return,
            Outcome::Unsent(attempt) if !is_first => {
                // The server has closed a connection that was idle: the request has not reached it.
                shared.spawn(reopen(shared.clone(), *attempt));
                return;
            }
            Outcome::Unsent(attempt) => {
                return attempt
                    .delivery
                    .end(Err(ClientError::Broken("the connection was closed".to_owned())));
            }
        }
        is_first = false;
        match idle(&shared, &origin, &mut sender, &mut line).await {
            Some(next) => attempt = next,
            None => return,
        }
    }
}

/// `open`, in a box because it may lead to itself.
fn reopen(shared: Arc<Shared>, attempt: Attempt) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(open(shared, attempt))
}

enum Outcome {
    Kept,
    Closed,
    Unsent(Box<Attempt>),
}

async fn exchange(shared: &Shared, sender: &mut Sender, line: &mut Line, attempt: Attempt) -> Outcome {
    let Attempt { origin, addresses, request, delivery } = attempt;
    let mut sending = Box::pin(sender.try_send_request(request));
    let answered = line
        .beside(|context| {
            if delivery.call.is_cancelled(context) {
                return Step::Done(None);
            }
            sending.as_mut().poll(context).map(Some).into()
        })
        .await;
    let response = match answered {
        None => return Outcome::Closed,
        Some(Ok(response)) => response,
        Some(Err(mut error)) => {
            if let Some(request) = error.take_message() {
                return Outcome::Unsent(Box::new(Attempt { origin, addresses, request, delivery }));
            }
            delivery.end(Err(broken(error.error())));
            return Outcome::Closed;
        }
    };
    let (head, body) = response.into_parts();
    delivery.head(detached(head));
    if !receive(shared, line, &delivery, body).await {
        return Outcome::Closed;
    }
    drop(delivery);
    let is_kept = line.beside(|context| sender.poll_ready(context).into()).await.is_ok();
    if is_kept { Outcome::Kept } else { Outcome::Closed }
}

/// The head without references to the bytes that were read, which would keep a buffer of the connection in memory.
fn detached(mut head: Parts) -> Parts {
    head.extensions.clear();
    for value in head.headers.values_mut() {
        if let Ok(copy) = HeaderValue::from_bytes(value.as_bytes()) {
            *value = copy;
        }
    }
    head
}

/// Hands the body on to its end; false if the connection cannot be kept.
async fn receive(shared: &Shared, line: &mut Line, delivery: &Delivery, mut body: Incoming) -> bool {
    let mut drain: Option<Drain<'_>> = None;
    let outcome = line
        .beside(|context| {
            if delivery.call.is_cancelled(context) {
                return Step::Done(None);
            }
            if drain.is_none() && delivery.call.is_released() {
                drain = Some(Drain::new(shared));
            }
            if drain.as_mut().is_some_and(|drain| drain.is_over(context)) {
                return Step::Done(None);
            }
            if drain.is_none() && !delivery.has_room() {
                return Step::Wait;
            }
            match Pin::new(&mut body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { return Step::More };
                    match &mut drain {
                        Some(drain) => drain.bytes += data.len(),
                        None => delivery.data(data),
                    }
                    Step::More
                }
                Poll::Ready(Some(Err(error))) => Step::Done(Some(Err(broken(&error)))),
                Poll::Ready(None) => Step::Done(Some(Ok(()))),
                Poll::Pending => Step::Wait,
            }
        })
        .await;
    let is_whole = matches!(outcome, Some(Ok(())));
    delivery.end(outcome.unwrap_or(Ok(())));
    is_whole
}

/// A body whose response is over.
struct Drain<'a> {
    shared: &'a Shared,
    timer: crate::reactor::Sleeper,
    bytes: usize,
}

impl<'a> Drain<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.draining.fetch_add(1, Ordering::AcqRel);
        Self { shared, timer: shared.handle.sleep(DRAIN), bytes: 0 }
    }

    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        self.bytes > DRAIN_BYTES || Pin::new(&mut self.timer).poll(context).is_ready()
    }
}

impl Drop for Drain<'_> {
    fn drop(&mut self) {
        self.shared.draining.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Waits for the next request; None when the connection is over.
async fn idle(shared: &Shared, origin: &Origin, sender: &mut Sender, line: &mut Line) -> Option<Attempt> {
    let seat = Arc::new(Seat::default());
    shared.idle.add(origin, seat.clone());
    let mut timer = shared.handle.sleep(shared.options.keep_alive);
    line.beside(|context| {
        if let Poll::Ready(attempt) = seat.poll(context) {
            return Step::Done(Some(attempt));
        }
        let is_over = sender.is_closed() || Pin::new(&mut timer).poll(context).is_ready();
        if is_over && shared.idle.remove(origin, &seat) { Step::Done(None) } else { Step::Wait }
    })
    .await
}

enum Step<T> {
    Done(T),
    More,
    Wait,
}

impl<T> From<Poll<T>> for Step<T> {
    fn from(poll: Poll<T>) -> Self {
        match poll {
            Poll::Ready(made) => Self::Done(made),
            Poll::Pending => Self::Wait,
        }
    }
}

/// hyper's side of a connection; absent when it has ended.
struct Line(Option<Pin<Box<Hyper>>>);

impl Line {
    /// Runs the connection beside `work`, until that is done.
    async fn beside<T>(&mut self, mut work: impl FnMut(&mut Context<'_>) -> Step<T>) -> T {
        poll_fn(|context| {
            let (mut frames, mut has_run) = (0, false);
            loop {
                match work(context) {
                    Step::Done(made) => return Poll::Ready(made),
                    Step::More if frames < FRAMES_PER_POLL => {
                        frames += 1;
                        has_run = false;
                    }
                    Step::More => {
                        context.waker().wake_by_ref();
                        return Poll::Pending;
                    }
                    Step::Wait if has_run => return Poll::Pending,
                    Step::Wait => {
                        self.run(context);
                        has_run = true;
                    }
                }
            }
        })
        .await
    }

    fn run(&mut self, context: &mut Context<'_>) {
        if let Some(hyper) = &mut self.0
            && hyper.as_mut().poll(context).is_ready()
        {
            self.0 = None;
        }
    }
}

fn broken(error: &hyper::Error) -> ClientError {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    ClientError::Broken(format!("{error}{cause}"))
}
