//! What the two ends of an edge and its carrier share.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use torvyn_stream::{Element, Emission, Receipt};

use crate::batch::{Attributes, BatchBuilder, BatchError, EMPTY_BYTES, Keys, decode};
use crate::bell::Bell;
use crate::clock_offset::ClockOffset;

/// A batch that the carrier makes durable.
pub struct Batch {
    /// The sequence number of its first element.
    pub first: u64,
    pub count: u32,
    /// The Unix time of its newest element.
    pub newest_ns: i64,
    /// The key that all of its elements have, if the edge keeps keys apart.
    pub key: Option<Key>,
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

    /// Whether nobody waits for the batch to become durable.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Drop for Receipts {
    fn drop(&mut self) {
        self.0.iter().for_each(Receipt::abandon);
    }
}

pub type Key = Arc<str>;

/// How many elements a batch of an edge with `batch_bytes` has at most: their index has 16 bits.
const MOST_ELEMENTS: u32 = 65_535;
/// What an element takes besides its payload, its content type and its attributes.
const ELEMENT_HEAD_BYTES: usize = 64;

/// The sizes that an edge keeps to.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The carrier is woken when so many bytes wait for it.
    pub buffer_bytes: usize,
    /// Whether the writer then pauses until the carrier has taken them.
    pub pauses: bool,
    /// Larger elements do not fit into a batch.
    pub max_element_bytes: usize,
    /// A batch of several elements has at most so many bytes.
    pub batch_bytes: Option<usize>,
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
    /// As they were stored: as objects of the host they would take several times the space.
    pub attributes: Box<[u8]>,
}

impl Waiting {
    /// What it takes in memory, about.
    pub fn bytes(&self) -> usize {
        self.emission.len as usize + self.attributes.len() + ELEMENT_HEAD_BYTES
    }
}

/// A batch that still takes elements, or one that is full.
#[derive(Default)]
pub(crate) struct OpenBatch {
    pub key: Option<Key>,
    pub builder: BatchBuilder,
    pub receipts: Vec<Receipt>,
}

#[derive(Default)]
pub(crate) struct WriterState {
    /// The batch of an edge that does not keep keys apart.
    pub open: OpenBatch,
    /// The batches of the keys, in the order of their first elements.
    pub keyed: VecDeque<OpenBatch>,
    /// Where they are; the positions count from the first one ever.
    pub places: HashMap<Key, u64>,
    pub taken: u64,
    /// What is in `keyed`.
    pub keyed_count: u32,
    pub keyed_bytes: usize,
    /// Batches that are full.
    pub full: VecDeque<OpenBatch>,
    pub next_sequence: u64,
    /// The writer has paused since the carrier looked for the last time.
    pub is_paused: bool,
    /// The writer accepts nothing more: its input has ended.
    pub is_closed: bool,
    /// Why the flow must fail.
    pub failure: Option<String>,
}

impl WriterState {
    /// The batch for the next element.
    fn open_for(&mut self, key: Option<&Key>) -> &mut OpenBatch {
        let Some(key) = key else { return &mut self.open };
        let next = self.taken + self.keyed.len() as u64;
        let place = *self.places.entry(key.clone()).or_insert(next);
        if place == next {
            self.keyed.push_back(OpenBatch { key: Some(key.clone()), ..OpenBatch::default() });
        }
        &mut self.keyed[(place - self.taken) as usize]
    }

    /// Adds an element. Returns whether it is the first one that waits.
    pub fn push(
        &mut self,
        key: Option<&Key>,
        element: &Element,
        payload: &[u8],
        time_ns: i64,
        attributes: &[u8],
        batch_bytes: Option<usize>,
    ) -> bool {
        let was_empty = self.full.is_empty() && self.keyed_count + self.open.builder.count() == 0;
        let open = self.open_for(key);
        let after = open.builder.len_bytes() + payload.len() + attributes.len() + ELEMENT_HEAD_BYTES;
        let is_full = batch_bytes.is_some_and(|most| after > most) && open.builder.count() > 0
            || open.builder.count() == MOST_ELEMENTS;
        let full = is_full.then(|| OpenBatch { key: open.key.clone(), ..std::mem::take(open) });
        if let Some(full) = &full {
            open.key.clone_from(&full.key);
        }
        let before = open.builder.len_bytes();
        open.builder.push(element, payload, time_ns, attributes);
        open.receipts.extend(element.receipt());
        let grown = open.builder.len_bytes() - before;
        if key.is_some() {
            self.keyed_count += 1;
            self.keyed_bytes += grown;
        }
        if let Some(full) = full {
            if key.is_some() {
                self.keyed_count -= full.builder.count();
                self.keyed_bytes -= full.builder.len_bytes() - EMPTY_BYTES;
            }
            self.full.push_back(full);
        }
        was_empty
    }

