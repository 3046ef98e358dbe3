//! The context of a position in the text, for assertions.

use regex_automata::util::look::{Look, LookMatcher, LookSet};

/// The two characters at a position, for assertions such as `\b`.
pub(super) struct LookAround {
    bytes: [u8; 8],
    at: usize,
    len: usize,
}

impl LookAround {
    pub(super) fn new(before: Option<char>, next: Option<char>) -> Self {
        let mut bytes = [0; 8];
        let at = before.map_or(0, |c| c.encode_utf8(&mut bytes).len());
        let len = at + next.map_or(0, |c| c.encode_utf8(&mut bytes[at..]).len());
        Self { bytes, at, len }
    }

    /// The assertions that hold.
    pub(super) fn holding(&self, looks: LookSet) -> LookSet {
        looks.iter().filter(|look| self.holds(*look)).fold(LookSet::empty(), LookSet::insert)
    }

    pub(super) fn holds(&self, look: Look) -> bool {
        LookMatcher::new().matches(look, &self.bytes[..self.len], self.at)
    }
}
