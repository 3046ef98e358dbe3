//! Connections that wait for another request, by origin. The last one used is used first: the others may expire.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use super::Origin;
use super::call::Attempt;
use crate::reactor::lock;

/// Gives an idle connection its next request.
#[derive(Default)]
pub struct Seat(Mutex<(Option<Attempt>, Option<Waker>)>);

impl Seat {
    fn assign(&self, attempt: Attempt) {
        let mut seat = lock(&self.0);
        seat.0 = Some(attempt);
        if let Some(task) = seat.1.take() {
            task.wake();
        }
    }

    pub fn poll(&self, context: &mut Context<'_>) -> Poll<Attempt> {
        let mut seat = lock(&self.0);
        match seat.0.take() {
            Some(attempt) => Poll::Ready(attempt),
            None => {
                seat.1 = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[derive(Default)]
pub struct IdleConnections(Mutex<HashMap<Origin, Vec<Arc<Seat>>>>);

impl IdleConnections {
    /// Gives the request to an idle connection; returns it if there is none.
    pub fn assign(&self, attempt: Attempt) -> Option<Attempt> {
        let seat = lock(&self.0).get_mut(&attempt.origin).and_then(Vec::pop);
        match seat {
            Some(seat) => {
                seat.assign(attempt);
                None
            }
            None => Some(attempt),
        }
    }

    pub fn add(&self, origin: &Origin, seat: Arc<Seat>) {
        let mut idle = lock(&self.0);
        match idle.get_mut(origin) {
            Some(seats) => seats.push(seat),
            None => {
                idle.insert(origin.clone(), vec![seat]);
            }
        }
    }

    /// False: it was given a request already.
    pub fn remove(&self, origin: &Origin, seat: &Arc<Seat>) -> bool {
        let mut idle = lock(&self.0);
        let Some(seats) = idle.get_mut(origin) else { return false };
        let before = seats.len();
        seats.retain(|other| !Arc::ptr_eq(other, seat));
        let is_removed = seats.len() < before;
        if seats.is_empty() {
            idle.remove(origin);
        }
        is_removed
    }
}
