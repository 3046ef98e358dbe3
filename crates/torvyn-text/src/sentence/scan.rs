//! The normal mode: one step a character, nothing looked at twice.
//!
//! A word is read (`Body`), a stop and its closers (`Stop`), white space (`Gap`), and where the stop alone does not
//! decide, the beginning of the next word (`Peek`). As each step sees one character and the state, the sentences are
//! the same however the text was cut into pieces. What `Peek` has read holds no white space, so a cut leaves a rest
//! of one word at most.

use super::Options;
use super::atoms::{Atoms, Place};
use super::held::{Cut, Held};
use super::kind::{Kind, Peek, begins_list_item};
use super::marks::{Mark, is_cjk, is_closer, is_comma, is_hiragana, is_opener, mark};
use super::quotes::Quotes;
use super::stop::Stop;

const LONGEST_WORD: usize = 64;

#[derive(Debug, Clone, Copy)]
enum Phase {
    Body,
    Stop(Stop),
    Gap { kind: Kind, newlines: u8 },
    Peek { cut: Cut, peek: Peek },
}

#[derive(Debug, Clone)]
pub(super) struct Scan {
    options: Options,
    held: Held,
    line_head: bool,
    emitted: bool,
    phase: Phase,
    atoms: Atoms,
    quotes: Quotes,
    #[cfg(test)]
    pub(super) steps: usize,
}