    /// Moves the open batch to those that are full.
    pub fn close_batch(&mut self) {
        let open = std::mem::take(&mut self.open);
        self.full.push_back(open);
    }

    fn take(&mut self) -> OpenBatch {
        if let Some(full) = self.full.pop_front() {
            return full;
        }
        let Some(first) = self.keyed.pop_front() else { return std::mem::take(&mut self.open) };
        self.taken += 1;
        self.keyed_count -= first.builder.count();
        self.keyed_bytes -= first.builder.len_bytes() - EMPTY_BYTES;
        if let Some(key) = &first.key {
            self.places.remove(key);
        }
        first
    }

    pub fn pending(&self) -> (u32, usize) {
        let builders = self.full.iter().chain([&self.open]).map(|open| &open.builder);
        let filled = builders.filter(|builder| builder.count() > 0);
        filled.fold((self.keyed_count, self.keyed_bytes), |(count, bytes), builder| {
            (count + builder.count(), bytes + builder.len_bytes())
        })
    }
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
    /// Runs that were emitted, became too old before the next node took them, and that the carrier has not taken.
    pub expired: Vec<(u64, u64)>,
    pub has_ended: bool,
    /// Why the flow must fail.
    pub failure: Option<String>,
    /// The carrier has been asked for more since it last supplied something.
    pub has_asked: bool,
}

impl ReaderState {
    /// Removes elements that wait.
    fn remove(&mut self, is_gone: impl Fn(&Waiting) -> bool) {
        self.ordered.retain(|one| !is_gone(one));
        self.live.retain(|one| !is_gone(one));
        let bytes = |lane: &VecDeque<Waiting>| lane.iter().map(Waiting::bytes).sum::<usize>();
        self.live_bytes = bytes(&self.live);
        self.waiting_bytes = bytes(&self.ordered) + self.live_bytes;
        self.has_asked = false;
    }
}

pub struct EdgeLog {
    pub(crate) writer: Mutex<WriterState>,
    pub(crate) reader: Mutex<ReaderState>,
    pub bell: Arc<Bell>,
    pub(crate) codec: Box<dyn Attributes>,
    pub(crate) offset: ClockOffset,
    /// The first element of this run.
    first_sequence: u64,
    pub(crate) limits: Limits,
    /// Reads the keys of elements, if the edge keeps them apart.
    pub(crate) keys: Option<Box<dyn Keys>>,
}

