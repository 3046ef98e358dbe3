//! What the two ends of an edge and its carrier share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use torvyn_stream::{Emission, Receipt};

use crate::batch::{Attributes, BatchBuilder, BatchError, decode};
use crate::bell::Bell;
use crate::clock_offset::ClockOffset;

/// A batch that the carrier makes durable.
pub struct Batch {
    /// The sequence number of its first element.
    pub first: u64,
    pub count: u32,
    /// The Unix time of its newest element.
    pub newest_ns: i64,
    pub body: Vec<u8>,
    pub receipts: Receipts,
}

/// The receipts of a batch. They are settled by `settle` and by nothing else.
#[derive(Default)]
pub struct Receipts(Vec<Receipt>);

impl Receipts {
    /// The batch is durable: whoever sent it may forget it.
    pub fn settle(&mut self) {
        self.0.clear();
    }
}

impl Drop for Receipts {
    fn drop(&mut self) {
        self.0.iter().for_each(Receipt::abandon);
    }
}

/// Where supplied elements wait for the reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// In the order of their sequence numbers.
    Ordered,
    /// Ahead of everything that waits.
    Live,
}

/// How a supplied batch is delivered.
#[derive(Debug, Clone, Copy)]
pub struct Restore {
    pub lane: Lane,
    /// Whether it was read back from the carrier's storage: then it counts against the drain rate.
    pub is_backlog: bool,
    /// Whether its elements are marked as historical.
    pub is_historical: bool,
}

pub(crate) struct Waiting {
    pub sequence: u64,
    pub time_ns: i64,
    pub is_backlog: bool,
    pub is_historical: bool,
    pub emission: Emission,
}

#[derive(Default)]
pub(crate) struct WriterState {
    pub builder: BatchBuilder,
    pub receipts: Vec<Receipt>,
    /// Batches that are full, when the writer does not pause.
    pub full: VecDeque<(BatchBuilder, Vec<Receipt>)>,
    pub next_sequence: u64,
    /// The writer accepts nothing more: its input has ended.
    pub is_closed: bool,
    /// Why the flow must fail.
    pub failure: Option<String>,
}

#[derive(Default)]
pub(crate) struct ReaderState {
    pub ordered: VecDeque<Waiting>,
    pub live: VecDeque<Waiting>,
    pub waiting_bytes: usize,
    /// Those of them in the live lane.
    pub live_bytes: usize,
    /// Runs of sequence numbers that were emitted and are not settled, in the order of emission.
    pub emitted: VecDeque<(u64, u64)>,
    /// Runs that are settled and that the carrier has not taken.
    pub settled: Vec<(u64, u64)>,
    pub settled_count: u64,
    pub has_ended: bool,
    /// The carrier has been asked for more since it last supplied something.
    pub has_asked: bool,
}

pub struct EdgeLog {
    pub(crate) writer: Mutex<WriterState>,
    pub(crate) reader: Mutex<ReaderState>,
    pub(crate) bell: Arc<Bell>,
    pub(crate) codec: Box<dyn Attributes>,
    pub(crate) offset: ClockOffset,
    /// The first element of this run.
    first_sequence: u64,
    /// The carrier is woken when so many bytes wait for it.
    pub(crate) buffer_bytes: usize,
    /// Whether the writer then pauses until the carrier has taken them.
    pub(crate) pauses: bool,
    /// Larger elements do not fit into a batch.
    pub(crate) max_element_bytes: usize,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EdgeLog {
    pub fn new(
        bell: Arc<Bell>,
        codec: Box<dyn Attributes>,
        next_sequence: u64,
        buffer_bytes: usize,
        max_element_bytes: usize,
        pauses: bool,
    ) -> Self {
        let writer = WriterState { next_sequence, ..WriterState::default() };
        Self {
            writer: Mutex::new(writer),
            reader: Mutex::default(),
            bell,
            codec,
            offset: ClockOffset::default(),
            first_sequence: next_sequence,
            buffer_bytes,
            pauses,
            max_element_bytes,
        }
    }

    /// Unix time less the flow's own time, before the first element.
    pub fn set_offset_ns(&self, offset_ns: i64) {
        self.offset.begin(offset_ns);
    }

    /// The wall clock was set: later elements are written with this offset, and earlier ones keep theirs.
    pub fn step_offset_ns(&self, offset_ns: i64) {
        let state = self.write();
        let builders = state.full.iter().map(|(builder, _)| builder).chain([&state.builder]);
        let waiting: u64 = builders.map(|builder| u64::from(builder.count())).sum();
        self.offset.step(self.first_sequence, state.next_sequence + waiting, offset_ns);
    }

    pub(crate) fn write(&self) -> MutexGuard<'_, WriterState> {
        locked(&self.writer)
    }

