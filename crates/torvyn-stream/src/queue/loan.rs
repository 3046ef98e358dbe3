//! Elements that were taken from a queue and still count as waiting in it: an offloaded stage takes a batch at once.

use crate::queue::Queue;

impl Queue {
    /// Notes that `count` elements of a batch that was just popped are not started yet.
    #[inline]
    pub fn lend(&mut self, count: usize, bytes: usize) {
        self.lent = count as u32;
        self.lent_bytes = bytes;
        self.settle();
    }

    /// Counts the lent elements as unread.
    pub fn leave_lent(&mut self) {
        self.counts.popped -= u64::from(self.lent);
        self.counts.unread += u64::from(self.lent);
        self.lend(0, 0);
    }

    /// Counts `count` lent elements as dropped. The caller then calls `lend` with what is left.
    pub fn drop_lent(&mut self, count: usize) {
        self.counts.popped -= count as u64;
        self.counts.dropped += count as u64;
    }

    /// Counts `count` popped elements as unread.
    pub fn count_unread(&mut self, count: u64) {
        self.counts.popped -= count;
        self.counts.unread += count;
    }
}
