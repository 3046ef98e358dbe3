//! Batches on their way to the broker: which of them may be sent now, and what the answers mean.
//!
//! Batches of a partition that follow each other leave in one message, of which one is on its way at a time; meanwhile
//! further elements collect. If the broker refuses it, its batches go apart for a while: one batch per subject is on its
//! way at a time, so that a full subject keeps its order and holds up no other. The end of a stream comes behind all that is before it, and before all that
//! is behind it: each change between the two begins a phase, and only the first phase is sent.

mod joint;
mod phase;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use torvyn_log::{EdgeLog, Receipts};

use crate::answers::Refusal;
use crate::batch_id::BatchId;
use crate::names::EdgeNames;
use phase::Phase;

/// What waits in front of the broker before the writer pauses.
const BUFFER_BYTES: usize = 1024 * 1024;
/// How many messages are on their way at a time.
const MOST_SENT: usize = 512;
/// How long a full subject is left to its reader.
const FIRST_RETRY: Duration = Duration::from_millis(1);
const LONGEST_RETRY: Duration = Duration::from_millis(20);
/// When a batch that the server refuses for another reason is tried again.
const REFUSED_RETRY: Duration = Duration::from_millis(250);

/// How long batches go apart after the broker has refused several in one message.
const FIRST_APART: Duration = Duration::from_millis(20);
const LONGEST_APART: Duration = Duration::from_secs(1);
/// What waits in the log is taken when nothing is on its way, or when it is so much.
const COLLECTED_BYTES: usize = 64 * 1024;

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

enum Id {
    /// That of elements that were never sent: they may go together with others.
    New(Place),
    /// That of a batch that goes alone.
    Text(String),
}

/// The elements of a batch are numbered per partition.
#[derive(Debug, Clone, Copy)]
struct Place {
    partition: u32,
    first: u64,
}

/// A batch that the broker has not confirmed yet.
struct OwedBatch {
    subject: Arc<str>,
    body: Bytes,
    id: Id,
    /// Its elements; 0 at the end of a stream.
    count: u32,
    receipts: Option<Receipts>,
    /// Whether an earlier process owed it already, and has counted its elements.
    is_from_before: bool,
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
    /// The most bytes of a message with several batches.
    most_bytes: usize,
    /// By partition: until when batches go apart, and for how long. It is kept until they have gone together again.
    apart: HashMap<u32, (Option<Instant>, Duration)>,
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
            most_bytes: 0,
            apart: HashMap::new(),
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

    /// Whether what waits in the log is to be taken now, or collects.
    pub fn wants(&self, log: &EdgeLog) -> bool {
        self.has_room() && (self.in_flight.is_empty() || log.pending().1 >= COLLECTED_BYTES)
    }

    /// Whether a batch may be sent that was not confirmed yet.
    pub fn is_sending(&self) -> bool {
        let first = self.batches.first_key_value().map(|(number, _)| *number);
        first.is_some_and(|first| self.released.is_none_or(|released| first < released))
    }

    /// Whether everything that may be sent waits for a full subject.
    pub fn is_blocked(&self) -> bool {
        let front = self.phases.front();
        let waits = |phase: &Phase| {
            let mut joints = phase.joints.values();
            phase.refused > 0 && phase.ready.is_empty() && !joints.any(|joint| joint.is_due(self.released))
        };
        self.in_flight.is_empty() && front.is_some_and(waits)
    }

    /// Takes all batches that wait in the log. Returns whether there were any.
    pub fn take_all(&mut self, log: &EdgeLog) -> bool {
        self.most_bytes = log.batch_bytes();
        let mut has_taken = false;
        while let Some(batch) = log.take() {
            has_taken = true;
            self.add_new(batch.key.as_deref(), batch.count, batch.body.into(), batch.receipts);
        }
        has_taken
    }

