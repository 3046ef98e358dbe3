//! Several elements at once: what a loop of single calls does, with one look at the limits and the counters.

use crate::queue::Queue;
use crate::stage::Emission;

impl Queue {
    /// Moves the first elements, at most `count`, to the end of another queue, as far as they fit. Returns how many.
    pub fn move_run(&mut self, to: &mut Queue, count: usize) -> usize {
        let (fitting, bytes) = to.fitting(self.front_batch(count).iter().map(|element| element.len));
        self.slots.move_run(&mut to.slots, fitting);
        self.note_taken(fitting, bytes);
        to.note_put(bytes);
        fitting
    }

    /// Drops the first `count` elements in place. `bytes` is their length.
    pub fn drop_run(&mut self, count: usize, bytes: usize) {
        self.slots.drop_run(count);
        self.note_taken(count, bytes);
    }

    /// Builds an element of each emission if all of them fit, with consecutive sequence numbers. False: none is taken.
    pub fn emplace_run(
        &mut self,
        made: &mut Vec<Emission>,
        owner: u16,
        first_sequence: u64,
        timestamp_ns: u64,
    ) -> bool {
        let (fitting, bytes) = self.fitting(made.iter().map(|emission| emission.len));
        if fitting < made.len() {
            return false;
        }
        for (sequence, emission) in (first_sequence..).zip(made.iter_mut()) {
            self.slots.emplace(emission, owner, sequence, timestamp_ns);
        }
        made.clear();
        self.note_put(bytes);
        true
    }

    /// How many elements of these lengths are accepted, from the first on, and their bytes.
    #[inline]
    fn fitting(&self, lengths: impl Iterator<Item = u32>) -> (usize, usize) {
        let depth = self.depth();
        let room = (self.depth_limit as usize).saturating_sub(depth);
        let free_bytes = self.byte_limit.saturating_sub(self.bytes + self.lent_bytes);
        let (mut count, mut bytes) = (0, 0);
        for len in lengths.take(room) {
            let len = len as usize;
            // An empty queue accepts an element of any size.
            if bytes + len > free_bytes && depth + count > 0 {
                break;
            }
            (count, bytes) = (count + 1, bytes + len);
        }
        (count, bytes)
    }

    #[inline]
    fn note_taken(&mut self, count: usize, bytes: usize) {
        self.bytes -= bytes;
        self.counts.popped += count as u64;
        self.settle();
    }
}
