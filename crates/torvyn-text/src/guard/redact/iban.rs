//! International bank account numbers: country, length and check digits, in any case and grouping.

use super::Form;
use super::number::{HYPHENS, SPACES, is_hyphen, is_space, is_word};
use crate::guard::candidate::{Candidate, Judgement};

/// Countries and the length of their numbers.
#[rustfmt::skip]
const LENGTHS: [(&str, usize); 89] = [
    ("AD", 24), ("AE", 23), ("AL", 28), ("AT", 20), ("AZ", 28), ("BA", 20), ("BE", 16), ("BG", 22),
    ("BH", 22), ("BI", 27), ("BR", 29), ("BY", 28), ("CH", 21), ("CR", 22), ("CY", 28), ("CZ", 24),
    ("DE", 22), ("DJ", 27), ("DK", 18), ("DO", 28), ("EE", 20), ("EG", 29), ("ES", 24), ("FI", 18),
    ("FK", 18), ("FO", 18), ("FR", 27), ("GB", 22), ("GE", 22), ("GI", 23), ("GL", 18), ("GR", 27),
    ("GT", 28), ("HN", 28), ("HR", 21), ("HU", 28), ("IE", 22), ("IL", 23), ("IQ", 23), ("IS", 26),
    ("IT", 27), ("JO", 30), ("KW", 30), ("KZ", 20), ("LB", 28), ("LC", 32), ("LI", 21), ("LT", 20),
    ("LU", 20), ("LV", 21), ("LY", 25), ("MC", 27), ("MD", 24), ("ME", 22), ("MK", 19), ("MN", 20),
    ("MR", 27), ("MT", 31), ("MU", 30), ("NI", 28), ("NL", 18), ("NO", 15), ("OM", 23), ("PK", 24),
    ("PL", 28), ("PS", 29), ("PT", 25), ("QA", 29), ("RO", 24), ("RS", 22), ("RU", 33), ("SA", 24),
    ("SC", 31), ("SD", 18), ("SE", 24), ("SI", 19), ("SK", 24), ("SM", 27), ("SO", 23), ("ST", 25),
    ("SV", 28), ("TL", 23), ("TN", 24), ("TR", 26), ("UA", 29), ("VA", 22), ("VG", 24), ("XK", 20),
    ("YE", 30),
];

pub fn forms() -> Vec<Form> {
    let countries: Vec<&str> = LENGTHS.iter().map(|(country, _)| *country).collect();
    let gap = format!("[{SPACES}{HYPHENS}]");
    let pattern = format!(r"(?-u:\b)(?i-u:{})[0-9]{{2}}(?:{gap}?[A-Za-z0-9]){{11,29}}?", countries.join("|"));
    vec![Form { pattern, check: Some(check), begins: None }]
}

fn check(candidate: &Candidate<'_>) -> Judgement {
    let mut gaps = candidate.text.chars().filter(|c| is_space(*c) || is_hyphen(*c)).map(is_hyphen);
    let first = gaps.next();
    let compact: Vec<char> = candidate
        .text
        .chars()
        .filter(|c| c.is_ascii_alphanumeric())
        .map(|c| c.to_ascii_uppercase())
        .collect();
    let length = LENGTHS.iter().find(|(country, _)| country.chars().eq(compact[..2].iter().copied()));
    let joined = |c: char| is_word(c) || is_hyphen(c);
    if length.map(|(_, length)| *length) != Some(compact.len())
        || !gaps.all(|gap| Some(gap) == first)
        || (first == Some(true) && !is_in_fours(candidate.text))
        || !has_check_digits(&compact)
        || candidate.before().0.is_some_and(joined)
    {
        return Judgement::Reject;
    }
    match candidate.after(0) {
        None => Judgement::Wait,
        Some(Some(next)) if is_word(next) => Judgement::Reject,
        Some(Some(next)) if is_hyphen(next) => match candidate.after(1) {
            None => Judgement::Wait,
            Some(Some(second)) if is_word(second) => Judgement::Reject,
            Some(_) => candidate.accept(),
        },
        Some(_) => candidate.accept(),
    }
}

/// Banks put spaces anywhere; hyphens in other places belong to other identifiers.
fn is_in_fours(text: &str) -> bool {
    let lengths: Vec<usize> = text.split(is_hyphen).map(str::len).collect();
    lengths.split_last().is_some_and(|(last, rest)| *last <= 4 && rest.iter().all(|len| *len == 4))
}

/// ISO 7064, mod 97: the first four characters go to the end, letters count from 10.
fn has_check_digits(compact: &[char]) -> bool {
    let (head, tail) = compact.split_at(4.min(compact.len()));
    let value = |rest: u64, c: &char| c.to_digit(36).map(|digit| fold_in(rest, u64::from(digit)));
    tail.iter().chain(head).try_fold(0, value) == Some(1)
}

fn fold_in(rest: u64, digit: u64) -> u64 {
    (rest * if digit > 9 { 100 } else { 10 } + digit) % 97
}
