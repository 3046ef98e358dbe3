//! What stands before white space, and what the next word must say before the sentence is over.
//!
//! The look-ahead is one character for most kinds, one word for the others; it never crosses white space.

use super::marks::{Mark, is_closing_quote, is_comma, is_dash, is_opener, mark};
use super::words::{LONGEST_STARTER, is_starter};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// No stop. A list item on the next line is a boundary all the same.
    Flow,
    /// A stop that ends its sentence whatever follows.
    Plain,
    /// An ellipsis, a dot on its own, or a stop inside closing quotes: the end unless a small letter follows.
    Soft,
    Never,
    /// `2.` at the head of a line: the end only if the line ends too.
    ListNumber,
    /// The end if the next word usually begins a sentence.
    Starter,
    /// The end if a capitalised word follows, but not `5 p.m. EST`.
    Capital,
    /// The end unless a number follows.
    Number,
    /// A closed fence of code: the end if its line ends.
    Fence,
}

/// A boundary that waits for the next word.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peek {
    kind: Kind,
    newline: bool,
    letters: usize,
}

impl Peek {
    pub(super) fn new(kind: Kind, newline: bool) -> Self {
        Self { kind, newline, letters: 0 }
    }

    /// Whether the boundary holds, if `c` after the characters in `word` settles it.
    pub(super) fn see(&mut self, c: char, word: &str) -> Option<bool> {
        match self.kind {
            Kind::Flow => list_item(c, word),
            Kind::Soft => self.after_soft(c, word),
            Kind::Starter => self.starter(c, word),
            Kind::Capital => self.capital(c),
            Kind::Number if is_opener(c) || matches!(c, '#' | '§') => None,
            Kind::Number => Some(!c.is_numeric()),
            Kind::Plain => Some(true),
            Kind::Never => Some(false),
            Kind::ListNumber | Kind::Fence => Some(self.newline),
        }
    }

    fn after_soft(self, c: char, word: &str) -> Option<bool> {
        if is_opener(c) || is_dash(c) {
            return None;
        }
        if c.is_whitespace() {
            // `"Stop!" - he cried` goes on, a bullet on the next line does not.
            return Some(self.newline || !word.chars().all(is_dash));
        }
        let is_dot = matches!(mark(c), Mark::Dot | Mark::Ellipsis);
        Some(!(c.is_lowercase() || is_dot || is_comma(c) || is_closing_quote(c)))
    }

    fn starter(&mut self, c: char, word: &str) -> Option<bool> {
        if self.letters == 0 && is_opener(c) {
            return None;
        }
        let goes_on = if self.letters == 0 { c.is_uppercase() } else { c.is_alphabetic() };
        if goes_on && self.letters < LONGEST_STARTER {
            self.letters += 1;
            return None;
        }
        Some(!goes_on && c != '.' && is_starter(word.trim_start_matches(is_opener)))
    }

    fn capital(&mut self, c: char) -> Option<bool> {
        if self.letters == 0 && is_opener(c) {
            return None;
        }
        if c.is_uppercase() && self.letters < LONGEST_STARTER {
            self.letters += 1;
            return None;
        }
        Some(match self.letters {
            0 => !(c.is_alphanumeric() || is_comma(c) || is_closing_quote(c)),
            1 => true,
            _ => c.is_lowercase(),
        })
    }
}

/// Whether `c` may begin the mark of a list item or a heading.
pub(super) fn begins_list_item(c: char) -> bool {
    matches!(c, '-' | '*' | '+' | '•' | '#') || c.is_ascii_digit()
}

/// `- `, `* `, `## `, `12. `, `3) `: nothing longer than six characters is one.
fn list_item(c: char, word: &str) -> Option<bool> {
    if c.is_whitespace() {
        return Some(is_list_mark(word));
    }
    let may_go_on = word.is_empty() || c == '#' || c.is_ascii_digit() || matches!(c, '.' | ')');
    if may_go_on && word.len() < 6 && begins_list_item(word.chars().next().unwrap_or(c)) {
        return None;
    }
    Some(false)
}

fn is_list_mark(word: &str) -> bool {
    let is_bullet = matches!(word, "-" | "*" | "+" | "•");
    let is_heading = !word.is_empty() && word.bytes().all(|b| b == b'#');
    let digits = word.strip_suffix(['.', ')']).unwrap_or("");
    let is_number = (1..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    is_bullet || is_heading || is_number
}
