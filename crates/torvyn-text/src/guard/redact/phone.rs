//! Telephone numbers: international ones by country code and length, national ones by their groups.
//!
//! A run of digits is a telephone number only where the text says so ("call 5550142398").

use super::Form;
use super::number::{
    Gap, HYPHENS, Number, SPACES, begins_free, ends_free, groups_after, groups_before, is_space, is_word,
    stands_free,
};
use super::phone_countries::country_code;
use super::words::{OTHER_NUMBER_WORDS, PHONE_WORDS};
use crate::guard::candidate::{Candidate, Judgement};

/// The groups of national numbers that begin with a trunk zero.
const TRUNK_GROUPS: [&[usize]; 34] = [
    &[2, 2, 2, 2, 2],
    &[2, 3, 2, 2],
    &[2, 3, 3, 2],
    &[2, 3, 4],
    &[2, 4, 4],
    &[2, 7],
    &[2, 8],
    &[2, 4, 3],
    &[3, 2, 2, 2, 2],
    &[3, 3, 2, 2],
    &[3, 3, 3, 2],
    &[3, 3, 4],
    &[3, 4, 3],
    &[3, 4, 4],
    &[3, 5, 3],
    &[3, 6],
    &[3, 7],
    &[3, 8],
    &[3, 2, 2, 3],
    &[4, 2, 2, 2],
    &[4, 2, 2, 3],
    &[4, 3, 2, 2],
    &[4, 3, 3],
    &[4, 3, 4],
    &[4, 4, 3],
    &[4, 4, 4],
    &[4, 6],
    &[4, 7],
    &[4, 8],
    &[5, 3, 3],
    &[5, 6],
    &[5, 7],
    &[5, 2, 2, 2],
    &[3, 5, 4],
];

pub fn forms() -> Vec<Form> {
    let gap = format!("[{SPACES}{HYPHENS}./()]{{1,3}}");
    let abroad = format!(
        r"(?:\+[{SPACES}]?|\(\+|(?-u:\b)00(?:{gap})?)[1-9][0-9]{{0,13}}(?:{gap}[0-9]{{1,12}}){{0,6}}"
    );
    let national = format!(r"(?-u:\b)[0-9]{{1,13}}(?:{gap}[0-9]{{1,9}}){{0,5}}");
    let area = format!(r"\([0-9]{{2,5}}(?:{gap}[0-9]{{2,9}}){{1,5}}");
    vec![
        Form { pattern: abroad, check: Some(check_international), begins: Some(begins_free) },
        Form { pattern: area, check: Some(check_national), begins: None },
        Form { pattern: national, check: Some(check_national), begins: Some(begins_free) },
    ]
}

/// What the words in front of a number say about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Label {
    Phone,
    Other,
    Nothing,
}

fn label(candidate: &Candidate<'_>) -> Label {
    let left = candidate.left_lowercase();
    // Words belong to the first number that follows them in their line.
    let nearest = left.rfind(|c: char| c.is_ascii_digit() || c == '\n').map_or(0, |at| at + 1);
    let left = &left[nearest..];
    match (PHONE_WORDS.last_in(left), OTHER_NUMBER_WORDS.last_in(left)) {
        (Some(phone), other) if other.is_none_or(|other| phone > other) => Label::Phone,
        (_, Some(_)) => Label::Other,
        _ => Label::Nothing,
    }
}