    /// Numbers a batch of new elements.
    fn add_new(&mut self, key: Option<&str>, count: u32, body: Bytes, receipts: Receipts) {
        let partition = self.partition(key);
        let next = self.next.entry(partition).or_default();
        let place = Place { partition, first: *next };
        *next += u64::from(count);
        // Those without a key have one subject, and collect in the log.
        let id = match key {
            Some(_) => Id::New(place),
            None => Id::Text(self.identity.id(place, count)),
        };
        let subject = self.names.subject(partition, key);
        self.add(OwedBatch { subject, body, id, count, receipts: Some(receipts), is_from_before: false });
    }

    /// Adds what an earlier process owed.
    pub fn add_owed(&mut self, message: Message) {
        let count = BatchId::parse(&message.id).map_or(0, |id| id.elements);
        let Message { subject, id, body } = message;
        self.add(OwedBatch { subject, body, id: Id::Text(id), count, receipts: None, is_from_before: true });
    }

    /// Says that the stream has ended, behind everything that waits.
    pub fn add_end(&mut self) {
        for partition in 0..self.names.partitions {
            let first = self.next.get(&partition).copied().unwrap_or(0);
            let id = Id::Text(self.identity.end_id(Place { partition, first }));
            let subject = self.names.end_subject(partition, self.identity.writer);
            let body = Bytes::new();
            self.add(OwedBatch { subject, body, id, count: 0, receipts: None, is_from_before: false });
        }
    }

    fn partition(&mut self, key: Option<&str>) -> u32 {
        if let Some(key) = key {
            return self.names.partition(key);
        }
        // Elements without a key are shared out batch by batch.
        self.turn = (self.turn + 1) % self.names.partitions.max(1);
        self.turn
    }

    fn add(&mut self, batch: OwedBatch) {
        let number = self.number;
        self.number += 1;
        self.waiting_bytes += batch.body.len();
        let is_end = batch.count == 0;
        if self.phases.back().is_none_or(|phase| phase.is_end != is_end) {
            self.phases.push_back(Phase { is_end, ..Phase::default() });
        }
        let subject = &batch.subject;
        match (self.phases.back_mut(), batch.place()) {
            (Some(phase), Some(Place { partition, .. })) => {
                let goes_apart = self.apart.get(&partition).is_some_and(|(until, _)| until.is_some());
                phase.add_new(partition, subject, number, goes_apart);
            }
            (Some(phase), None) => phase.add(subject, number),
            (None, _) => {}
        }
        self.batches.insert(number, batch);
    }

    /// Everything that waits now may be sent.
    pub fn release(&mut self) {
        if self.released.is_some() {
            self.released = Some(self.number);
            self.phases.iter_mut().for_each(Phase::make_ready);
        }
    }

