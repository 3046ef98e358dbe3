//! What precedes white space, and what the next word must be for the sentence to end.
//!
//! The look-ahead is one character for most kinds and one word for the others. It crosses white space in one case: a
//! dash after `!` or `?`, where the letter after the dash decides.

use super::language::Languages;
use super::lexicon::{LONGEST_OPENER, Room, lexicon};
use super::lists::begins_item;
use super::marks::{Mark, is_closing_quote, is_comma, is_dash, is_opener, mark};

/// The first letters of months that some languages write with a capital.
const MONTHS: &[&str] = &[
    "apr", "ápr", "aug", "dec", "des", "dez", "feb", "jan", "jul", "júl", "jun", "jún", "mai", "maj", "máj",
    "mar", "mär", "nov", "okt", "sep",
];
const MONTH_LETTERS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// No stop. A list item on the next line is still a boundary.
    Flow,
    /// No stop, and the next word may start the next item of a list within the line.
    NextItem,
    /// A stop that ends its sentence whatever follows.
    Plain,
    /// `!` or `?`: the end unless a dash and a small letter follow.
    Bang,
    /// `Yahoo!`: the end unless a small letter follows.
    Name,
    /// An ellipsis, a dot on its own, or a stop inside closing quotes: the end unless a small letter follows.
    Soft,
    Never,
    /// `2.` at the head of a line: the end only if the line ends too.
    ListNumber,
    /// The end if the next word often begins a sentence.
    Starter,
    /// The end if a capital follows.
    Capital,
    /// The end if a capitalised word follows, but not `5 p.m. EST`.
    Clock,
    /// The end unless a number follows.
    Number,
    /// `3.` in a language of ordinals: the end if a capitalised word follows that is neither a month nor, where nouns
    /// have capitals, anything but an opener.
    Ordinal,
    /// A closed fence of code: the end if its line ends.
    Fence,
}

/// A boundary that waits for the next word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peek {
    kind: Kind,
    newline: bool,
    languages: Languages,
    letters: usize,
}

impl Peek {
    pub(super) fn new(kind: Kind, newline: bool, languages: Languages) -> Self {
        Self { kind, newline, languages, letters: 0 }
    }

    pub(super) fn kind(self) -> Kind {
        self.kind
    }

    /// Whether the boundary holds, if `c` after the characters in `word` decides it.
    pub(super) fn see(&mut self, c: char, word: &str) -> Option<bool> {
        match self.kind {
            Kind::Flow | Kind::NextItem => begins_item(c, word),
            Kind::Soft => self.after_soft(c, word),
            Kind::Bang => self.after_bang(c, word),
            Kind::Starter => self.starter(c, word),
            Kind::Capital if is_opener(c) => None,
            Kind::Capital => Some(c.is_uppercase() || is_no_continuation(c)),
            Kind::Clock => self.clock(c),
            Kind::Ordinal => self.ordinal(c, word),
            Kind::Number if is_opener(c) || matches!(c, '#' | '§') => None,
            Kind::Number => Some(!c.is_numeric()),
            Kind::Plain => Some(c != '№'),
            Kind::Name => Some(!c.is_lowercase()),
            Kind::Never => Some(false),
            Kind::ListNumber | Kind::Fence => Some(self.newline),
        }
    }

    fn after_soft(self, c: char, word: &str) -> Option<bool> {
        if is_opener(c) || is_dash(c) {
            return None;
        }
        if c.is_whitespace() {
            // `"Stop!" - he cried` continues, a bullet on the next line does not.
            return Some(self.newline || !word.chars().all(is_dash));
        }
        let is_dot = matches!(mark(c), Mark::Dot | Mark::Ellipsis);
        Some(!(c.is_lowercase() || is_dot || is_comma(c) || is_closing_quote(c)))
    }

    fn after_bang(self, c: char, word: &str) -> Option<bool> {
        if self.newline || !(is_dash(c) || word.starts_with(is_dash)) {
            return Some(true);
        }
        let is_apart = word.ends_with(char::is_whitespace);
        if word.is_empty() || (c == ' ' && !is_apart) {
            return None;
        }
        Some(!(is_apart && c.is_lowercase()))
    }

    fn starter(&mut self, c: char, word: &str) -> Option<bool> {
        if self.letters == 0 && is_opener(c) {
            return None;
        }
        let word = word.trim_start_matches(is_opener).chars();
        let mut room = Room::default();
        let goes_on = if self.letters == 0 { c.is_uppercase() } else { c.is_alphabetic() };
        if goes_on {
            self.letters += 1;
            let may_open = room.fold(word.chain([c])).is_some_and(|start| lexicon().may_become_opener(start));
            return if may_open && self.letters <= LONGEST_OPENER { None } else { Some(false) };
        }
        Some(c != '.' && room.fold(word).is_some_and(|word| lexicon().is_opener(word, self.languages)))
    }

    fn ordinal(&mut self, c: char, word: &str) -> Option<bool> {
        if self.letters == 0 && is_opener(c) {
            return None;
        }
        if self.letters == 0 && !c.is_uppercase() {
            let goes_on = c.is_alphanumeric() || is_dash(c) || is_comma(c) || is_closing_quote(c);
            return Some(!goes_on);
        }
        if self.languages.capitalise_nouns() {
            return self.starter(c, word);
        }
        let mut room = Room::default();
        let word = word.trim_start_matches(is_opener).chars();
        let start = room.fold(word.chain([c])).unwrap_or("");
        self.letters += 1;
        match MONTHS.iter().any(|month| month.starts_with(start)) {
            true if self.letters < MONTH_LETTERS => None,
            is_month => Some(!is_month),
        }
    }

    fn clock(&mut self, c: char) -> Option<bool> {
        if self.letters == 0 && is_opener(c) {
            return None;
        }
        if c.is_uppercase() && self.letters < LONGEST_OPENER {
            self.letters += 1;
            return None;
        }
        Some(match self.letters {
            0 => is_no_continuation(c),
            1 => true,
            _ => c.is_lowercase(),
        })
    }
}

/// Neither the beginning of a word nor punctuation that continues a sentence.
fn is_no_continuation(c: char) -> bool {
    !(c.is_alphanumeric() || is_comma(c) || is_closing_quote(c))
}
