//! A match that was not reported yet: it may grow, and overlapping ones are merged.

use super::Found;
use super::rules::Finding;

#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// In bytes of the view.
    pub start: usize,
    pub end: usize,
    pub rule: u32,
    /// Its position, in characters of the stream.
    pub position: u64,
    /// Characters of it that have left the view.
    pub gone: u64,
    /// Characters of it that were removed; all others were sent.
    pub taken: u64,
    /// Its replacement was sent.
    pub is_replaced: bool,
    pub goes_on: bool,
}

impl Span {
    pub fn new(found: Found, position: u64) -> Self {
        let Found { start, end, rule, goes_on } = found;
        Self { start, end, rule, position, gone: 0, taken: 0, is_replaced: false, goes_on }
    }

    /// Merges an older one that overlaps.
    pub fn join(&mut self, older: &Self) {
        self.start = self.start.min(older.start);
        self.end = self.end.max(older.end);
        self.position = self.position.min(older.position);
        // What has left the view of the older one was before the younger one.
        self.gone += older.gone;
        self.taken += older.taken;
        self.is_replaced |= older.is_replaced;
    }

    /// Its finding, when `left` characters of it are still in the view.
    pub fn finding(&self, left: u64) -> Finding {
        let length = self.gone + left;
        Finding { rule: self.rule, position: self.position, length, exposed: length - self.taken }
    }
}
