//! The golden rules of 23 languages, and how many of them hold.

use std::collections::BTreeMap;

use super::*;
use crate::sentence::Language;

pub(super) const RULES: &str = include_str!("../../../data/golden_rules.txt");
pub(super) const HELD_OUT: &str = include_str!("../../../data/development_sentences.txt");

pub(super) fn cases(file: &'static str) -> impl Iterator<Item = (&'static str, Vec<String>)> {
    file.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (code, marked) = line.split_once('\t')?;
        Some((code, marked.replace("\\n", "\n").split('|').map(str::to_owned).collect()))
    })
}

fn holds(expected: &[String], language: Option<Language>) -> bool {
    let options = Options { language, ..Options::default() };
    let sentences = split_pieces(options, [expected.concat().as_str()]);
    let found = sentences.iter().map(|sentence| sentence.trim()).collect::<Vec<_>>();
    found.iter().copied().eq(expected.iter().map(|sentence| sentence.trim()))
}

/// English rules, then all others.
fn score(language_of: impl Fn(&str) -> Option<Language>) -> (usize, usize) {
    let mut scores = BTreeMap::<&str, (usize, usize)>::new();
    for (code, expected) in cases(RULES) {
        let score = scores.entry(code).or_default();
        score.0 += usize::from(holds(&expected, language_of(code)));
        score.1 += 1;
    }
    let english = scores.remove("en").unwrap_or_default().0;
    (english, scores.values().map(|score| score.0).sum())
}

#[test]
fn golden_rules_hold_when_the_language_is_detected() {
    assert_eq!(score(|_| None), (46, 112));
}

#[test]
fn golden_rules_hold_when_the_language_is_given() {
    assert_eq!(score(Language::from_code), (46, 111));
}

#[test]
fn development_sentences_are_found() {
    let found = cases(HELD_OUT).filter(|(_, expected)| holds(expected, None)).count();
    assert_eq!((found, cases(HELD_OUT).count()), (150, 156));
}
