//! Batches on their way to the broker: which of them may be sent now, and what the answers mean.
//!
//! One batch per subject is on its way at a time, so that a full subject keeps its order. Meanwhile further elements
//! collect, and the next batch is larger. The end of a stream comes behind all that is before it, and before all that
//! is behind it: each change between the two begins a phase, and only the first phase is sent.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use torvyn_log::{EdgeLog, Receipts};

use crate::answers::Refusal;
use crate::batch_id::BatchId;
use crate::names::EdgeNames;

/// What waits in front of the broker before the writer pauses.
const BUFFER_BYTES: usize = 1024 * 1024;
/// How many messages are on their way at a time.
const MOST_SENT: usize = 512;
/// How long a full subject is left to its reader.
const FIRST_RETRY: Duration = Duration::from_millis(1);
const LONGEST_RETRY: Duration = Duration::from_millis(20);
/// When a batch that the server refuses for another reason is tried again.
const REFUSED_RETRY: Duration = Duration::from_millis(250);

/// Who writes: what the ids of batches begin with.
#[derive(Debug, Clone)]
pub struct Identity {
    pub writer: u32,
    pub series: String,
    pub generation: String,
    pub run: String,
}

#[derive(Debug, Clone)]
pub struct Message {
    pub subject: Arc<str>,
    pub id: String,
    pub body: Bytes,
}

/// A batch that the broker has not confirmed yet.
struct OwedBatch {
    message: Message,
    /// Its elements; 0 at the end of a stream.
    count: u32,
    receipts: Option<Receipts>,
    /// Whether an earlier process owed it already, and has counted its elements.
    is_from_before: bool,
}

/// The batches of one subject.
#[derive(Default)]
struct SubjectQueue {
    numbers: VecDeque<u64>,
    is_sent: bool,
    is_ready: bool,
    /// When it is tried again, and how long it waited.
    retry: Option<(Instant, Duration)>,
}

#[derive(Default)]
struct Phase {
    is_end: bool,
    left: usize,
    subjects: HashMap<Arc<str>, SubjectQueue>,
    ready: VecDeque<Arc<str>>,
    /// How many subjects wait for another try.
    refused: usize,
}

pub struct OutputQueue {
    names: EdgeNames,
    identity: Identity,
    /// The next number of each partition.
    pub next: BTreeMap<u32, u64>,
    turn: u32,
    batches: BTreeMap<u64, OwedBatch>,
    phases: VecDeque<Phase>,
    number: u64,
    /// Batches with smaller numbers may be sent; None for all.
    released: Option<u64>,
    waiting_bytes: usize,
    /// What is on its way, and since when; then the same in its order, with what was answered since.
    in_flight: HashMap<u64, Instant>,
    in_order: VecDeque<(u64, Instant)>,
    /// When the last answer came.
    pub heard_at: Option<Instant>,
    /// How often what is on its way was sent again since then.
    pub repeats: u32,
    /// Elements that the broker has confirmed.
    pub confirmed: u64,
    /// How often the broker was full.
    pub refusals: u64,
    /// Why the server refuses a batch although there is room.
    pub failure: Option<String>,
}

impl OutputQueue {
    /// `by_release`: batches are sent only after `release`.
    pub fn new(names: EdgeNames, identity: Identity, next: BTreeMap<u32, u64>, by_release: bool) -> Self {
        Self {
            names,
            identity,
            next,
            turn: 0,
            batches: BTreeMap::new(),
            phases: VecDeque::new(),
            number: 0,
            released: by_release.then_some(0),
            waiting_bytes: 0,
            in_flight: HashMap::new(),
            in_order: VecDeque::new(),
            heard_at: None,
            repeats: 0,
            confirmed: 0,
            refusals: 0,
            failure: None,
        }
    }

    pub fn len(&self) -> usize {
        self.batches.len()
    }

    pub fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Whether the broker is not far behind.
    pub fn has_room(&self) -> bool {
        self.waiting_bytes < BUFFER_BYTES
    }

    /// Whether a batch may be sent that was not confirmed yet.
    pub fn is_sending(&self) -> bool {
        let first = self.batches.first_key_value().map(|(number, _)| *number);
        first.is_some_and(|first| self.released.is_none_or(|released| first < released))
    }

    /// Whether everything that may be sent waits for a full subject.
    pub fn is_blocked(&self) -> bool {
        let front = self.phases.front();
        self.in_flight.is_empty() && front.is_some_and(|phase| phase.refused > 0 && phase.ready.is_empty())
    }

