//! What a stop means once the character after it is known.

use super::super::kind::Kind;
use super::super::lists::is_item_number;
use super::super::marks::{is_armenian, is_cjk, is_comma, is_cyrillic, is_greek, is_hiragana, is_opener};
use super::super::pending_text::PendingText;
use super::super::stop::Stop;
use super::super::words::{Word, is_name_with_bang};
use super::Scan;

const LONGEST_WORD: usize = 64;
/// A shorter Cyrillic word may be an abbreviation with a name right after it: `г.Москва`.
const LEAST_LETTERS: usize = 4;

impl Scan {
    pub(super) fn kind_of(&mut self, stop: Stop) -> Kind {
        if stop.is_script() && self.quotes.is_open() {
            return Kind::Flow;
        }
        let core = core(&self.pending, stop);
        if self.line_head && stop.may_number_an_item() && is_item_number(core) {
            self.note_item();
            return Kind::ListNumber;
        }
        let is_alone = before(&self.pending, stop).ends_with(char::is_whitespace);
        match stop.kind(is_alone) {
            Some(Kind::Bang) if is_name_with_bang(core) => Kind::Name,
            Some(kind) => kind,
            None => self.kind_of_word(stop),
        }
    }

    fn kind_of_word(&mut self, stop: Stop) -> Kind {
        let core = core(&self.pending, stop);
        if core.ends_with(is_armenian) {
            // The dot of Armenian is a colon, but many write it as a full stop.
            return Kind::Soft;
        }
        let word = Word { core, previous: self.pending.previous_word() };
        if !word.may_be_special() {
            return Kind::Plain;
        }
        self.languages = self.evidence.languages(before(&self.pending, stop));
        word.kind(self.languages)
    }

    /// Whether a stop is final although `c` follows without white space.
    pub(super) fn ends_before(&mut self, c: char, stop: Stop) -> bool {
        if stop.is_script() {
            let goes_on =
                is_comma(c) || (stop.closed() && is_hiragana(c)) || (stop.may_be_decimal() && c.is_numeric());
            return !self.quotes.is_open() && !goes_on;
        }
        if is_cjk(c) {
            let after_number = before(&self.pending, stop).ends_with(char::is_numeric);
            return !after_number && matches!(self.kind_of(stop), Kind::Plain | Kind::Bang);
        }
        let core = core(&self.pending, stop);
        stop.is_single_dot()
            && c.is_uppercase()
            && core.chars().count() >= LEAST_LETTERS
            && core.chars().all(|c| is_cyrillic(c) && c.is_lowercase())
            && self.kind_of_word(stop) == Kind::Plain
    }

    /// `;` is a question mark in Greek, `:` ends a sentence in Armenian.
    pub(super) fn is_stop_in_script(&self, c: char, core_end: usize) -> bool {
        let letter = || self.pending.text().get(..core_end).and_then(|text| text.chars().next_back());
        match c {
            ':' => letter().is_some_and(is_armenian),
            ';' => letter().is_some_and(is_greek),
            _ => false,
        }
    }

    /// `[...]` stands for omitted words.
    pub(super) fn is_omission(&self, stop: Stop) -> bool {
        stop.is_dots() && before(&self.pending, stop).ends_with('[')
    }
}

fn before(pending: &PendingText, stop: Stop) -> &str {
    pending.text().get(..stop.core_end()).unwrap_or("")
}

fn core(pending: &PendingText, stop: Stop) -> &str {
    let word = pending.word_up_to(stop.core_end());
    // No rule applies to longer words, and reading them repeatedly would not take constant time.
    if word.len() > LONGEST_WORD {
        return "";
    }
    word.trim_start_matches(is_opener)
}
