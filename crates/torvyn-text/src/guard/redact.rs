//! What `redact` knows: personal data and secrets, by their shape and, where they have them, by their check digits.

use super::pattern::{Check, PatternError, Patterns};

/// The kinds, in the order of their rules.
pub const KINDS: [&str; 6] = ["email", "card", "phone", "iban", "api-key", "jwt"];

/// Characters within which each kind is recognised; a token goes on being one for as long as it lasts.
const WINDOW: u64 = 320;

#[derive(Debug, thiserror::Error)]
#[error("there is no kind `{0}`")]
pub struct UnknownKind(pub String);

const EMAIL: &str =
    r"[A-Za-z0-9._%+-]+@(?:[A-Za-z0-9][A-Za-z0-9-]*\.)+(?:xn--[A-Za-z0-9-]{2,59}|[A-Za-z]{2,24})";
const CARD: &str = r"(?-u:\b)[0-9](?:[ -]?[0-9]){12,18}(?-u:\b)";
const IBAN: &str = r"(?-u:\b)[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}(?-u:\b)";
const JWT: &str = r"(?-u:\b)eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]*)?";

/// With its country, as the trunk code writes it in Europe, and as North America does.
const PHONES: [&str; 3] = [
    r"(?:\+|(?-u:\b)00)[1-9](?:[ ./()-]{0,2}[0-9]){6,13}(?-u:\b)",
    r"(?-u:\b)0[1-9](?:(?: [0-9]{2}){4}|[0-9]{1,4}[ /-]?[0-9]{3,8}(?:[ -][0-9]{2,5}){0,3})(?-u:\b)",
    r"(?:(?-u:\b)|\()[2-9][0-9]{2}\)?[ .-]{1,2}[0-9]{3}[ .-][0-9]{4}(?-u:\b)",
];

/// Prefixes that their issuers have documented for tools like this one.
const API_KEY: &str = concat!(
    r"(?-u:\b)(?:sk-[A-Za-z0-9_-]{16,}|[rs]k_(?:live|test)_[A-Za-z0-9]{16,}|gh[oprsu]_[A-Za-z0-9]{30,}",
    r"|github_pat_[A-Za-z0-9_]{22,}|glpat-[A-Za-z0-9_-]{20,}|(?:AKIA|ASIA)[0-9A-Z]{16}",
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|AIza[0-9A-Za-z_-]{35}|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{36})",
);

/// The patterns of the kinds named, as rules numbered like `KINDS`.
pub fn redact_patterns<K: AsRef<str>>(kinds: &[K]) -> Result<Result<Patterns, PatternError>, UnknownKind> {
    let (mut patterns, mut rules, mut checks): (Vec<&str>, Vec<u32>, Vec<Option<Check>>) = Default::default();
    for kind in kinds {
        let kind = kind.as_ref();
        let rule = KINDS.iter().position(|known| *known == kind);
        let rule = rule.ok_or_else(|| UnknownKind(kind.to_owned()))? as u32;
        let (shapes, check): (&[&str], Option<Check>) = match kind {
            "email" => (&[EMAIL], None),
            "card" => (&[CARD], Some(is_card)),
            "phone" => (&PHONES, Some(is_phone)),
            "iban" => (&[IBAN], Some(is_iban)),
            "api-key" => (&[API_KEY], None),
            _ => (&[JWT], None),
        };
        for shape in shapes {
            patterns.push(shape);
            rules.push(rule);
            checks.push(check);
        }
    }
    Ok(Patterns::checked(&patterns, rules, checks, WINDOW))
}

fn digits(text: &str) -> impl DoubleEndedIterator<Item = u32> + Clone + '_ {
    text.chars().filter_map(|c| c.to_digit(10))
}

/// Luhn's check digit; a row of zeros has it, and is no card.
fn is_card(text: &str) -> bool {
    let sum: u32 = digits(text)
        .rev()
        .enumerate()
        .map(|(at, digit)| match (at % 2, digit * 2) {
            (0, _) => digit,
            (_, twice) if twice > 9 => twice - 9,
            (_, twice) => twice,
        })
        .sum();
    sum > 0 && sum.is_multiple_of(10)
}

/// ISO 7064, mod 97: the first four characters go to the end, letters count from 10.
fn is_iban(text: &str) -> bool {
    let compact: Vec<char> = text.chars().filter(|c| *c != ' ').collect();
    let value = |rest: u64, c: &char| c.to_digit(36).map(|digit| fold_in(rest, u64::from(digit)));
    let (head, tail) = compact.split_at(4.min(compact.len()));
    (15..=34).contains(&compact.len()) && tail.iter().chain(head).try_fold(0, value) == Some(1)
}

fn fold_in(rest: u64, digit: u64) -> u64 {
    (rest * if digit > 9 { 100 } else { 10 } + digit) % 97
}

fn is_phone(text: &str) -> bool {
    (8..=15).contains(&digits(text).count())
}