    /// Takes all batches that wait in the log. Returns whether there were any.
    pub fn take_all(&mut self, log: &EdgeLog) -> bool {
        let mut has_taken = false;
        while let Some(batch) = log.take() {
            has_taken = true;
            let partition = self.partition(batch.key.as_deref());
            let id = self.id(partition, batch.count, self.identity.generation.clone());
            *self.next.entry(partition).or_default() += u64::from(batch.count);
            let subject = self.names.subject(partition, batch.key.as_deref());
            let message = Message { subject, id: id.to_string(), body: batch.body.into() };
            self.add(message, batch.count, Some(batch.receipts), false);
        }
        has_taken
    }

    /// Adds what an earlier process owed.
    pub fn add_owed(&mut self, message: Message) {
        let count = BatchId::parse(&message.id).map_or(0, |id| id.elements);
        self.add(message, count, None, true);
    }

    /// Says that the stream has ended, behind everything that waits.
    pub fn add_end(&mut self) {
        for partition in 0..self.names.partitions {
            let id = self.id(partition, 0, self.identity.run.clone());
            let subject = self.names.end_subject(partition, self.identity.writer);
            let message = Message { subject, id: id.to_string(), body: Bytes::new() };
            self.add(message, 0, None, false);
        }
    }

    fn id(&self, partition: u32, elements: u32, generation: String) -> BatchId {
        let Identity { writer, ref series, .. } = self.identity;
        let first = self.next.get(&partition).copied().unwrap_or(0);
        BatchId { writer, series: series.clone(), generation, partition, first, elements }
    }

    fn partition(&mut self, key: Option<&str>) -> u32 {
        if let Some(key) = key {
            return self.names.partition(key);
        }
        // Elements without a key are shared out batch by batch.
        self.turn = (self.turn + 1) % self.names.partitions.max(1);
        self.turn
    }

    fn add(&mut self, message: Message, count: u32, receipts: Option<Receipts>, is_from_before: bool) {
        let number = self.number;
        self.number += 1;
        self.waiting_bytes += message.body.len();
        let is_end = count == 0;
        if self.phases.back().is_none_or(|phase| phase.is_end != is_end) {
            self.phases.push_back(Phase { is_end, ..Phase::default() });
        }
        if let Some(phase) = self.phases.back_mut() {
            phase.add(&message.subject, number);
        }
        self.batches.insert(number, OwedBatch { message, count, receipts, is_from_before });
    }

    /// Everything that waits now may be sent.
    pub fn release(&mut self) {
        if self.released.is_some() {
            self.released = Some(self.number);
            self.phases.iter_mut().for_each(Phase::make_ready);
        }
    }

    /// What can be sent now: the first batch of every subject. It counts as sent.
    pub fn due(&mut self, now: Instant) -> Vec<(u64, Message)> {
        let Some(phase) = self.phases.front_mut() else { return Vec::new() };
        phase.retry(now);
        let mut due = Vec::new();
        while self.in_flight.len() < MOST_SENT {
            let Some(subject) = phase.ready.pop_front() else { break };
            let Some(queue) = phase.subjects.get_mut(&subject).filter(|queue| queue.is_ready) else {
                // It was confirmed after all, by an answer to an earlier copy.
                continue;
            };
            queue.is_ready = false;
            let Some(number) = queue.numbers.front().copied() else { continue };
            if self.released.is_some_and(|released| number >= released) {
                continue;
            }
            if let Some(batch) = self.batches.get(&number) {
                queue.is_sent = true;
                self.in_flight.insert(number, now);
                self.in_order.push_back((number, now));
                due.push((number, batch.message.clone()));
            }
        }
        due
    }

    /// The broker has stored a batch. Returns whether somebody waited for that.
    pub fn confirm(&mut self, number: u64, now: Instant) -> bool {
        let Some(batch) = self.batches.remove(&number) else { return false };
        self.note_answer(now);
        self.failure = None;
        self.waiting_bytes -= batch.message.body.len();
        self.confirmed += if batch.is_from_before { 0 } else { u64::from(batch.count) };
        self.in_flight.remove(&number);
        if let Some(phase) = self.phases.front_mut() {
            phase.confirm(&batch.message.subject);
            if phase.left == 0 {
                self.phases.pop_front();
            }
        }
        let Some(mut receipts) = batch.receipts else { return false };
        let is_waited_for = !receipts.is_empty();
        receipts.settle();
        is_waited_for
    }

    /// The broker has not stored a batch: its subject waits, longer each time.
    pub fn refuse(&mut self, number: u64, refusal: &Refusal, now: Instant) {
        let Some(batch) = self.batches.get(&number) else { return };
        let Some(phase) = self.phases.front_mut() else { return };
        let longest = if refusal.is_full() { LONGEST_RETRY } else { REFUSED_RETRY };
        if !phase.refuse(&batch.message.subject, now, longest) {
            return;
        }
        self.in_flight.remove(&number);
        self.note_answer(now);
        if refusal.is_full() {
            self.refusals += 1;
            self.failure = None;
        } else {
            self.failure = Some(refusal.text.clone());
        }
    }

