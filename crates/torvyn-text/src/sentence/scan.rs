//! The normal mode: one step per character, nothing read twice.
//!
//! The phases are a word (`Body`), a stop and its closers (`Stop`), white space (`Gap`), and, where the stop alone does
//! not decide, the beginning of the next word (`Peek`). Each step sees one character and the state, so the sentences
//! are the same however the text is split.

mod decision;
mod gap;

use super::Options;
use super::atoms::{Atoms, Place};
use super::evidence::Evidence;
use super::kind::{Kind, Peek};
use super::language::Languages;
use super::marks::{Mark, is_armenian, is_closer, mark};
use super::pending_text::{Cut, PendingText};
use super::quotes::Quotes;
use super::stop::Stop;

#[derive(Debug, Clone, Copy)]
enum Phase {
    Body,
    Stop(Stop),
    /// `stop`: the dots before the white space, which another dot may continue.
    Gap {
        kind: Kind,
        newlines: u8,
        stop: Option<Stop>,
    },
    Peek {
        cut: Cut,
        peek: Peek,
        stop: Option<Stop>,
    },
}

#[derive(Debug, Clone)]
pub(super) struct Scan {
    options: Options,
    pending: PendingText,
    line_head: bool,
    /// Where the current line begins in the pending text, if all of it is there.
    line_start: Option<usize>,
    emitted: bool,
    phase: Phase,
    atoms: Atoms,
    quotes: Quotes,
    evidence: Evidence,
    /// Of the text before the last stop that needed to know.
    languages: Languages,
    /// The mark that the next item of a list within this line has, if there is such a list.
    next_item: String,
    #[cfg(test)]
    pub(super) steps: usize,
}

