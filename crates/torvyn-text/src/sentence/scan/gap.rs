//! White space after a word, and the beginning of the next one: where most boundaries are decided.

use super::super::headings::is_heading;
use super::super::kind::{Kind, Peek};
use super::super::lists::{may_begin_mark, write_next};
use super::super::marks::is_closer;
use super::super::pending_text::Cut;
use super::super::stop::Stop;
use super::{Phase, Scan};

const LONGEST_MARK: usize = 16;

impl Scan {
    pub(super) fn space(&mut self, c: char, kind: Kind, stop: Option<Stop>, newlines: u8) {
        if self.pending.word_has_word() {
            self.line_head = false;
        }
        let more = match c {
            '\n' => 1,
            '\u{2029}' => 2,
            _ => 0,
        };
        self.line_head |= more > 0;
        self.phase = Phase::Gap { kind, newlines: newlines.saturating_add(more), stop };
        self.push(c);
    }

    pub(super) fn gap(
        &mut self,
        c: char,
        kind: Kind,
        newlines: u8,
        stop: Option<Stop>,
        out: &mut impl FnMut(&str),
    ) {
        if c.is_whitespace() {
            return self.space(c, kind, stop, newlines);
        }
        if newlines == 0 && kind == Kind::Flow && stop.is_none() && self.next_item.is_empty() {
            // Between two words of a line, as after most words.
            self.pending.begin_word();
            return self.body(c, out);
        }
        if newlines == 0 && kind != Kind::Flow && self.quotes.closes_apart(c) {
            self.phase = Phase::Stop(Stop::spaced_quote(self.pending.len()));
            return self.push(c);
        }
        self.begin_word(c, kind, newlines, stop, out);
    }

    fn begin_word(
        &mut self,
        c: char,
        kind: Kind,
        newlines: u8,
        stop: Option<Stop>,
        out: &mut impl FnMut(&str),
    ) {
        let cut = self.pending.here();
        self.pending.begin_word();
        let ends_heading = newlines == 1 && kind == Kind::Flow && self.ends_heading(c);
        self.begin_line(newlines);
        if newlines >= 2 || ends_heading {
            self.boundary(cut, out);
            return self.body(c, out);
        }
        let kind = match kind {
            Kind::Flow if newlines == 1 && may_begin_mark(c) => Kind::Flow,
            Kind::Flow if newlines == 0 && self.may_be_next_item(c) => Kind::NextItem,
            // Dots apart, so far fewer than four.
            Kind::Flow if stop.is_some() && c == '.' => Kind::Flow,
            Kind::Flow => return self.body(c, out),
            kind => kind,
        };
        let stop = stop.filter(|_| newlines == 0);
        self.peek(c, cut, Peek::new(kind, newlines > 0, self.languages), stop, out);
    }

    pub(super) fn peek(
        &mut self,
        c: char,
        cut: Cut,
        mut peek: Peek,
        stop: Option<Stop>,
        out: &mut impl FnMut(&str),
    ) {
        let word = &self.pending.text()[cut.bytes..];
        let decision = match stop {
            Some(stop) if word == "." && (c.is_whitespace() || is_closer(c)) => {
                return self.stop(c, stop.extend_spaced(), out);
            }
            Some(_) if word == "." => Some(matches!(peek.kind(), Kind::Plain | Kind::Soft)),
            Some(_) if word.is_empty() && c == '.' => None,
            _ if peek.kind() == Kind::NextItem => self.is_next_item(c, word),
            _ => peek.see(c, word),
        };
        let is_read = !word.is_empty();
        let Some(is_boundary) = decision else {
            self.phase = Phase::Peek { cut, peek, stop };
            return self.push(c);
        };
        if is_boundary {
            self.boundary(cut, out);
        }
        if is_read {
            return self.resume(c, out);
        }
        self.body(c, out);
    }

    /// Continues with `c` after a look-ahead, as if the look-ahead were read now.
    fn resume(&mut self, c: char, out: &mut impl FnMut(&str)) {
        let text = self.pending.text();
        let end = text.len();
        if text.ends_with(char::is_whitespace) {
            self.pending.begin_word();
        } else if text.ends_with('.') {
            // The number of a list item was read with its dot.
            return self.stop(c, Stop::new('.', end - 1), out);
        } else if text.ends_with(".)") {
            let mut stop = Stop::new('.', end - 2);
            stop.extend(')');
            return self.stop(c, stop, out);
        }
        self.body(c, out);
    }

    fn begin_line(&mut self, newlines: u8) {
        if newlines > 0 {
            self.line_start = Some(self.pending.len());
            self.next_item.clear();
        }
    }

    fn ends_heading(&self, next: char) -> bool {
        let Some(start) = self.line_start else { return false };
        let line = self.pending.text().get(start..).unwrap_or("").trim_end();
        is_heading(line, start == 0, next)
    }

    /// Remembers what follows the start of a list item, if the current word is one.
    pub(super) fn note_item(&mut self) {
        let word = self.pending.word_up_to(self.pending.len());
        if self.next_item.is_empty() && word.len() <= LONGEST_MARK {
            let mut next = std::mem::take(&mut self.next_item);
            write_next(word, &mut next);
            self.next_item = next;
        }
    }

    /// Whether `c` may start the next item. Where numbers with a dot are ordinals they do not start items within a
    /// line.
    fn may_be_next_item(&mut self, c: char) -> bool {
        if !self.next_item.starts_with(c) {
            return false;
        }
        let is_ordinal = self.next_item.ends_with('.') && c.is_ascii_digit();
        !(is_ordinal && self.evidence.languages(self.pending.text()).have_ordinals())
    }

    fn is_next_item(&self, c: char, word: &str) -> Option<bool> {
        if c.is_whitespace() {
            return Some(self.next_item == word);
        }
        let rest = self.next_item.get(word.len()..).unwrap_or("");
        if rest.starts_with(c) { None } else { Some(false) }
    }
}