    /// What can be sent now: the first batches of every partition, and those of every subject that go apart. They count
    /// as sent.
    pub fn due(&mut self, now: Instant) -> Vec<(u64, Message)> {
        for (until, _) in self.apart.values_mut() {
            until.take_if(|until| *until <= now);
        }
        let Some(phase) = self.phases.front_mut() else { return Vec::new() };
        phase.retry(now);
        let mut due = Vec::new();
        for joint in phase.joints.values_mut() {
            if self.in_flight.len() >= MOST_SENT {
                break;
            }
            let (names, identity) = (&self.names, &self.identity);
            let sent = joint.send(&self.batches, names, identity, self.released, self.most_bytes);
            if let Some((number, message)) = sent {
                self.in_flight.insert(number, now);
                self.in_order.push_back((number, now));
                due.push((number, message));
            }
        }
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
                due.push((number, batch.message(&self.identity)));
            }
        }
        due
    }

    /// The broker has stored what was sent under this number. Returns whether somebody waited for that.
    pub fn confirm(&mut self, number: u64, now: Instant) -> bool {
        if !self.batches.contains_key(&number) {
            return false;
        }
        self.note_answer(now);
        let Some(batch) = self.batches.get(&number) else { return false };
        self.failure = None;
        self.in_flight.remove(&number);
        let Some(phase) = self.phases.front_mut() else { return false };
        let joint = batch.place().and_then(|place| {
            let numbers = phase.confirm_joint(place.partition, number)?;
            if numbers.len() > 1 {
                self.apart.remove(&place.partition);
            }
            Some(numbers)
        });
        let numbers = joint.unwrap_or_else(|| {
            phase.confirm(&batch.subject);
            vec![number]
        });
        if phase.left == 0 {
            self.phases.pop_front();
        }
        let mut is_waited_for = false;
        for number in numbers {
            is_waited_for |= self.settle(number);
        }
        is_waited_for
    }

    fn settle(&mut self, number: u64) -> bool {
        let Some(batch) = self.batches.remove(&number) else { return false };
        self.waiting_bytes -= batch.body.len();
        self.confirmed += if batch.is_from_before { 0 } else { u64::from(batch.count) };
        let Some(mut receipts) = batch.receipts else { return false };
        let is_waited_for = !receipts.is_empty();
        receipts.settle();
        is_waited_for
    }

    /// The broker has not stored what was sent under this number: the batches of a message go apart, and a subject
    /// waits, longer each time.
    pub fn refuse(&mut self, number: u64, refusal: &Refusal, now: Instant) {
        let Some(batch) = self.batches.get(&number) else { return };
        let Some(phase) = self.phases.front_mut() else { return };
        let subject_of = |number| Some(self.batches.get(&number)?.subject.clone());
        let split = batch.place().and_then(|place| {
            let were_several = phase.split(place.partition, number, subject_of)?;
            Some((place.partition, were_several))
        });
        if let Some((partition, were_several)) = split {
            if were_several {
                let (until, waited) = self.apart.entry(partition).or_default();
                *waited = (2 * *waited).clamp(FIRST_APART, LONGEST_APART);
                *until = Some(now + *waited);
            }
        } else {
            let longest = if refusal.is_full() { LONGEST_RETRY } else { REFUSED_RETRY };
            if !phase.refuse(&batch.subject, now, longest) {
                return;
            }
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
            phase.joints.values_mut().for_each(joint::Joint::forget_sent);
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
            let place = batch.place().or_else(|| {
                let id = BatchId::parse(&batch.message(&self.identity).id)?;
                let is_own = id.series == self.identity.series && !id.is_end();
                is_own.then_some(Place { partition: id.partition, first: id.first })
            });
            if let Some(Place { partition, first }) = place {
                sent.entry(partition).and_modify(|number| *number = first.min(*number));
            }
        }
        sent
    }

    /// What waits, in its order; `is_from_before`: only what an earlier process owed.
    pub fn owed(&self, is_from_before: bool) -> Vec<Message> {
        let wanted = self.batches.values().filter(|batch| batch.is_from_before || !is_from_before);
        wanted.map(|batch| batch.message(&self.identity)).collect()
    }
}

impl Identity {
    fn id(&self, place: Place, elements: u32) -> String {
        self.id_of(place, elements, &self.generation)
    }

    fn end_id(&self, place: Place) -> String {
        self.id_of(place, 0, &self.run)
    }

    fn id_of(&self, Place { partition, first }: Place, elements: u32, generation: &str) -> String {
        let (writer, series, generation) = (self.writer, self.series.clone(), generation.to_owned());
        BatchId { writer, series, generation, partition, first, elements }.to_string()
    }
}

impl OwedBatch {
    fn place(&self) -> Option<Place> {
        match self.id {
            Id::New(place) => Some(place),
            Id::Text(_) => None,
        }
    }

    fn message(&self, identity: &Identity) -> Message {
        let id = match &self.id {
            Id::New(place) => identity.id(*place, self.count),
            Id::Text(id) => id.clone(),
        };
        Message { subject: self.subject.clone(), id, body: self.body.clone() }
    }
}

#[cfg(test)]
mod tests;
