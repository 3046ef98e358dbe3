//! Social security numbers of the United States, without those that were never issued.

use super::Form;
use super::number::{Gap, HYPHENS, Number, SPACES, begins_free, ends_free, stands_free};
use super::words::{OTHER_NUMBER_WORDS, SSN_WORDS};
use crate::guard::candidate::{Candidate, Judgement};

pub fn forms() -> Vec<Form> {
    let gap = format!("[{SPACES}{HYPHENS}.]");
    let pattern = format!(r"(?-u:\b)[0-8][0-9]{{2}}(?:{gap}[0-9]{{2}}{gap}[0-9]{{4}}|[0-9]{{6}})");
    vec![Form { pattern, check: Some(check), begins: Some(begins_free) }]
}

fn check(candidate: &Candidate<'_>) -> Judgement {
    let Some(number) = Number::parse(candidate.text) else { return Judgement::Reject };
    let digits = number.digits();
    let was_given = !matches!(digits, [0, 0, 0, ..] | [6, 6, 6, ..] | [9, ..])
        && digits[3..5] != [0, 0]
        && digits[5..] != [0, 0, 0, 0];
    if !was_given || !number.has_one_kind_of_gap() || !stands_free(candidate) {
        return Judgement::Reject;
    }
    let left = candidate.left_lowercase();
    let is_named = SSN_WORDS.are_in(&left);
    let has_hyphens = number.gaps().next() == Some(Gap::Hyphen);
    if !is_named && (!has_hyphens || OTHER_NUMBER_WORDS.are_in(&left)) {
        return Judgement::Reject;
    }
    ends_free(candidate)
}
