//! The messages of an edge that were read: which of them are new, and how far they are settled.
//!
//! An element's sequence number is that of its message in the stream, and its index there: the same in every run.

use std::collections::VecDeque;

use crate::batch_id::BatchId;
use crate::seen_batches::SeenBatches;

const INDEX_BITS: u32 = 16;

/// A message whose elements are in the flow, or that has none.
struct Supplied {
    sequence: u64,
    /// None if it has come before, or was not written by a flow.
    batch: Option<BatchId>,
    /// None if it was not written by a flow.
    partition: Option<u32>,
    /// The sequence number of its last element, if it has one.
    last: Option<u64>,
}

/// What to do with a message.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// Its elements go into the flow, from the number `start` on; the first one has the number `first`.
    Supply {
        first: u64,
        start: u64,
    },
    /// A writer has ended.
    End(BatchId),
    Skip,
}

/// What became settled.
#[derive(Debug, Default)]
pub struct Advance {
    pub ends: Vec<BatchId>,
    /// Partitions, and their last messages that nobody needs any more.
    pub touched: Vec<(u32, u64)>,
}

#[derive(Default)]
pub struct ReadMessages {
    pub seen: SeenBatches,
    /// What the entry of the segment is to hold: only what is settled.
    pub saved_seen: SeenBatches,
    supplied: VecDeque<Supplied>,
    /// The last element that is settled.
    pub position: u64,
    /// The last message of which nothing is needed any more.
    pub done: u64,
    /// How often something was settled.
    pub changes: u64,
    /// The generation of the writer in this process, if it is here.
    pub generation: String,
    pub received: u64,
    pub from_before: u64,
    pub repeated: u64,
    pub corrupt: u64,
}

impl ReadMessages {
    pub fn new(position: u64, seen: SeenBatches, generation: String) -> Self {
        // The last message that was read may be settled in part.
        let done = (position >> INDEX_BITS).saturating_sub(1);
        let saved_seen = seen.clone();
        Self { seen, saved_seen, position, done, generation, ..Self::default() }
    }

    /// The message to begin with.
    pub fn start(&self) -> u64 {
        self.position >> INDEX_BITS
    }

    pub(crate) fn judge(&mut self, sequence: u64, id: &str) -> Judged {
        let Some(batch) = BatchId::parse(id) else {
            self.supplied.push_back(Supplied { sequence, batch: None, partition: None, last: None });
            return Judged::Skip;
        };
        let partition = Some(batch.partition);
        if batch.is_end() {
            self.seen.add_end(&batch);
            let batch_again = Some(batch.clone());
            self.supplied.push_back(Supplied { sequence, batch: batch_again, partition, last: None });
            return Judged::End(batch);
        }
        // The last message before a crash may be settled in part: it is read again.
        let is_continued = sequence == self.position >> INDEX_BITS;
        if !(self.seen.add(&batch) || is_continued) {
            self.repeated += u64::from(batch.elements);
            self.supplied.push_back(Supplied { sequence, batch: None, partition, last: None });
            return Judged::Skip;
        }
        let first = sequence << INDEX_BITS;
        let last = first + u64::from(batch.elements) - 1;
        // Before its elements: they may be settled as soon as they are supplied.
        self.supplied.push_back(Supplied { sequence, batch: Some(batch), partition, last: Some(last) });
        Judged::Supply { first, start: first.max(self.position + 1) }
    }

    /// Notes the end of a writer whose message is gone, behind what was read.
    pub(crate) fn add_lost_end(&mut self, batch: &BatchId) {
        self.seen.add_end(batch);
        let sequence = self.supplied.back().map_or(self.done, |last| last.sequence);
        let partition = Some(batch.partition);
        self.supplied.push_back(Supplied { sequence, batch: Some(batch.clone()), partition, last: None });
    }

    /// The elements of the last message are in the flow.
    pub(crate) fn note_supplied(&mut self, count: u64, generation_is_own: bool) {
        self.received += count;
        self.from_before += if generation_is_own { 0 } else { count };
    }

    /// The last message is damaged: it has no elements. Returns how many it had.
    pub(crate) fn note_corrupt(&mut self) -> u32 {
        let Some(last) = self.supplied.back_mut() else { return 0 };
        last.last = None;
        let elements = last.batch.as_ref().map_or(0, |batch| batch.elements);
        self.corrupt += u64::from(elements);
        elements
    }

