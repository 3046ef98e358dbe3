//! Numbers written in groups, and what may surround them.

use crate::guard::candidate::{Candidate, Judgement};

/// Spaces and hyphens that people and word processors put between digits, for use in a class.
pub const SPACES: &str = r" \u{a0}\u{2007}\u{2009}\u{202f}";
pub const HYPHENS: &str = r"\-\u{2010}-\u{2013}";

const MOST_DIGITS: usize = 24;
const MOST_GROUPS: usize = 9;

pub fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\u{a0}' | '\u{2007}' | '\u{2009}' | '\u{202f}')
}

pub fn is_hyphen(c: char) -> bool {
    matches!(c, '-' | '\u{2010}'..='\u{2013}')
}

/// What may separate two groups of digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gap {
    Space,
    Hyphen,
    Dot,
    Slash,
    Parenthesis,
}

#[derive(Debug, Default)]
pub struct Number {
    digits: [u8; MOST_DIGITS],
    len: usize,
    groups: [usize; MOST_GROUPS],
    count: usize,
    gaps: [Option<Gap>; MOST_GROUPS],
}

impl Number {
    /// Reads digits and the gaps between them; skips what is before the first digit.
    pub fn parse(text: &str) -> Option<Self> {
        let mut number = Self::default();
        let mut gap_start = None;
        for (at, c) in text.char_indices() {
            let Some(digit) = c.to_digit(10) else {
                gap_start = gap_start.or(Some(at));
                continue;
            };
            if number.count == 0 || gap_start.is_some() {
                number.start_group(gap_start.map_or("", |start| &text[start..at]))?;
                gap_start = None;
            }
            *number.digits.get_mut(number.len)? = digit as u8;
            number.len += 1;
            number.groups[number.count - 1] += 1;
        }
        Some(number)
    }

    fn start_group(&mut self, gap: &str) -> Option<()> {
        if self.count == MOST_GROUPS {
            return None;
        }
        if self.count > 0 {
            self.gaps[self.count - 1] = Some(gap_of(gap)?);
        }
        self.count += 1;
        Some(())
    }

    pub fn digits(&self) -> &[u8] {
        &self.digits[..self.len]
    }

    /// The number of digits in each group.
    pub fn groups(&self) -> &[usize] {
        &self.groups[..self.count]
    }

    pub fn gaps(&self) -> impl DoubleEndedIterator<Item = Gap> + Clone + '_ {
        self.gaps[..self.count.saturating_sub(1)].iter().flatten().copied()
    }

    pub fn has_one_kind_of_gap(&self) -> bool {
        let mut gaps = self.gaps();
        let first = gaps.next();
        gaps.all(|gap| Some(gap) == first)
    }

    /// The first digits as a number.
    pub fn prefix(&self, len: usize) -> u32 {
        self.digits().iter().take(len).fold(0, |value, digit| value * 10 + u32::from(*digit))
    }
}

fn gap_of(gap: &str) -> Option<Gap> {
    let mut marks = gap.chars().filter(|c| !is_space(*c));
    let Some(mark) = marks.next() else {
        return (gap.chars().count() <= 2).then_some(Gap::Space);
    };
    match (mark, marks.next()) {
        ('.', None) if gap.len() == 1 => Some(Gap::Dot),
        ('/', None) => Some(Gap::Slash),
        ('(' | ')', None | Some('(')) => Some(Gap::Parenthesis),
        (')', Some(hyphen)) if is_hyphen(hyphen) => Some(Gap::Parenthesis),
        (hyphen, None) if is_hyphen(hyphen) => Some(Gap::Hyphen),
        _ => None,
    }
}

/// A number may not begin right after `digit.`: that is the rest of a fraction or of a version.
pub fn begins_free(before: Option<char>, second: Option<char>) -> bool {
    !(before == Some('.') && second.is_some_and(|c| c.is_ascii_digit()))
}

/// Whether a number is not part of a larger token: a word, a path, an identifier, a decimal fraction.
pub fn stands_free(candidate: &Candidate<'_>) -> bool {
    let (before, second) = candidate.before();
    let Some(before) = before else { return true };
    let joined = second.is_some_and(char::is_alphanumeric);
    let is_zero_before_comma = || {
        let mut left = candidate.left().skip(1);
        left.next() == Some('0') && !left.next().is_some_and(|c| c.is_ascii_digit())
    };
    match before {
        '.' | '/' => !joined,
        ',' => !is_zero_before_comma(),
        ' ' => !second.is_some_and(is_currency),
        '#' | '№' | '°' | '\\' | '~' | '^' => false,
        hyphen if is_hyphen(hyphen) => !joined && second.is_none_or(char::is_whitespace),
        other => !is_word(other) && !is_currency(other),
    }
}

fn is_currency(c: char) -> bool {
    matches!(c, '$' | '€' | '£' | '¥' | '₹' | '₩' | '₽')
}

/// Letters of scripts without spaces may directly adjoin a number.
pub fn is_word(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric() || (c.is_alphanumeric() && !is_ideographic(c))
}

fn is_ideographic(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}')
}

/// Judges by the text after a number: `Reject` if a larger token continues there, otherwise `Accept`.
pub fn ends_free(candidate: &Candidate<'_>) -> Judgement {
    let Some(next) = candidate.after(0) else { return Judgement::Wait };
    let Some(next) = next else { return candidate.accept() };
    let joins = |second: char| match next {
        '.' => second.is_ascii_digit(),
        ':' => second.is_ascii_digit(),
        '/' | '@' => second.is_alphanumeric(),
        hyphen if is_hyphen(hyphen) => second.is_alphanumeric(),
        _ => false,
    };
    match next {
        '%' | '‰' | '°' => Judgement::Reject,
        c if is_word(c) => Judgement::Reject,
        '.' | '/' | ':' | '@' | '-' | '\u{2010}'..='\u{2013}' => match candidate.after(1) {
            None => Judgement::Wait,
            Some(Some(second)) if joins(second) => Judgement::Reject,
            Some(_) => candidate.accept(),
        },
        _ => candidate.accept(),
    }
}

/// The groups of digits that follow, each after one gap of this kind: how many (at most four), and the length of the
/// first. `None` while unknown.
pub fn groups_after(candidate: &Candidate<'_>, is_gap: fn(char) -> bool) -> Option<(usize, usize)> {
    let (mut at, mut count, mut first) = (0, 0, 0);
    while count < 4 && candidate.after(at)?.is_some_and(is_gap) {
        at += 1;
        let mut len = 0;
        while candidate.after(at)?.is_some_and(|c| c.is_ascii_digit()) && len < 9 {
            (at, len) = (at + 1, len + 1);
        }
        if len == 0 {
            break;
        }
        count += 1;
        first = if count == 1 { len } else { first };
    }
    Some((count, first))
}

/// The groups of digits in front, each before one gap of this kind: how many (at most two), and the length of the
/// nearest.
pub fn groups_before(candidate: &Candidate<'_>, is_gap: fn(char) -> bool) -> (usize, usize) {
    let mut left = candidate.left().peekable();
    let (mut count, mut nearest) = (0, 0);
    while count < 2 && left.next().is_some_and(is_gap) {
        let mut len = 0;
        while left.next_if(char::is_ascii_digit).is_some() {
            len += 1;
        }
        if len == 0 {
            break;
        }
        count += 1;
        nearest = if count == 1 { len } else { nearest };
    }
    (count, nearest)
}
