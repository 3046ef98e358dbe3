//! Words of a block-list over split text, compared with a search over the whole text.

use std::sync::Arc;

use proptest::prelude::*;
use unicode_normalization::char::canonical_combining_class;

use super::tests::{cut, each, guard, replaced, run, words};
use super::*;
use crate::holdback::{GAP_LIMIT, WordOptions, WordRules, borders, normalize};

fn alike(list: &[&str], options: WordOptions) -> Rules {
    Rules::Words(Arc::new(WordRules::new(list, options).expect("small")))
}

/// The normal form, each character with the place of the one it comes from.
fn normal(text: &str) -> Vec<(char, usize)> {
    let mut all: Vec<(char, usize)> = Vec::new();
    for (at, c) in text.chars().enumerate() {
        normalize(c, false, |c| {
            if c != ' ' || all.last().is_none_or(|last| last.0 != ' ') {
                all.push((c, at));
            }
        });
    }
    let class = |one: &(char, usize)| canonical_combining_class(one.0);
    for marks in all.chunk_by_mut(|a, b| (class(a) == 0) == (class(b) == 0)) {
        marks.sort_by_key(class);
    }
    all
}

/// Where a word is, as characters from and to.
fn occurrences(text: &str, word: &str, whole: bool) -> Vec<(usize, usize)> {
    let (text, word) = (normal(text), normal(word.trim()));
    let border = |at: usize| {
        let left = at.checked_sub(1).map(|left| text[left].0);
        borders(left, text.get(at).map(|one| one.0))
    };
    let inside = |at: usize| text.get(at).is_some_and(|next| next.1 == text[at - 1].1 && is_mark(next.0));
    let is_one = |&at: &usize| {
        let end = at + word.len();
        text[at..end].iter().map(|one| one.0).eq(word.iter().map(|one| one.0))
            && if whole { border(at) && border(end) } else { !inside(end) }
    };
    let last = (text.len() + 1).saturating_sub(word.len());
    let span = |at: usize| {
        let places = text[at..at + word.len()].iter().map(|one| one.1);
        (places.clone().min().unwrap_or(0), places.max().unwrap_or(0) + 1)
    };
    (0..last).filter(is_one).map(span).collect()
}

fn is_mark(c: char) -> bool {
    canonical_combining_class(c) != 0
}

/// Every character of an occurrence is removed; overlapping occurrences are merged.
fn naive_words(text: &str, list: &[&str], whole: bool) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut spans: Vec<_> = list.iter().flat_map(|word| occurrences(text, word, whole)).collect();
    spans.sort_unstable();
    let (mut out, mut at) = (String::new(), 0);
    for (start, end) in spans {
        if start >= at {
            out.extend(&chars[at..start]);
            out.push('*');
        }
        at = at.max(end);
    }
    out.extend(&chars[at..]);
    out
}

#[test]
fn whole_words_have_borders_and_substrings_do_not() {
    assert_eq!(replaced(words(&["spam"], true), &["Spam, spa", "m! spams spam"]), "*, *! spams *");
    assert_eq!(replaced(words(&["spam"], false), &["spams unSPAMmed"]), "*s un*med");
    assert_eq!(replaced(words(&["bad word", "@x"], true), &each("a bad word, @x b@xy")), "a *, * b@xy");
}

#[test]
fn case_is_folded_where_it_changes_the_length() {
    assert_eq!(replaced(words(&["straße"], true), &each("die STRASSE, die Straẞe")), "die *, die *");
    assert_eq!(replaced(words(&["İstanbul"], true), &each("i̇stanbul İSTANBUL istanbul")), "* * istanbul");
    assert_eq!(replaced(words(&["s"], false), &each("ß")), "*");
    assert_eq!(replaced(words(&["ΣΊΣΥΦΟΣ"], true), &["σίσυ", "φος"]), "*");
}

#[test]
fn a_word_is_found_in_disguise_and_the_original_text_leaves_around_it() {
    for (text, expected) in [
        ("a sec\u{200b}r\u{ad}et\u{200d} b", "a *\u{200d} b"),
        ("Ａ ｓｅｃｒｅｔ，Ｂ", "Ａ *，Ｂ"),
        ("the _secret_ is", "the _*_ is"),
        ("\u{feff}top  \t\u{a0}\n secrets", "\u{feff}*"),
        ("TOP\u{2003}SECRETS no\u{308}", "* no\u{308}"),
        ("vie\u{302}\u{323}t vi\u{1ec7}t vi\u{ea}\u{323}t vie\u{323}\u{302}t", "* * * *"),
        ("vie\u{323}t ｖｉê\u{323}ｔ", "vie\u{323}t *"),
        ("s e c r e t, s3cret, s\u{336}ecret", "s e c r e t, s3cret, s\u{336}ecret"),
    ] {
        let list = ["secret", "top secrets", "vi\u{1ec7}t"];
        assert_eq!(replaced(words(&list, true), &[text]), expected, "{text:?}");
        assert_eq!(replaced(words(&list, true), &each(text)), expected, "{text:?}");
    }
}

#[test]
fn letters_that_look_alike_match_by_option() {
    let text = "ѕесrеt ТОР";
    assert_eq!(replaced(words(&["secret", "top"], true), &each(text)), text);
    let options = WordOptions { whole: true, homoglyphs: true };
    assert_eq!(replaced(alike(&["secret", "top"], options), &each(text)), "* *");
}

