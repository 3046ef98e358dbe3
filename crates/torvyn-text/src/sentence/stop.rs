//! A run of stops and closers at the end of a word, as far as it was read.

use super::kind::Kind;
use super::marks::{Mark, is_closing_quote, mark};

/// Citations in brackets are not longer.
const LONGEST_CITATION: u8 = 12;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stop {
    core_end: usize,
    dots: u8,
    bang: bool,
    script: bool,
    wide_dot: bool,
    closed: bool,
    /// Closed by `)` and nothing else, as the number of a list item may be.
    round: bool,
    fence: bool,
    /// White space separates its dots.
    spaced: bool,
    /// The characters of an open `[1]` so far.
    citation: Option<u8>,
}

impl Stop {
    /// `core_end`: where the word before the stop ends in the buffer.
    pub(super) fn new(c: char, core_end: usize) -> Self {
        let script = matches!(mark(c), Mark::Script | Mark::AtOnce);
        let mut stop = Self { core_end, script, wide_dot: c == '．', ..Self::default() };
        stop.extend(c);
        stop
    }

    /// A mark that ends a question or a sentence in its script only: `;` in Greek, `:` in Armenian.
    pub(super) fn in_script(core_end: usize) -> Self {
        Self { core_end, bang: true, ..Self::default() }
    }

    /// The closing line of a fence, which ends its sentence as a stop does.
    pub(super) fn fence(core_end: usize) -> Self {
        Self { core_end, fence: true, ..Self::default() }
    }

    /// A quotation mark that closes after white space, as in French.
    pub(super) fn spaced_quote(core_end: usize) -> Self {
        Self { core_end, closed: true, ..Self::default() }
    }

    pub(super) fn extend(&mut self, c: char) {
        self.round = c == ')' && !self.closed;
        match mark(c) {
            Mark::Dot => self.dots = self.dots.saturating_add(1),
            Mark::Ellipsis => self.dots = self.dots.saturating_add(3),
            Mark::Bang => self.bang = true,
            Mark::Script | Mark::AtOnce => self.script = true,
            Mark::Other => self.closed |= is_closing_quote(c),
        }
    }

    /// One more dot, after white space: `. . .`
    pub(super) fn extend_spaced(mut self) -> Self {
        self.spaced = true;
        self.dots = self.dots.saturating_add(1);
        self
    }

    /// Whether `c` belongs to a citation such as `[1]`, `[2, 3]` or `[^note]` right after the stop.
    pub(super) fn cite(&mut self, c: char) -> bool {
        self.citation = match (self.citation, c) {
            (None, '[') => Some(0),
            (Some(length @ 1..), ']') => {
                debug_assert!(length <= LONGEST_CITATION);
                None
            }
            (Some(length), ',' | ' ' | '-' | '–' | '^') if length < LONGEST_CITATION => Some(length + 1),
            (Some(length), c) if length < LONGEST_CITATION && c.is_ascii_alphanumeric() => Some(length + 1),
            _ => return false,
        };
        true
    }

    pub(super) fn is_in_citation(self) -> bool {
        self.citation.is_some()
    }

    /// The same stop after `bytes` were sent from the buffer.
    pub(super) fn moved(self, bytes: usize) -> Self {
        Self { core_end: self.core_end.saturating_sub(bytes), ..self }
    }

    pub(super) fn core_end(self) -> usize {
        self.core_end
    }

    pub(super) fn is_script(self) -> bool {
        self.script
    }

    pub(super) fn closed(self) -> bool {
        self.closed
    }

    pub(super) fn is_single_dot(self) -> bool {
        self.is_dots() && self.dots == 1
    }

    /// Only dots, which a dot after white space may continue.
    pub(super) fn is_dots(self) -> bool {
        self.dots > 0 && !(self.bang || self.script || self.closed)
    }

    /// `1.` or `1.)`
    pub(super) fn may_number_an_item(self) -> bool {
        self.dots == 1 && !(self.bang || self.script || self.spaced) && (self.round || !self.closed)
    }

    /// `３．１４`
    pub(super) fn may_be_decimal(self) -> bool {
        self.wide_dot
    }

    /// What this stop is when white space follows it, unless the word before it decides. `is_alone`: white space
    /// precedes it too.
    pub(super) fn kind(self, is_alone: bool) -> Option<Kind> {
        if self.fence {
            Some(Kind::Fence)
        } else if self.script {
            Some(Kind::Plain)
        } else if self.spaced && !self.closed && self.dots == 3 {
            // Three separated dots stand for omitted words, a fourth is the full stop.
            Some(Kind::Flow)
        } else if self.closed || (!self.bang && (self.dots > 1 || is_alone)) {
            Some(Kind::Soft)
        } else {
            self.bang.then_some(Kind::Bang)
        }
    }
}