    pub(crate) fn read(&self) -> MutexGuard<'_, ReaderState> {
        locked(&self.reader)
    }

    /// The next batch that waits for the carrier.
    pub fn take(&self) -> Option<Batch> {
        let (builder, receipts, first) = {
            let mut state = self.write();
            let (builder, receipts) = match state.full.pop_front() {
                Some(full) => full,
                None => (std::mem::take(&mut state.builder), std::mem::take(&mut state.receipts)),
            };
            if builder.count() == 0 {
                return None;
            }
            let first = state.next_sequence;
            state.next_sequence += u64::from(builder.count());
            (builder, receipts, first)
        };
        let (count, newest_ns) = (builder.count(), builder.newest_ns());
        Some(Batch { first, count, newest_ns, body: builder.finish(), receipts: Receipts(receipts) })
    }

    /// The flow fails with this message when it sends the next element.
    pub fn fail(&self, message: String) {
        self.write().failure = Some(message);
    }

    /// The elements and bytes that wait for the carrier.
    pub fn pending(&self) -> (u32, usize) {
        let state = self.write();
        let builders = state.full.iter().map(|(builder, _)| builder).chain([&state.builder]);
        let filled = builders.filter(|builder| builder.count() > 0);
        filled.fold((0, 0), |(count, bytes), builder| (count + builder.count(), bytes + builder.len_bytes()))
    }

    /// Whether the writer's input has ended.
    pub fn is_closed(&self) -> bool {
        self.write().is_closed
    }

    /// Supplies the reader with a batch whose first element has the number `first`. Elements before `from` are left
    /// out. Returns how many it supplied.
    pub fn supply(&self, body: &[u8], first: u64, from: u64, how: Restore) -> Result<usize, BatchError> {
        let stored = decode(body)?;
        let mut waiting = Vec::with_capacity(stored.len());
        for (sequence, one) in (first..).zip(&stored) {
            if sequence < from {
                continue;
            }
            let has_attributes = !one.attributes.is_empty();
            let companion = if has_attributes { self.codec.decode(one.attributes) } else { None };
            waiting.push(Waiting {
                sequence,
                time_ns: one.time_ns,
                is_backlog: how.is_backlog,
                is_historical: how.is_historical,
                emission: one.emission(companion),
            });
        }
        let supplied = waiting.len();
        let bytes: usize = waiting.iter().map(|one| one.emission.len as usize).sum();
        let mut state = self.read();
        state.waiting_bytes += bytes;
        state.has_asked = false;
        match how.lane {
            Lane::Ordered => state.ordered.extend(waiting),
            Lane::Live => {
                state.live_bytes += bytes;
                state.live.extend(waiting);
            }
        }
        Ok(supplied)
    }

    /// The elements and bytes that wait for the reader, in all lanes.
    pub fn waiting(&self) -> (usize, usize) {
        let state = self.read();
        (state.ordered.len() + state.live.len(), state.waiting_bytes)
    }

    /// The bytes that wait in the live lane.
    pub fn live_bytes(&self) -> usize {
        self.read().live_bytes
    }

    /// How many elements were emitted and are not settled.
    pub fn unsettled(&self) -> u64 {
        self.read().emitted.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// The runs of sequence numbers that were emitted, which a checkpoint settles.
    pub fn take_emitted(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.read().emitted).into()
    }

    /// No more will be supplied: the reader ends when it has emitted what waits.
    pub fn finish(&self) {
        self.read().has_ended = true;
    }

    /// The runs of sequence numbers that were settled since the last call.
    pub fn take_settled(&self) -> Vec<(u64, u64)> {
        let mut state = self.read();
        state.settled_count = 0;
        std::mem::take(&mut state.settled)
    }
}
