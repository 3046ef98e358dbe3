//! Payment cards: issuer prefix, length, grouping and Luhn's check digit.

use super::Form;
use super::number::{
    Gap, HYPHENS, Number, SPACES, begins_free, ends_free, groups_after, groups_before, is_hyphen, is_space,
    stands_free,
};
use super::words::CARD_WORDS;
use crate::guard::candidate::{Candidate, Judgement};

/// Prefixes from and to, with the lengths of their numbers.
const ISSUERS: [(u32, u32, &[usize]); 25] = [
    (4, 4, &[16, 19]),                       // Visa; 13 digits are judged apart
    (51, 55, &[16]),                         // Mastercard
    (2221, 2720, &[16]),                     // Mastercard
    (34, 34, &[15]),                         // American Express
    (37, 37, &[15]),                         // American Express
    (6011, 6011, &[16, 19]),                 // Discover
    (644, 649, &[16, 19]),                   // Discover
    (65, 65, &[16, 19]),                     // Discover, RuPay
    (3528, 3589, &[16, 19]),                 // JCB
    (300, 305, &[14]),                       // Diners Club
    (3095, 3095, &[14]),                     // Diners Club
    (36, 36, &[14]),                         // Diners Club
    (38, 39, &[14]),                         // Diners Club
    (62, 62, &[16, 17, 18, 19]),             // UnionPay
    (5018, 5018, &[12, 13, 15, 16, 18, 19]), // Maestro
    (5020, 5020, &[12, 13, 15, 16, 18, 19]), // Maestro
    (5038, 5038, &[12, 13, 15, 16, 18, 19]), // Maestro
    (5893, 5893, &[12, 13, 15, 16, 18, 19]), // Maestro
    (6304, 6304, &[12, 13, 15, 16, 18, 19]), // Maestro
    (6759, 6771, &[12, 13, 15, 16, 18, 19]), // Maestro
    (5019, 5019, &[16]),                     // Dankort
    (2200, 2204, &[16, 17, 18, 19]),         // Mir
    (6069, 6085, &[16]),                     // RuPay
    (5060, 5099, &[16, 18, 19]),             // Verve, Elo, RuPay
    (6362, 6363, &[16]),                     // Elo
];

/// How the digits are grouped on cards.
const GROUPINGS: [&[usize]; 10] = [
    &[4, 4, 4, 4],
    &[4, 4, 4, 4, 3],
    &[4, 4, 4, 4, 2],
    &[4, 4, 4, 4, 1],
    &[4, 6, 5],
    &[4, 6, 4],
    &[4, 4, 5],
    &[4, 5, 6],
    &[4, 3, 3, 3],
    &[6, 13],
];

pub fn forms() -> Vec<Form> {
    let gap = format!("(?:[{SPACES}]?[{HYPHENS}][{SPACES}]?|[{SPACES}]|\\.)");
    let four = format!("[2-6][0-9]{{3}}(?:{gap}[0-9]{{4}}){{3}}(?:{gap}[0-9]{{1,3}})?");
    let three = format!("[3-6][0-9]{{3}}{gap}[0-9]{{4,6}}{gap}[0-9]{{4,6}}");
    let old = format!("4[0-9]{{3}}(?:{gap}[0-9]{{3}}){{3}}");
    let two = format!("62[0-9]{{4}}{gap}[0-9]{{13}}");
    let pattern = format!(r"(?-u:\b)(?:[2-6][0-9]{{11,18}}|{four}|{three}|{old}|{two})");
    vec![Form { pattern, check: Some(check), begins: Some(begins_free) }]
}

fn check(candidate: &Candidate<'_>) -> Judgement {
    let Some(number) = Number::parse(candidate.text) else { return Judgement::Reject };
    let is_grouped = number.groups().len() > 1;
    if (is_grouped && !(number.has_one_kind_of_gap() && GROUPINGS.contains(&number.groups())))
        || !has_luhn_digit(number.digits())
        || !(has_issuer(&number) || is_old_visa(candidate, &number))
        || !stands_free(candidate)
    {
        return Judgement::Reject;
    }
    match number.gaps().next() {
        Some(Gap::Space) => in_no_row(candidate, &number, is_space),
        Some(Gap::Hyphen) => in_no_row(candidate, &number, is_hyphen),
        _ => ends_free(candidate),
    }
}

/// A card's groups do not continue in the same way before or after it, except for its expiry date and its code.
fn in_no_row(candidate: &Candidate<'_>, number: &Number, is_gap: fn(char) -> bool) -> Judgement {
    if matches!(groups_before(candidate, is_gap), (2.., _) | (_, 3..)) {
        return Judgement::Reject;
    }
    let expires = || {
        let month: String = candidate.right.chars().skip(1).take(2).collect();
        let year = candidate.right.chars().nth(3);
        matches!(month.parse(), Ok(1..=12)) && matches!(year, Some('2' | '3'))
    };
    match groups_after(candidate, is_gap) {
        None => Judgement::Wait,
        Some((0, _)) => ends_free(candidate),
        Some(_) if number.digits().len() > 16 || !candidate.right.starts_with(is_space) => Judgement::Reject,
        Some((1, ..=3) | (2..=3, 2)) => candidate.accept(),
        Some((1..=2, 4)) if expires() => candidate.accept(),
        Some(_) => Judgement::Reject,
    }
}

fn has_issuer(number: &Number) -> bool {
    ISSUERS.iter().any(|(from, to, lengths)| {
        let prefix = number.prefix(from.ilog10() as usize + 1);
        (*from..=*to).contains(&prefix) && lengths.contains(&number.digits().len())
    })
}

/// Visa's numbers once had 13 digits. So do bar codes, so the text must mention a card, or group the digits like one.
fn is_old_visa(candidate: &Candidate<'_>, number: &Number) -> bool {
    number.digits().len() == 13
        && number.prefix(1) == 4
        && (number.groups().len() == 4 || CARD_WORDS.are_in(&candidate.left_lowercase()))
}

fn has_luhn_digit(digits: &[u8]) -> bool {
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(at, digit)| match (at % 2, u32::from(*digit) * 2) {
            (0, twice) => twice / 2,
            (_, twice) if twice > 9 => twice - 9,
            (_, twice) => twice,
        })
        .sum();
    sum > 0 && sum.is_multiple_of(10)
}