impl Scan {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            pending: PendingText::default(),
            line_head: true,
            line_start: Some(0),
            emitted: false,
            phase: Phase::Body,
            atoms: Atoms::default(),
            quotes: Quotes::default(),
            evidence: Evidence::new(options.language),
            languages: Languages::default(),
            next_item: String::new(),
            #[cfg(test)]
            steps: 0,
        }
    }

    pub(super) fn pending(&self) -> &str {
        self.pending.text()
    }

    /// Sends everything pending. Open tags, code and quotations stay open, and the language stays known.
    pub(super) fn take(&mut self) -> Option<String> {
        if self.pending.len() == 0 {
            return None;
        }
        let line_head = self.pending.text().ends_with('\n');
        self.evidence.leave(self.pending.text());
        let before = std::mem::replace(self, Self::new(self.options));
        let Self { pending, atoms, quotes, evidence, .. } = before;
        *self = Self { emitted: true, line_head, atoms, quotes, evidence, ..Self::new(self.options) };
        self.line_start = line_head.then_some(0);
        Some(pending.into_text())
    }

    /// Reads the letters and digits that `text` begins with at once where they decide nothing; returns the rest. They
    /// are most of any text.
    pub(super) fn feed_letters<'t>(&mut self, text: &'t str) -> &'t str {
        let is_in_word = matches!(self.phase, Phase::Body) && self.atoms.is_outside();
        if self.options.max > 0 || !is_in_word || self.quotes.is_open() {
            return text;
        }
        let end = text.bytes().position(|b| !b.is_ascii_alphanumeric()).unwrap_or(text.len());
        let (letters, rest) = text.split_at(end);
        self.pending.push_letters(letters);
        rest
    }

    pub(super) fn feed(&mut self, c: char, out: &mut impl FnMut(&str)) {
        if self.options.max > 0 && self.pending.chars() >= self.options.max {
            self.cut_at_max(out);
        }
        if c == '`' && self.pending.text().ends_with(is_armenian) {
            // The `but` sign of Armenian is often written as a backtick, and opens no code.
            return self.text(c, out);
        }
        match self.atoms.see(c) {
            Place::Text => self.text(c, out),
            Place::TextAfterAngle => {
                if let Phase::Stop(_) = self.phase {
                    self.phase = Phase::Body;
                }
                self.text(c, out);
            }
            Place::TextAfterFence => {
                self.phase = Phase::Stop(Stop::fence(self.pending.len()));
                self.text(c, out);
            }
            Place::Inside => self.push(c),
            Place::TagEnd => {
                self.push(c);
                if let Phase::Body = self.phase {
                    self.pending.begin_word();
                }
            }
        }
    }

    fn text(&mut self, c: char, out: &mut impl FnMut(&str)) {
        self.step();
        match self.phase {
            Phase::Body => self.body(c, out),
            Phase::Stop(stop) => self.stop(c, stop, out),
            Phase::Gap { kind, newlines, stop } => self.gap(c, kind, newlines, stop, out),
            Phase::Peek { cut, peek, stop } => self.peek(c, cut, peek, stop, out),
        }
        self.quotes.see(c);
    }

    fn body(&mut self, c: char, out: &mut impl FnMut(&str)) {
        self.phase = Phase::Body;
        if c.is_whitespace() {
            if self.line_head {
                self.note_item();
            }
            return self.space(c, Kind::Flow, None, 0);
        }
        if c == '<' && self.pending.word_has_word() {
            // The tag that may begin here hides the word from the white space after it.
            self.line_head = false;
        }
        let core_end = self.pending.len();
        if self.is_stop_in_script(c, core_end) {
            self.phase = Phase::Stop(Stop::in_script(core_end));
            return self.push(c);
        }
        self.push(c);
        match mark(c) {
            Mark::Other => {}
            Mark::AtOnce if !self.quotes.is_open() => {
                self.boundary(self.pending.here(), out);
                self.pending.begin_word();
            }
            _ => self.phase = Phase::Stop(Stop::new(c, core_end)),
        }
    }

    fn stop(&mut self, c: char, mut stop: Stop, out: &mut impl FnMut(&str)) {
        if stop.is_in_citation() || c == '[' {
            return self.citation(c, stop, out);
        }
        if c.is_whitespace() {
            let kind = self.kind_of(stop);
            return self.space(c, kind, Some(stop).filter(|stop| stop.is_dots()), 0);
        }
        if mark(c) == Mark::AtOnce && !self.quotes.is_open() {
            return self.body(c, out);
        }
        if c == ']' && self.is_omission(stop) {
            self.phase = Phase::Body;
            return self.push(c);
        }
        if self.is_stop_in_script(c, stop.core_end()) {
            stop = Stop::in_script(stop.core_end());
        } else if mark(c) != Mark::Other || is_closer(c) || c == '<' {
            stop.extend(c);
        } else {
            if self.ends_before(c, stop) {
                self.boundary(self.pending.here(), out);
                self.pending.begin_word();
            }
            return self.body(c, out);
        }
        self.phase = Phase::Stop(stop);
        self.push(c);
    }

    fn citation(&mut self, c: char, mut stop: Stop, out: &mut impl FnMut(&str)) {
        if stop.cite(c) {
            self.phase = Phase::Stop(stop);
            return self.push(c);
        }
        self.body(c, out);
    }

    fn boundary(&mut self, cut: Cut, out: &mut impl FnMut(&str)) {
        self.line_head = true;
        self.next_item.clear();
        let Options { first_min, min, .. } = self.options;
        let least = if self.emitted { min } else { first_min };
        if cut.has_word && cut.content >= least {
            self.cut(cut, out);
        }
    }

    fn cut_at_max(&mut self, out: &mut impl FnMut(&str)) {
        let cut = self.pending.last_space_or_here();
        self.cut(cut, out);
        let moved = |stop: Option<Stop>| stop.map(|stop| stop.moved(cut.bytes));
        self.phase = match self.phase {
            Phase::Peek { .. } => Phase::Body,
            Phase::Stop(stop) => Phase::Stop(stop.moved(cut.bytes)),
            Phase::Gap { kind, newlines, stop } => Phase::Gap { kind, newlines, stop: moved(stop) },
            Phase::Body => Phase::Body,
        };
    }

    fn cut(&mut self, cut: Cut, out: &mut impl FnMut(&str)) {
        self.evidence.leave(&self.pending.text()[..cut.bytes]);
        self.pending.cut(cut, out);
        self.line_start = self.line_start.and_then(|start| start.checked_sub(cut.bytes));
        self.emitted = true;
    }

    fn push(&mut self, c: char) {
        self.step();
        self.pending.push(c);
    }

    #[cfg(test)]
    pub(super) fn moved_bytes(&self) -> usize {
        self.pending.moved_bytes
    }

    #[cfg(test)]
    pub(super) fn counted_bytes(&self) -> usize {
        self.evidence.counted_bytes
    }

    #[cfg(test)]
    fn step(&mut self) {
        self.steps += 1;
    }

    #[cfg(not(test))]
    fn step(&mut self) {}
}
