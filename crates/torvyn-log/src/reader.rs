//! The end of an edge that elements come back from: a source that emits what it was supplied with.

use std::sync::Arc;

use torvyn_stream::{Call, Element, End, ErrorKind, Outbox, Pull, Stage, StageError, Step};

use crate::batch::Marks;
use crate::edge_log::{EdgeLog, ReaderState, Waiting, extend};

/// The carrier is asked for more when fewer bytes wait than this.
const LOW_BYTES: usize = 256 * 1024;
/// It is told about settled elements when there are so many; a few are taken with its next work.
const MANY_SETTLED: u64 = 1024;

pub struct LogReader {
    log: Arc<EdgeLog>,
    /// Nanoseconds per element read back from storage; 0 for no limit.
    interval_ns: u64,
    /// The time before which no more of the backlog is emitted.
    next_ns: u64,
    /// Its position is saved by checkpoints, not by acknowledgements.
    by_checkpoint: bool,
    /// The sequence number and the time of the last element.
    last: (u64, u64),
}

/// What has waited longer counts against the rate although it never left the memory: a short outage is one as well.
const FRESH_NS: i64 = 1_000_000_000;
/// A limited reader emits the elements of so much time at once, so that a sink gets more than one per request. New
/// elements wait for that request.
const QUANTUM_NS: u64 = 5_000_000;
/// It makes up for a turn that came late by at most this. After a longer pause the rate begins anew.
const LATE_NS: u64 = 200_000_000;

impl LogReader {
    /// `rate`: the most elements per second that are read back from storage; 0 for no limit.
    pub fn new(log: Arc<EdgeLog>, rate: f64, by_checkpoint: bool) -> Self {
        let interval_ns = if rate > 0.0 { (1e9 / rate) as u64 } else { 0 };
        Self { log, interval_ns, next_ns: 0, by_checkpoint, last: (0, 0) }
    }

    /// The time until which the backlog waits, because of the rate.
    fn limited_until(&self, state: &ReaderState, now_ns: u64) -> Option<u64> {
        let next = state.live.front().or(state.ordered.front())?;
        (self.interval_ns > 0 && self.next_ns > now_ns && self.is_limited(next, now_ns))
            .then_some(self.next_ns + QUANTUM_NS)
    }

    fn is_limited(&self, next: &Waiting, now_ns: u64) -> bool {
        let now_unix_ns = (now_ns as i64).wrapping_add(self.log.offset.of_ns(next.sequence));
        next.is_backlog || now_unix_ns.saturating_sub(next.time_ns) > FRESH_NS
    }

    fn note_emitted(&mut self, next: &Waiting, now_ns: u64) {
        if self.interval_ns > 0 && self.is_limited(next, now_ns) {
            let is_late = now_ns.saturating_sub(self.next_ns) <= LATE_NS;
            self.next_ns = if is_late { self.next_ns } else { now_ns } + self.interval_ns;
        }
    }
}

fn marks(next: &Waiting, offset_ns: i64) -> Marks {
    let is_older_than_boot = next.time_ns < offset_ns;
    Marks { event_time_ns: is_older_than_boot.then_some(next.time_ns), is_historical: next.is_historical }
}

fn take(state: &mut ReaderState) -> Option<Waiting> {
    let live = state.live.pop_front();
    if let Some(next) = &live {
        state.live_bytes -= next.bytes();
    }
    let next = live.or_else(|| state.ordered.pop_front())?;
    state.waiting_bytes -= next.bytes();
    match state.emitted.back_mut() {
        Some((_, last)) if *last + 1 == next.sequence => *last = next.sequence,
        _ => state.emitted.push_back((next.sequence, next.sequence)),
    }
    Some(next)
}

/// What has waited in the live lane through an outage is no longer live: newer elements overtake it.
fn demote(state: &mut ReaderState, is_old: impl Fn(&Waiting) -> bool) {
    let count = state.live.iter().take_while(|next| is_old(next)).count();
    if count == 0 {
        return;
    }
    let mut old: Vec<Waiting> = state.live.drain(..count).collect();
    old.iter_mut().for_each(|next| next.is_historical = true);
    state.live_bytes -= old.iter().map(Waiting::bytes).sum::<usize>();
    if state.ordered.front().is_some_and(|first| old[0].sequence < first.sequence) {
        old.into_iter().rev().for_each(|next| state.ordered.push_front(next));
    } else {
        state.ordered.extend(old);
    }
}

impl Stage for LogReader {
    fn pull(&mut self, call: Call<'_>) -> Result<Pull, StageError> {
        let log = self.log.clone();
        let mut state = log.read();
        if let Some(message) = state.failure.take() {
            return Err(StageError::new(ErrorKind::Fatal, message));
        }
        demote(&mut state, |next| self.is_limited(next, call.now_ns));
        if let Some(until) = self.limited_until(&state, call.now_ns) {
            return Ok(Pull::Pending(Some(until)));
        }
        let Some(mut next) = take(&mut state) else {
            if state.has_ended {
                return Ok(Pull::End(End::because("stop")));
            }
            drop(state);
            log.bell.ring();
            return Ok(Pull::Pending(None));
        };
        let is_low = !state.has_ended && !state.has_asked && state.waiting_bytes < LOW_BYTES;
        state.has_asked |= is_low;
        drop(state);
        if is_low {
            log.bell.ring();
        }
        self.note_emitted(&next, call.now_ns);
        let offset_ns = log.offset.of_ns(next.sequence);
        let marks = marks(&next, offset_ns);
        // After the lock, like everything that the host does.
        if !next.attributes.is_empty() {
            next.emission.companion = log.codec.decode(&next.attributes);
        }
        if marks != Marks::default() {
            next.emission.companion = log.codec.mark(next.emission.companion.take(), marks);
        }
        let timestamp_ns = u64::try_from(next.time_ns.wrapping_sub(offset_ns)).unwrap_or(0);
        self.last = (next.sequence, timestamp_ns);
        Ok(Pull::Ready(next.emission))
    }

    fn restored_stamp(&self) -> (u64, u64) {
        self.last
    }

    fn accept(
        &mut self,
        _element: &mut Element,
        _call: Call<'_>,
        _out: &mut Outbox,
    ) -> Result<Step, StageError> {
        Err(StageError::new(ErrorKind::Internal, "a source takes no elements"))
    }

    fn wants_acknowledgements(&self) -> bool {
        !self.by_checkpoint
    }

    fn note_expired(&mut self, sequence: u64) {
        extend(&mut self.log.read().expired, (sequence, sequence));
    }

    fn acknowledge(&mut self, count: u64) {
        let mut state = self.log.read();
        let mut left = count;
        while left > 0 {
            let Some((first, last)) = state.emitted.front_mut() else { break };
            let taken = left.min(*last - *first + 1);
            let run = (*first, *first + taken - 1);
            *first += taken;
            if first > last {
                state.emitted.pop_front();
            }
            extend(&mut state.settled, run);
            left -= taken;
        }
        state.settled_count += count;
        let is_many = state.settled_count >= MANY_SETTLED;
        drop(state);
        if is_many {
            self.log.bell.ring();
        }
    }
}