fn check_international(candidate: &Candidate<'_>) -> Judgement {
    let Some(number) = Number::parse(candidate.text) else { return Judgement::Reject };
    let has_plus = candidate.text.contains('+');
    let (mut digits, mut groups) = (number.digits().to_vec(), number.groups().to_vec());
    if !has_plus {
        digits.drain(..2);
        groups[0] -= 2;
        groups.retain(|len| *len > 0);
    }
    drop_trunk_zero(candidate.text, &mut digits, &mut groups);
    let is_bare = groups.len() < 2;
    let fits = country_code(&digits).is_some_and(|(len, fits)| fits && groups[0] >= len)
        && (digits[0] != 1 || digits[1] > 1)
        && groups.iter().skip(2).all(|len| *len > 1)
        && gaps_fit(candidate.text, &number, groups.len());
    if !fits {
        return Judgement::Reject;
    }
    let begins = if has_plus { plus_is_free(candidate) } else { stands_free(candidate) };
    if !begins || (!has_plus && is_bare && label(candidate) != Label::Phone) {
        return Judgement::Reject;
    }
    ends(candidate, &number)
}

fn plus_is_free(candidate: &Candidate<'_>) -> bool {
    candidate.before().0.is_none_or(|c| !is_word(c) && !matches!(c, '+' | '*' | '^' | ')'))
}

/// `+49 (0)30`: the zero is dialled only within the country.
fn drop_trunk_zero(text: &str, digits: &mut Vec<u8>, groups: &mut Vec<usize>) {
    let Some(at) = groups.iter().position(|len| *len == 1).filter(|at| *at > 0) else { return };
    let before: usize = groups[..at].iter().sum();
    if text.contains("(0)") && digits[before] == 0 {
        digits.remove(before);
        groups.remove(at);
    }
}

fn check_national(candidate: &Candidate<'_>) -> Judgement {
    let Some(number) = Number::parse(candidate.text) else { return Judgement::Reject };
    let count = number.digits().len();
    if !(7..=13).contains(&count) || !gaps_fit(candidate.text, &number, number.groups().len()) {
        return Judgement::Reject;
    }
    // Series of numbers are common: they are rejected before the words in front of them are read.
    let is_spaced = number.gaps().next_back() == Some(Gap::Space);
    if is_spaced && groups_before(candidate, is_space).0 > 0 {
        return Judgement::Reject;
    }
    let is_written_like_one = is_national(candidate.text, &number) && !is_row(&number);
    if !is_written_like_one && !is_plausible(&number) {
        return Judgement::Reject;
    }
    let fits = match label(candidate) {
        Label::Phone => true,
        Label::Other => false,
        Label::Nothing => is_written_like_one,
    };
    let is_labelled = || label(candidate) == Label::Phone && !candidate.before().0.is_some_and(is_word);
    if !fits || !(stands_free(candidate) || is_labelled()) {
        return Judgement::Reject;
    }
    ends(candidate, &number)
}

/// Gaps change at most twice; dots separate all groups or none; a slash comes first; brackets close.
fn gaps_fit(text: &str, number: &Number, groups: usize) -> bool {
    let gaps: Vec<Gap> = number.gaps().collect();
    let changes = gaps.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let dots = gaps.iter().filter(|gap| **gap == Gap::Dot).count();
    let opened = text.matches('(').count();
    let has_plus = text.contains('+');
    let is_short = || number.groups()[1..].iter().all(|len| *len <= 4);
    changes <= 3
        && opened <= 2
        && opened == text.matches(')').count()
        && (dots == 0 || (dots == gaps.len() && groups >= 3 && (has_plus || is_short())))
        && (has_plus || !gaps.iter().skip(1).any(|gap| *gap == Gap::Slash))
}

fn is_national(text: &str, number: &Number) -> bool {
    let (digits, groups) = (number.digits(), number.groups());
    let in_brackets = text.starts_with('(');
    let slash = number.gaps().next() == Some(Gap::Slash);
    match groups {
        [_] => false,
        _ if slash && digits[0] != 0 => false,
        _ if digits[0] == 0 => digits[1] != 0 && TRUNK_GROUPS.contains(&groups),
        [3, 3, 4] => is_north_american(digits),
        [1, 3, 3, 4] if digits[0] == 1 => is_north_american(&digits[1..]),
        [1, 3, 3, 2, 2] | [1, 3, 3, 4] => matches!(digits, [7 | 8, 3..=9, ..]),
        [3, 4, 4] => matches!(digits, [1, 3..=9, ..]),
        [3, 2, 2, 2] => digits[0] >= 6,
        [2, 3, 2, 2] => digits[0] >= 8,
        [2, 4, 4] | [2, 5, 4] => in_brackets && digits[0] > 0 && digits[1] > 0,
        _ => false,
    }
}

