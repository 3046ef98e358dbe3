//! Request bodies, collected within limits.
//!
//! A body stays in memory until it is complete, so a few thousand slow ones could fill it. Above the limit for all of
//! them, the largest incomplete one is refused; clients that send little are never affected.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use http_body::Body;
use hyper::body::Incoming;
use slab::Slab;

use crate::options::Options;
use crate::reactor::{Handle, lock};

/// Why a body is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    #[error("too large")]
    TooLarge,
    #[error("too slow")]
    Slow,
    #[error("refused, because too many bodies are being received")]
    Refused,
    #[error("malformed")]
    Malformed,
    #[error("cut off")]
    Left,
}

#[derive(Default)]
struct Reading {
    bytes: usize,
    waker: Option<Waker>,
    is_refused: Arc<AtomicBool>,
}

#[derive(Default)]
struct Budget {
    readings: Slab<Reading>,
    bytes: usize,
}

#[derive(Default)]
pub struct Bodies(Mutex<Budget>);

impl Bodies {
    pub async fn collect(
        self: &Arc<Self>,
        body: Incoming,
        options: &Options,
        handle: &Handle,
    ) -> Result<Bytes, BodyError> {
        let declared = body.size_hint().exact();
        if declared == Some(0) {
            return Ok(Bytes::new());
        }
        if declared.is_some_and(|bytes| bytes > options.max_body_bytes as u64) {
            return Err(BodyError::TooLarge);
        }
        let timer = handle.sleep(options.body_timeout);
        let mut read = pin!(BodyRead { body, data: BytesMut::new(), place: self.enter(), options, timer });
        read.as_mut().await
    }

    pub fn enter(self: &Arc<Self>) -> Place {
        let mut budget = lock(&self.0);
        let is_refused = Arc::new(AtomicBool::new(false));
        let key = budget.readings.insert(Reading { is_refused: is_refused.clone(), ..Reading::default() });
        Place { bodies: self.clone(), key, is_refused }
    }
}

/// One body that is being received.
pub struct Place {
    bodies: Arc<Bodies>,
    key: usize,
    is_refused: Arc<AtomicBool>,
}

impl Place {
    pub fn add(&self, bytes: usize, limit: usize) {
        let mut budget = lock(&self.bodies.0);
        budget.bytes += bytes;
        budget.readings[self.key].bytes += bytes;
        while budget.bytes > limit {
            let found = budget.readings.iter().max_by_key(|(_, reading)| reading.bytes).map(|(key, _)| key);
            let Some(largest) = found.and_then(|key| budget.readings.get_mut(key)) else { return };
            let freed = std::mem::take(&mut largest.bytes);
            largest.is_refused.store(true, Ordering::Release);
            if let Some(waker) = largest.waker.take() {
                waker.wake();
            }
            budget.bytes -= freed;
            if freed == 0 {
                return;
            }
        }
    }

    /// Whether it must make room; if not, the task is woken when it must.
    pub fn is_refused(&self, context: &mut Context<'_>) -> bool {
        lock(&self.bodies.0).readings[self.key].waker = Some(context.waker().clone());
        self.is_refused.load(Ordering::Acquire)
    }

    /// What was received is complete, and no longer counts.
    pub fn clear(&self) {
        let mut budget = lock(&self.bodies.0);
        budget.bytes -= std::mem::take(&mut budget.readings[self.key].bytes);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut budget = lock(&self.bodies.0);
        let reading = budget.readings.remove(self.key);
        budget.bytes -= reading.bytes;
    }
}

struct BodyRead<'a> {
    body: Incoming,
    data: BytesMut,
    place: Place,
    options: &'a Options,
    timer: crate::reactor::Sleeper,
}

impl Future for BodyRead<'_> {
    type Output = Result<Bytes, BodyError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            if self.place.is_refused(context) {
                return Poll::Ready(Err(BodyError::Refused));
            }
            let frame = match Pin::new(&mut self.body).poll_frame(context) {
                Poll::Ready(Some(Ok(frame))) => frame,
                Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(kind(&error))),
                Poll::Ready(None) => return Poll::Ready(Ok(std::mem::take(&mut self.data).freeze())),
                Poll::Pending if Pin::new(&mut self.timer).poll(context).is_ready() => {
                    return Poll::Ready(Err(BodyError::Slow));
                }
                Poll::Pending => return Poll::Pending,
            };
            let Ok(data) = frame.into_data() else { continue };
            if self.data.len() + data.len() > self.options.max_body_bytes {
                return Poll::Ready(Err(BodyError::TooLarge));
            }
            self.place.add(data.len(), self.options.max_bodies_bytes);
            self.data.extend_from_slice(&data);
        }
    }
}

fn kind(error: &hyper::Error) -> BodyError {
    // A client that goes away leaves an incomplete body; anything else is not HTTP.
    if error.is_incomplete_message() || error.is_canceled() || error.is_closed() {
        BodyError::Left
    } else {
        BodyError::Malformed
    }
}
