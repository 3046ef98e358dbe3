use std::sync::{Arc, LazyLock};

use proptest::prelude::*;

use super::*;
use crate::holdback::{WordOptions, WordRules};

pub(super) fn words(list: &[&str], whole: bool) -> Rules {
    let options = WordOptions { whole, homoglyphs: false };
    Rules::Words(Arc::new(WordRules::new(list, options).expect("small")))
}

fn patterns(list: &[&str], window: u64) -> Rules {
    Rules::Patterns(Arc::new(Patterns::new(list, window).expect("valid")))
}

fn redact() -> Rules {
    static ALL: LazyLock<Arc<Patterns>> =
        LazyLock::new(|| Arc::new(redact_patterns(&KINDS).expect("known").expect("valid")));
    Rules::Patterns(ALL.clone())
}

pub(super) fn guard(rules: Rules, action: Action, policy: Policy) -> Guard {
    let replacements = vec!["*".to_owned()];
    Guard::new(Arc::new(Settings { rules, action, policy, replacements }))
}

pub(super) fn run(guard: &mut Guard, pieces: &[&str]) -> (String, Vec<Finding>) {
    let mut out = String::new();
    let mut take = |made: Made<'_>| match made {
        Made::Text { text, .. } | Made::Instead { text, .. } => out.push_str(text),
    };
    pieces.iter().for_each(|piece| {
        guard.put(piece, &mut take);
    });
    guard.finish(&mut take);
    (out, guard.take_findings().collect())
}

pub(super) fn replaced(rules: Rules, pieces: &[&str]) -> String {
    run(&mut guard(rules, Action::Replace, Policy::Hold), pieces).0
}

pub(super) fn each(text: &str) -> Vec<&str> {
    text.split("").filter(|piece| !piece.is_empty()).collect()
}

#[test]
fn a_chain_of_matches_keeps_no_text() {
    let mut guard = guard(words(&["aa"], false), Action::Replace, Policy::Hold);
    let mut out = String::new();
    for _ in 0..10_000 {
        guard.put("a", |made| {
            if let Made::Text { text, .. } = made {
                out.push_str(text)
            }
        });
        assert!(guard.held_bytes() <= 2);
    }
    assert_eq!(out, "");
    let findings = run(&mut guard, &[]).1;
    assert_eq!(findings, [Finding { rule: 0, position: 0, length: 10_000, exposed: 0 }]);
}

#[test]
fn block_lets_out_what_is_before_the_match() {
    let mut guard = guard(words(&["secret"], true), Action::Block, Policy::Hold);
    assert_eq!(run(&mut guard, &["all of the sec", "ret", " is", " out"]).0, "all of the ");
    assert_eq!(guard.blocked(), Some(0));
    assert_eq!(run(&mut guard, &["more"]).0, "");
}

#[test]
fn optimistic_counts_what_was_exposed() {
    let mut guard = guard(words(&["secret"], false), Action::Replace, Policy::Optimistic);
    let (out, findings) = run(&mut guard, &["my sec", "ret is"]);
    assert_eq!(out, "my sec* is");
    assert_eq!(findings, [Finding { rule: 0, position: 3, length: 6, exposed: 3 }]);
}

#[test]
fn shadow_changes_nothing_and_finds_the_same() {
    let text = ["my sec", "ret a", "t a@b.c", "om ok"];
    let mut shadow = guard(patterns(&["secret", r"\w+@\w+\.com"], 20), Action::Block, Policy::Shadow);
    let (out, findings) = run(&mut shadow, &text);
    assert_eq!(out, text.concat());
    let facts: Vec<_> = findings.iter().map(|found| (found.rule, found.position, found.exposed)).collect();
    assert_eq!(facts, [(0, 3, 6), (1, 13, 7)]);
}

#[test]
fn patterns_prefer_what_the_expression_prefers() {
    assert_eq!(replaced(patterns(&["<.*?>"], 50), &each("<a> text <b>")), "* text *");
    assert_eq!(replaced(patterns(&["ab|abcd"], 50), &each("abcd")), "*cd");
    assert_eq!(replaced(patterns(&[r"\bécole\b"], 50), &each("une école, écoles")), "une *, écoles");
    assert_eq!(replaced(patterns(&["(?m)^#.*$"], 50), &each("a # b\n# c\nd")), "a # b\n*\nd");
}

#[test]
fn a_match_that_goes_on_is_taken_out_whole_in_little_room() {
    let mut guard = guard(patterns(&["secret.*"], 10), Action::Replace, Policy::Hold);
    let mut out = String::new();
    let mut take = |made: Made<'_>| match made {
        Made::Text { text, .. } | Made::Instead { text, .. } => out.push_str(text),
    };
    guard.put("a secret", &mut take);
    for _ in 0..1000 {
        guard.put("xyz", &mut take);
        assert!(guard.held_bytes() <= 64);
    }
    guard.put("\nb", &mut take);
    guard.finish(&mut take);
    assert_eq!(out, "a *\nb");
}