fn is_north_american(digits: &[u8]) -> bool {
    matches!(digits, [2..=9, 0..=8, _, 2..=9, ..]) && digits[1..3] != [1, 1] && digits[4..6] != [1, 1]
}

/// Lottery draws and enumerations increase slowly; sizes and codes all have a leading zero.
fn is_row(number: &Number) -> bool {
    let mut rest = number.digits();
    let mut values = Vec::new();
    for len in number.groups() {
        let (group, after) = rest.split_at(*len);
        values.push((group[0], group.iter().fold(0_u64, |value, digit| value * 10 + u64::from(*digit))));
        rest = after;
    }
    let is_ascending =
        values.windows(2).all(|pair| pair[0].1 < pair[1].1) && values.iter().all(|one| one.1 <= 60);
    let is_padded = values.iter().all(|one| one.0 == 0);
    (values.len() > 3 && is_ascending) || (values.len() > 2 && is_padded)
}

/// Where the text announces one, only dates and scattered digits are not.
fn is_plausible(number: &Number) -> bool {
    let (digits, groups) = (number.digits(), number.groups());
    let has_year = matches!(digits, [1, 9, ..] | [2, 0, ..]) && number.prefix(6) % 100 <= 12;
    let is_date = match groups {
        [2, 2, 4] | [1, 2, 4] | [1, 1, 4] => true,
        [4, 2, ..] | [8] => has_year,
        [4, 4] => matches!((digits[0], digits[4]), (1 | 2, 1 | 2)),
        _ => false,
    };
    !is_date && groups.len() <= 6 && groups.iter().skip(1).all(|len| *len > 1) && !is_row(number)
}

/// A number that continues after a gap like its last one is a series, unless what follows is short.
fn ends(candidate: &Candidate<'_>, number: &Number) -> Judgement {
    if let Some(Some('x' | 'X')) = candidate.after(0) {
        return match candidate.after(1) {
            None => Judgement::Wait,
            Some(Some(digit)) if digit.is_ascii_digit() => candidate.accept(),
            _ => Judgement::Reject,
        };
    }
    let is_spaced = number.gaps().next_back() == Some(Gap::Space);
    if !is_spaced {
        return ends_free(candidate);
    }
    let has_plus = candidate.text.contains('+');
    if !has_plus && (groups_before(candidate, is_space).0 > 0 || is_hex_dump(candidate, number)) {
        return Judgement::Reject;
    }
    let last = number.groups().last().copied().unwrap_or(0);
    match groups_after(candidate, is_space) {
        None => Judgement::Wait,
        Some((0, _)) => ends_free(candidate),
        Some((1, len)) if len < 3 && len != last && !is_byte_after(candidate) => candidate.accept(),
        Some(_) => Judgement::Reject,
    }
}

/// A digit and a letter such as `2f` follow.
fn is_byte_after(candidate: &Candidate<'_>) -> bool {
    matches!(candidate.after(2), Some(Some('a'..='f' | 'A'..='F')))
}

/// Pairs of digits after a pair such as `a1` are bytes.
fn is_hex_dump(candidate: &Candidate<'_>, number: &Number) -> bool {
    let before: Vec<char> = candidate.left().skip(1).take(3).collect();
    let is_pair = before.get(2).is_none_or(|c| !c.is_alphanumeric());
    number.groups().iter().all(|len| *len == 2)
        && is_pair
        && before.iter().take(2).filter(|c| c.is_ascii_hexdigit()).count() == 2
        && before.iter().take(2).any(char::is_ascii_digit)
}