#[test]
fn a_precomposed_letter_is_not_its_base_letter_in_a_substring() {
    assert_eq!(replaced(words(&["мои", "바보", "cafe"], false), &each("мой 바복 café")), "мой 바복 café");
    assert_eq!(replaced(words(&["мой", "바복"], false), &each("МОИ\u{306} 바보\u{11a8}")), "* *");
}

#[test]
fn what_waits_is_bounded_also_among_invisible_characters() {
    let mut guard = guard(words(&["secret"], true), Action::Replace, Policy::Hold);
    let mut out = String::new();
    let mut most = 0;
    let mut put = |guard: &mut Guard, text: &str| {
        guard.put(text, |made| match made {
            Made::Text { text, .. } | Made::Instead { text, .. } => out.push_str(text),
        });
        most = most.max(guard.held_bytes());
    };
    put(&mut guard, "sec");
    (1..GAP_LIMIT).for_each(|_| put(&mut guard, "\u{200b}"));
    put(&mut guard, "ret, sec");
    (0..3 * GAP_LIMIT).for_each(|_| put(&mut guard, "\u{200b}"));
    put(&mut guard, "ret.");
    assert_eq!(out, format!("*, sec{}ret.", "\u{200b}".repeat(3 * GAP_LIMIT as usize)));
    assert!(most <= 3 * GAP_LIMIT as usize + 3, "{most}");
}

#[test]
fn a_word_without_a_visible_character_is_refused() {
    let refused = WordRules::new(["ok", "\u{200b}\u{ad}"], WordOptions::default()).err();
    assert_eq!(
        refused.map(|error| error.to_string()).as_deref(),
        Some("`words[1]` has no visible character")
    );
}

#[test]
fn text_that_is_released_is_still_part_of_a_match() {
    let mut guard = guard(words(&["secret", "top"], true), Action::Replace, Policy::Hold);
    let mut out = String::new();
    let mut take = |made: Made<'_>| match made {
        Made::Text { text, .. } | Made::Instead { text, .. } => out.push_str(text),
    };
    guard.put("a sec", &mut take);
    guard.release(&mut take);
    assert_eq!(guard.held_bytes(), 0);
    guard.put("ret top", &mut take);
    guard.release(&mut take);
    guard.put(" b", &mut take);
    guard.finish(&mut take);
    assert_eq!(out, "a sec* * b");
    let findings: Vec<_> = guard.take_findings().map(|one| (one.position, one.length, one.exposed)).collect();
    assert_eq!(findings, [(2, 6, 3), (9, 3, 0)]);
}

#[test]
fn marks_belong_to_their_letter_and_han_needs_no_spaces() {
    assert_eq!(replaced(words(&["cafe"], true), &each("cafe cafe\u{301}")), "* cafe\u{301}");
    assert_eq!(replaced(words(&["敏感"], true), &each("这是敏感词")), "这是*词");
    assert_eq!(replaced(words(&["คำ"], true), &each("ถ้อยคำหยาบ")), "ถ้อย*หยาบ");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn words_agree_with_a_search_over_the_whole(
        text in "[aAbsSßİi\u{307}é\u{301}\u{323} \n_敏ａ\u{200b}\u{ad}각ㄱ]{0,14}",
        list in prop::collection::vec("[abs敏각][abssßİi\u{307}é\u{301}\u{323} _敏]{0,2}[ab_敏é\u{323}]?", 1..5),
        cuts in prop::collection::vec(any::<bool>(), 40),
        whole in any::<bool>(),
    ) {
        // A substring may end before a mark, so that there the order of marks counts.
        let simple = |text: &String| if whole { text.clone() } else { text.replace('\u{323}', "") };
        let (text, list) = (simple(&text), list.iter().map(simple).collect::<Vec<_>>());
        let list: Vec<&str> = list.iter().map(String::as_str).collect();
        let out = replaced(words(&list, whole), &cut(&text, &cuts));
        prop_assert_eq!(out, naive_words(&text, &list, whole));
    }

    #[test]
    fn every_policy_reports_the_same_matches(
        text in "[abAB_ ]{0,24}",
        list in prop::collection::vec("[ab]{1,3}( [ab]{1,2})?", 1..5),
        cuts in prop::collection::vec(any::<bool>(), 40),
        whole in any::<bool>(),
    ) {
        let list: Vec<&str> = list.iter().map(String::as_str).collect();
        let pieces = cut(&text, &cuts);
        let mut all = Vec::new();
        for policy in [Policy::Hold, Policy::Optimistic, Policy::Shadow] {
            let (out, findings) = run(&mut guard(words(&list, whole), Action::Drop, policy), &pieces);
            let taken: u64 = findings.iter().map(|one| one.length - one.exposed).sum();
            prop_assert_eq!(out.chars().count() as u64 + taken, text.chars().count() as u64);
            all.push(findings.iter().map(|one| (one.rule, one.position, one.length)).collect::<Vec<_>>());
        }
        prop_assert_eq!(&all[0], &all[1]);
        prop_assert_eq!(&all[0], &all[2]);
    }
}