    fn note_answer(&mut self, now: Instant) {
        self.heard_at = Some(now);
        self.repeats = 0;
    }

    /// The connection was lost: what was sent is sent again.
    pub fn forget_sent(&mut self) {
        self.in_flight.clear();
        self.in_order.clear();
        for phase in &mut self.phases {
            phase.subjects.values_mut().for_each(|queue| queue.is_sent = false);
            phase.make_ready();
        }
    }

    /// When the next full subject is tried again.
    pub fn retry_at(&self) -> Option<Instant> {
        self.phases.front().filter(|phase| phase.refused > 0).and_then(Phase::retry_at)
    }

    /// Since when the oldest batch that is on its way is not answered.
    pub fn unanswered_since(&mut self) -> Option<Instant> {
        while let Some((number, at)) = self.in_order.front() {
            if self.in_flight.get(number) == Some(at) {
                return Some(*at);
            }
            self.in_order.pop_front();
        }
        None
    }

    /// By partition: up to which number the broker has everything.
    pub fn sent(&self) -> BTreeMap<u32, u64> {
        let mut sent = self.next.clone();
        for batch in self.batches.values() {
            let id = BatchId::parse(&batch.message.id).filter(|id| id.series == self.identity.series);
            if let Some(id) = id.filter(|id| !id.is_end()) {
                sent.entry(id.partition).and_modify(|number| *number = id.first.min(*number));
            }
        }
        sent
    }

    /// What waits, in its order; `is_from_before`: only what an earlier process owed.
    pub fn owed(&self, is_from_before: bool) -> Vec<Message> {
        let wanted = self.batches.values().filter(|batch| batch.is_from_before || !is_from_before);
        wanted.map(|batch| batch.message.clone()).collect()
    }
}

impl Phase {
    fn add(&mut self, subject: &Arc<str>, number: u64) {
        self.left += 1;
        let queue = self.subjects.entry(subject.clone()).or_default();
        queue.numbers.push_back(number);
        if !queue.is_sent && !queue.is_ready && queue.retry.is_none() {
            queue.is_ready = true;
            self.ready.push_back(subject.clone());
        }
    }

    fn make_ready(&mut self) {
        // In the order of their batches, so that none is passed by later ones for ever.
        let mut idle: Vec<_> = self.subjects.iter_mut().filter(|(_, queue)| queue.is_idle()).collect();
        idle.sort_by_key(|(_, queue)| queue.numbers.front().copied());
        for (subject, queue) in idle {
            queue.is_ready = true;
            self.ready.push_back(subject.clone());
        }
    }

    fn retry(&mut self, now: Instant) {
        if self.refused == 0 {
            return;
        }
        for (subject, queue) in &mut self.subjects {
            let is_due = queue.retry.is_some_and(|(at, _)| at <= now);
            if is_due && !queue.is_ready && !queue.is_sent {
                queue.is_ready = true;
                self.ready.push_back(subject.clone());
            }
        }
    }

    fn retry_at(&self) -> Option<Instant> {
        let waiting = self.subjects.values().filter(|queue| !queue.is_sent && !queue.is_ready);
        waiting.filter_map(|queue| queue.retry.map(|(at, _)| at)).min()
    }

    fn confirm(&mut self, subject: &Arc<str>) {
        let Some(queue) = self.subjects.get_mut(subject) else { return };
        self.left -= 1;
        self.refused -= usize::from(queue.retry.take().is_some());
        queue.numbers.pop_front();
        queue.is_sent = false;
        if queue.numbers.is_empty() {
            self.subjects.remove(subject);
        } else if !queue.is_ready {
            queue.is_ready = true;
            self.ready.push_back(subject.clone());
        }
    }

    /// Returns whether the batch was on its way.
    fn refuse(&mut self, subject: &Arc<str>, now: Instant, longest: Duration) -> bool {
        let Some(queue) = self.subjects.get_mut(subject) else { return false };
        if !std::mem::take(&mut queue.is_sent) {
            return false;
        }
        self.refused += usize::from(queue.retry.is_none());
        let waited = queue.retry.map_or(Duration::ZERO, |(_, waited)| waited);
        let delay = (2 * waited).max(FIRST_RETRY).min(longest);
        queue.retry = Some((now + delay, delay));
        true
    }
}

impl SubjectQueue {
    fn is_idle(&self) -> bool {
        !self.is_sent && !self.is_ready && self.retry.is_none() && !self.numbers.is_empty()
    }
}

#[cfg(test)]
mod tests;