impl Scan {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            held: Held::default(),
            line_head: true,
            emitted: false,
            phase: Phase::Body,
            atoms: Atoms::default(),
            quotes: Quotes::default(),
            #[cfg(test)]
            steps: 0,
        }
    }

    pub(super) fn held(&self) -> &str {
        self.held.text()
    }

    /// Everything held leaves; tags, code and quotations that are open stay open.
    pub(super) fn take(&mut self) -> Option<String> {
        if self.held.len() == 0 {
            return None;
        }
        let (atoms, quotes) = (std::mem::take(&mut self.atoms), std::mem::take(&mut self.quotes));
        let line_head = self.held.text().ends_with('\n');
        let held = std::mem::take(&mut self.held).into_text();
        *self = Self { emitted: true, line_head, atoms, quotes, ..Self::new(self.options) };
        Some(held)
    }

    pub(super) fn feed(&mut self, c: char, out: &mut impl FnMut(&str)) {
        if self.options.max > 0 && self.held.chars() >= self.options.max {
            self.cut_at_max(out);
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
                self.phase = Phase::Stop(Stop::fence(self.held.len()));
                self.text(c, out);
            }
            Place::Inside => self.push(c),
            Place::TagEnd => {
                self.push(c);
                if let Phase::Body = self.phase {
                    self.held.begin_word();
                }
            }
        }
    }

    fn text(&mut self, c: char, out: &mut impl FnMut(&str)) {
        self.step();
        match self.phase {
            Phase::Body => self.body(c, out),
            Phase::Stop(stop) => self.stop(c, stop, out),
            Phase::Gap { kind, newlines } => self.gap(c, kind, newlines, out),
            Phase::Peek { cut, peek } => self.peek(c, cut, peek, out),
        }
        self.quotes.see(c);
    }

    fn body(&mut self, c: char, out: &mut impl FnMut(&str)) {
        self.phase = Phase::Body;
        if c.is_whitespace() {
            return self.space(c, Kind::Flow, 0);
        }
        if c == '<' && self.held.word_has_word() {
            // The tag that may begin here hides the word from the white space after it.
            self.line_head = false;
        }
        let core_end = self.held.len();
        self.push(c);
        match mark(c) {
            Mark::Other => {}
            Mark::AtOnce if !self.quotes.is_open() => {
                self.boundary(self.held.here(), out);
                self.held.begin_word();
            }
            _ => self.phase = Phase::Stop(Stop::new(c, core_end)),
        }
    }

    fn stop(&mut self, c: char, mut stop: Stop, out: &mut impl FnMut(&str)) {
        if c.is_whitespace() {
            let kind = self.kind_of(stop);
            return self.space(c, kind, 0);
        }
        let is_mark = mark(c) != Mark::Other;
        if mark(c) == Mark::AtOnce && !self.quotes.is_open() {
            return self.body(c, out);
        }
        if is_mark || is_closer(c) || c == '<' {
            stop.extend(c);
            self.phase = Phase::Stop(stop);
            return self.push(c);
        }
        if self.ends_before(c, stop) {
            self.boundary(self.held.here(), out);
            self.held.begin_word();
        }
        self.body(c, out);
    }

    /// Whether a stop is final though `c` follows without white space.
    fn ends_before(&self, c: char, stop: Stop) -> bool {
        if stop.is_script() {
            let goes_on =
                is_comma(c) || (stop.closed() && is_hiragana(c)) || (stop.may_be_decimal() && c.is_numeric());
            return !self.quotes.is_open() && !goes_on;
        }
        is_cjk(c)
            && match self.kind_of(stop) {
                Kind::Plain => !self.before(stop).ends_with(char::is_numeric),
                _ => false,
            }
    }

    fn space(&mut self, c: char, kind: Kind, newlines: u8) {
        if self.held.word_has_word() {
            self.line_head = false;
        }
        let more = match c {
            '\n' => 1,
            '\u{2029}' => 2,
            _ => 0,
        };
        self.line_head |= more > 0;
        self.phase = Phase::Gap { kind, newlines: newlines.saturating_add(more) };
        self.push(c);
    }

    fn gap(&mut self, c: char, kind: Kind, newlines: u8, out: &mut impl FnMut(&str)) {
        if c.is_whitespace() {
            return self.space(c, kind, newlines);
        }
        let cut = self.held.here();
        self.held.begin_word();
        if newlines >= 2 {
            self.boundary(cut, out);
            return self.body(c, out);
        }
        if kind == Kind::Flow && !(newlines == 1 && begins_list_item(c)) {
            return self.body(c, out);
        }
        self.peek(c, cut, Peek::new(kind, newlines > 0), out);
    }

    fn peek(&mut self, c: char, cut: Cut, mut peek: Peek, out: &mut impl FnMut(&str)) {
        let Some(is_boundary) = peek.see(c, &self.held.text()[cut.bytes..]) else {
            self.phase = Phase::Peek { cut, peek };
            return self.push(c);
        };
        if is_boundary {
            self.boundary(cut, out);
        }
        if let Some(number) = self.held.text().strip_suffix('.') {
            // The number of a list item was looked at with its dot.
            return self.stop(c, Stop::new('.', number.len()), out);
        }
        self.body(c, out);
    }

    fn kind_of(&self, stop: Stop) -> Kind {
        if stop.is_script() && self.quotes.is_open() {
            return Kind::Flow;
        }
        let is_alone = self.before(stop).ends_with(char::is_whitespace);
        stop.kind(self.core(stop), self.line_head, is_alone)
    }

    fn before(&self, stop: Stop) -> &str {
        self.held.text().get(..stop.core_end()).unwrap_or("")
    }

    fn core(&self, stop: Stop) -> &str {
        let word = self.held.word_up_to(stop.core_end());
        // No rule speaks of longer words, and looking at them again and again would not be flat.
        if word.len() > LONGEST_WORD {
            return "";
        }
        word.trim_start_matches(is_opener)
    }

    fn boundary(&mut self, cut: Cut, out: &mut impl FnMut(&str)) {
        self.line_head = true;
        let Options { first_min, min, .. } = self.options;
        let least = if self.emitted { min } else { first_min };
        if cut.has_word && cut.content >= least {
            self.held.cut(cut, out);
            self.emitted = true;
        }
    }

    fn cut_at_max(&mut self, out: &mut impl FnMut(&str)) {
        let cut = self.held.last_space_or_here();
        self.held.cut(cut, out);
        self.emitted = true;
        self.phase = match self.phase {
            Phase::Peek { .. } => Phase::Body,
            Phase::Stop(stop) => Phase::Stop(stop.moved(cut.bytes)),
            phase => phase,
        };
    }

    fn push(&mut self, c: char) {
        self.step();
        self.held.push(c);
    }

    #[cfg(test)]
    pub(super) fn moved_bytes(&self) -> usize {
        self.held.moved_bytes
    }

    #[cfg(test)]
    fn step(&mut self) {
        self.steps += 1;
    }

    #[cfg(not(test))]
    fn step(&mut self) {}
}