#[test]
fn text_that_a_long_beginning_hides_is_found() {
    // The first x begins a match that would be too long; the one that fits begins at the second.
    let text = format!("x{}x12z", "-".repeat(200));
    assert_eq!(replaced(patterns(&["x[^z]*z"], 8), &each(&text)), format!("x{}*", "-".repeat(200)));
}

#[test]
fn patterns_that_cannot_be_kept_are_refused() {
    let refused = |pattern: &str| Patterns::new(&["ok", pattern], 10).err().map(|error| error.to_string());
    assert!(refused("(?=a)b").is_some_and(|reason| reason.contains("look-around")));
    assert!(refused(r"(a)\1").is_some_and(|reason| reason.contains("backreferences")));
    assert!(refused("a*").is_some_and(|reason| reason.contains("empty")));
    assert!(refused(r"(?:\w{100}){100}").is_some_and(|reason| reason.contains("bytes")));
}

#[test]
fn personal_data_is_recognised_by_shape_and_check_digits() {
    for (text, expected) in [
        ("mail jo.doe+x@mail.example.co.uk, now", "mail *, now"),
        ("card 4111 1111 1111 1111 exp", "card * exp"),
        ("not 4111 1111 1111 1112 one", "not 4111 1111 1111 1112 one"),
        ("DE89 3704 0044 0532 0130 00 is it", "* is it"),
        ("GB29 NWBK 6016 1331 9268 19 is it", "* is it"),
        ("GB28 NWBK 6016 1331 9268 19 is not", "GB28 NWBK 6016 1331 9268 19 is not"),
        ("call +49 (30) 1234-5678.", "call *."),
        ("call 555-867-5309 or 01 23 45 67 89", "call * or *"),
        ("on 01-02-2024 or 2024-01-02 10:00", "on 01-02-2024 or 2024-01-02 10:00"),
        ("key sk-abcdefghijklmnopqrstuvwx!", "key *!"),
        ("AKIAIOSFODNN7EXAMPLE and risk-taking-is-a-long-word", "* and risk-taking-is-a-long-word"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl done", "* done"),
    ] {
        assert_eq!(replaced(redact(), &each(text)), expected, "{text}");
    }
}

#[test]
fn a_long_token_is_redacted_to_its_end() {
    let token = format!("eyJhbGciOiJI.eyJ{}.{}", "x".repeat(3000), "y".repeat(3000));
    assert_eq!(replaced(redact(), &each(&format!("a {token} b"))), "a * b");
}

pub(super) fn cut<'a>(text: &'a str, cuts: &[bool]) -> Vec<&'a str> {
    let mut borders: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    borders.retain(|&at| at > 0 && cuts.get(at).copied().unwrap_or(false));
    borders.push(text.len());
    let mut from = 0;
    borders.into_iter().map(|to| &text[std::mem::replace(&mut from, to)..to]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn every_cut_gives_what_the_whole_gives(
        text in "[ab@.x1 -]{0,40}",
        cuts in prop::collection::vec(any::<bool>(), 40),
        block in any::<bool>(),
    ) {
        let action = if block { Action::Block } else { Action::Replace };
        for rules in [
            patterns(&["ab+a", r"\bx.*?1", "[^ ]@[a-z]{2}", "b(?:1|--)+"], 4),
            words(&["ab", "ba b", "x1", "-"], true),
            redact(),
        ] {
            let whole = run(&mut guard(rules.clone(), action, Policy::Hold), &[&text]);
            let cut = run(&mut guard(rules, action, Policy::Hold), &cut(&text, &cuts));
            prop_assert_eq!(whole, cut);
        }
    }

    #[test]
    fn every_cut_of_personal_data_gives_what_the_whole_gives(
        words in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..8),
        cuts in prop::collection::vec(any::<bool>(), 300),
    ) {
        let text = words.concat();
        let whole = run(&mut guard(redact(), Action::Replace, Policy::Hold), &[&text]);
        let cut = run(&mut guard(redact(), Action::Replace, Policy::Hold), &cut(&text, &cuts));
        prop_assert_eq!(whole, cut);
    }
}

/// Data of every kind and what may stand around it; side by side they make new shapes.
#[rustfmt::skip]
const PIECES: &[&str] = &[
    "4111 1111 1111 1111", "4111111111111111", " 12/27", "0.", ".5", " 1111", "+49 30 901820", "212-555-0142",
    "06 39 98 01 02", " ", "-", "call ", "order ", "x", "1", ":", "//", "@", ".", "jo@example.com", "用户@例子.中国",
    "谢谢", "DE89 3704 0044 0532 0130 00", " is", "203.0.113.9", "v", "fe80::1ff:fe23:4567:890a", "123-45-6789",
    "ssn ", "https://u:p", "@host/", "sk-0123456789abcdefABCDEF", "eyJhbGciOiJI.eyJzdWIi.c2ln",
    "-----BEGIN KEY-----\nRkFLRUZBS0VGQUtFRkFLRUZB", "\nRkFL", "\n-----END KEY-----", "\u{a0}", "\n",
];
