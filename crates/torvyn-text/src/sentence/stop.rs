//! A run of stops and closers at the end of a word: what was seen of it so far.

use super::kind::Kind;
use super::marks::{Mark, is_closing_quote, mark};
use super::words;

#[derive(Debug, Clone, Copy)]
pub(super) struct Stop {
    core_end: usize,
    dots: u8,
    bang: bool,
    script: bool,
    wide_dot: bool,
    closed: bool,
    fence: bool,
}

impl Stop {
    /// `core_end`: where the word before the stop ends in the held text.
    pub(super) fn new(c: char, core_end: usize) -> Self {
        let script = matches!(mark(c), Mark::Script | Mark::AtOnce);
        let mut stop =
            Self {
                core_end, dots: 0, bang: false, script, wide_dot: c == '．', closed: false, fence: false
            };
        stop.extend(c);
        stop
    }

    /// The closing line of a fence, which ends its sentence as a stop does.
    pub(super) fn fence(core_end: usize) -> Self {
        Self { core_end, dots: 0, bang: false, script: false, wide_dot: false, closed: false, fence: true }
    }

    pub(super) fn extend(&mut self, c: char) {
        match mark(c) {
            Mark::Dot => self.dots = self.dots.saturating_add(1),
            Mark::Ellipsis => self.dots = self.dots.saturating_add(3),
            Mark::Bang => self.bang = true,
            Mark::Script | Mark::AtOnce => self.script = true,
            Mark::Other => self.closed |= is_closing_quote(c),
        }
    }

    /// The same stop after `bytes` have left the held text.
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

    /// `３．１４`
    pub(super) fn may_be_decimal(self) -> bool {
        self.wide_dot
    }

    /// What this stop is when white space follows it; `is_alone`: white space stands before it too.
    pub(super) fn kind(self, core: &str, line_head: bool, is_alone: bool) -> Kind {
        if self.fence {
            Kind::Fence
        } else if self.script {
            Kind::Plain
        } else if self.closed || (!self.bang && (self.dots > 1 || is_alone)) {
            Kind::Soft
        } else if self.bang {
            Kind::Plain
        } else {
            words::kind_of(core, line_head)
        }
    }
}