    pub(crate) fn is_own(&self) -> bool {
        let batch = self.supplied.back().and_then(|last| last.batch.as_ref());
        batch.is_some_and(|batch| batch.generation == self.generation)
    }

    /// All elements up to this one need never be read again.
    pub fn settle(&mut self, position: u64) {
        if position > self.position {
            self.position = position;
            self.changes += 1;
        }
    }

    /// Messages up to the position are done, and those without elements behind it; all of them, if the run is over.
    pub fn advance(&mut self, is_over: bool) -> Advance {
        let mut advance = Advance::default();
        while let Some(first) = self.supplied.front() {
            if first.last.is_some_and(|last| last > self.position) && !is_over {
                break;
            }
            let Some(Supplied { sequence, batch, partition, last }) = self.supplied.pop_front() else {
                break;
            };
            if last.is_none() || is_over {
                self.position = self.position.max(((sequence + 1) << INDEX_BITS) - 1);
            }
            self.done = sequence;
            // One that came twice takes room on the broker as well.
            match (advance.touched.last_mut(), partition) {
                (Some((last, at)), Some(partition)) if *last == partition => *at = sequence,
                (_, Some(partition)) => advance.touched.push((partition, sequence)),
                (_, None) => {}
            }
            let Some(batch) = batch else { continue };
            if batch.is_end() {
                self.saved_seen.add_end(&batch);
                advance.ends.push(batch);
            } else {
                self.changes += u64::from(self.saved_seen.add(&batch));
            }
        }
        advance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_done_when_its_last_element_is_settled() {
        let mut read = ReadMessages::default();
        assert_eq!(read.judge(5, "0.s.g1.0.0.3"), Judged::Supply { first: 5 << 16, start: 5 << 16 });
        read.settle((5 << 16) + 1);
        read.advance(false);
        assert_eq!((read.done, read.saved_seen.series.len()), (0, 0));
        read.settle((5 << 16) + 2);
        read.advance(false);
        assert_eq!((read.done, read.saved_seen.series.len()), (5, 1));
    }

    #[test]
    fn a_message_that_was_settled_in_part_is_read_again_from_there() {
        let mut before = ReadMessages::default();
        before.judge(5, "0.s.g1.0.0.3");
        before.settle((5 << 16) + 1);
        before.advance(false);
        let mut read = ReadMessages::new(before.position, before.saved_seen.clone(), String::new());
        assert_eq!(read.start(), 5);
        let rest = Judged::Supply { first: 5 << 16, start: (5 << 16) + 2 };
        assert_eq!(read.judge(5, "0.s.g1.0.0.3"), rest);
    }

    #[test]
    fn a_batch_that_comes_twice_is_skipped_and_counted() {
        let mut read = ReadMessages::default();
        read.judge(1, "0.s.g1.0.0.3");
        assert_eq!(read.judge(2, "0.s.g1.0.0.3"), Judged::Skip);
        assert_eq!(read.judge(3, "written by hand"), Judged::Skip);
        assert_eq!(read.repeated, 3);
        read.settle((1 << 16) + 2);
        // The room of both copies is needed again.
        assert_eq!(read.advance(false).touched, [(0, 2)]);
        assert_eq!(read.done, 3);
        assert_eq!(read.position, (4 << 16) - 1);
    }

    #[test]
    fn an_end_that_is_gone_is_reported_behind_what_was_read() {
        let mut read = ReadMessages::default();
        read.judge(4, "0.s.g1.7.0.3");
        read.add_lost_end(&BatchId::parse("0.s.run.7.5.end").expect("an id"));
        assert_eq!(read.seen.missing(None), 2);
        assert!(read.advance(false).ends.is_empty());
        read.settle((4 << 16) + 2);
        assert_eq!(read.advance(false).ends.len(), 1);
        assert_eq!(read.done, 4);
    }

    #[test]
    fn an_end_is_reported_once_everything_before_it_is_settled() {
        let mut read = ReadMessages::default();
        read.judge(1, "0.s.g1.7.0.3");
        assert!(matches!(read.judge(2, "0.s.run.7.3.end"), Judged::End(_)));
        assert!(read.advance(false).ends.is_empty());
        read.settle((1 << 16) + 2);
        let advance = read.advance(false);
        assert_eq!(advance.ends.len(), 1);
        assert_eq!(advance.touched, [(7, 2)]);
    }
}