/// Adds a run to those before it, or to the last of them if it continues that one.
pub(crate) fn extend(runs: &mut Vec<(u64, u64)>, (first, last): (u64, u64)) {
    match runs.last_mut() {
        Some((_, end)) if *end + 1 == first => *end = last,
        _ => runs.push((first, last)),
    }
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EdgeLog {
    pub fn new(
        bell: Arc<Bell>,
        codec: Box<dyn Attributes>,
        next_sequence: u64,
        limits: Limits,
        keys: Option<Box<dyn Keys>>,
    ) -> Self {
        let writer = WriterState { next_sequence, ..WriterState::default() };
        Self {
            writer: Mutex::new(writer),
            reader: Mutex::default(),
            bell,
            codec,
            offset: ClockOffset::default(),
            first_sequence: next_sequence,
            limits,
            keys,
        }
    }

    /// Unix time less the flow's own time, before the first element.
    pub fn set_offset_ns(&self, offset_ns: i64) {
        self.offset.begin(offset_ns);
    }

    /// The wall clock was set: later elements are written with this offset, and earlier ones keep theirs.
    pub fn step_offset_ns(&self, offset_ns: i64) {
        let state = self.write();
        let waiting = u64::from(state.pending().0);
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
        let (OpenBatch { key, builder, receipts }, first) = {
            let mut state = self.write();
            let open = state.take();
            if open.builder.count() == 0 {
                return None;
            }
            let first = state.next_sequence;
            state.next_sequence += u64::from(open.builder.count());
            (open, first)
        };
        let (count, newest_ns) = (builder.count(), builder.newest_ns());
        Some(Batch { first, count, newest_ns, key, body: builder.finish(), receipts: Receipts(receipts) })
    }

    /// Puts batches in front of what waits for the carrier, which takes them next. Returns the number that the first
    /// of their elements will have. Their age counts from `now_ns` on.
    pub fn put_back(&self, batches: &[Vec<u8>], now_ns: i64) -> Result<u64, BatchError> {
        let reopened = batches.iter().map(|batch| BatchBuilder::reopen(batch, now_ns));
        let builders = reopened.collect::<Result<Vec<_>, _>>()?;
        let mut state = self.write();
        for builder in builders.into_iter().rev() {
            state.full.push_front(OpenBatch { builder, ..OpenBatch::default() });
        }
        let next = state.next_sequence;
        drop(state);
        self.bell.ring();
        Ok(next)
    }

    /// The flow fails with this message when it sends or reads the next element.
    pub fn fail(&self, message: String) {
        self.read().failure = Some(message.clone());
        self.write().failure = Some(message);
    }

    /// The elements and bytes that wait for the carrier.
    pub fn pending(&self) -> (u32, usize) {
        self.write().pending()
    }

    /// The most bytes of a batch of several elements; 0 where batches have no limit.
    pub fn batch_bytes(&self) -> usize {
        self.limits.batch_bytes.unwrap_or(0)
    }

    /// Whether the writer has paused since the last call, and is to be resumed.
    pub fn take_pause(&self) -> bool {
        std::mem::take(&mut self.write().is_paused)
    }

    /// Whether the writer's input has ended.
    pub fn is_closed(&self) -> bool {
        self.write().is_closed
    }

    /// Supplies the reader with those elements of a batch whose numbers are `wanted`. Its first element has the number
    /// `first`. Returns how many it supplied.
    pub fn supply(
        &self,
        body: &[u8],
        first: u64,
        wanted: Range<u64>,
        how: Restore,
    ) -> Result<usize, BatchError> {
        let stored = decode(body)?;
        let mut waiting = Vec::with_capacity(stored.len());
        for (sequence, one) in (first..).zip(&stored) {
            if wanted.contains(&sequence) {
                waiting.push(Waiting {
                    sequence,
                    time_ns: one.time_ns,
                    is_backlog: how.is_backlog,
                    is_historical: how.is_historical,
                    emission: one.emission(None),
                    attributes: one.attributes.into(),
                });
            }
        }
        let supplied = waiting.len();
        let bytes: usize = waiting.iter().map(Waiting::bytes).sum();
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

    /// Takes the elements of a range back from the reader if it has emitted none of them: then as many as `expected`
    /// wait. Returns whether it did.
    pub fn withdraw(&self, range: Range<u64>, expected: usize) -> bool {
        let state = &mut *self.read();
        let is_in = |one: &Waiting| range.contains(&one.sequence);
        let waits = state.ordered.iter().chain(&state.live).filter(|one| is_in(one)).count();
        if waits == expected {
            state.remove(is_in);
        }
        waits == expected
    }

    /// Takes everything back that the reader has not emitted; returns its runs of sequence numbers.
    pub fn withdraw_all(&self) -> Vec<(u64, u64)> {
        let state = &mut *self.read();
        let mut numbers: Vec<u64> = state.ordered.iter().chain(&state.live).map(|one| one.sequence).collect();
        numbers.sort_unstable();
        state.remove(|_| true);
        let mut runs: Vec<(u64, u64)> = Vec::new();
        numbers.into_iter().for_each(|number| extend(&mut runs, (number, number)));
        runs
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
    /// The runs of sequence numbers that became too old behind the reader since the last call. They are settled like
    /// the others, now or later.
    pub fn take_expired(&self) -> Vec<(u64, u64)> {
        std::mem::take(&mut self.read().expired)
    }
}
