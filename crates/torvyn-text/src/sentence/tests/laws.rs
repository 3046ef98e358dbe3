//! Laws: nothing lost, the same sentences for every split, bounded memory, constant cost.

use super::*;
use crate::sentence::Language;
use proptest::prelude::*;

#[rustfmt::skip]
const PARTS: &[&str] = &[
    ".", "!", "?", "...", "…", "。", "！", "？", "।", "．", " ", " ", " ", "\n", "\n\n", "\t", "\u{3000}",
    "\u{2029}", "\"", "'", "(", ")", "「", "」", "“", "”", "*", "<", ">", "</b>", "<b>", "`", "``", "```", "Dr",
    "e.g", "U.S", "No", "etc", "p.m", "J", "I", "1", "12", "3.14", "The", "He", "she", "EST", "Word", "word",
    "你好", "はい", "と", "😀", "❤️", "-", "—", "#", ",", "é", "example.com", "สวัสดี",
    "[1]", "[", "]", "[...]", "1.", "2.", "2.)", "1)", "b)", "•", "⁃", "## ", "**", "«", " »", "է", ":", ";", "ναι",
    "der", "und", "die", "Mai", "XII", "z", "B", "т", "д", "Она", "слово", "Yahoo!", "№", "។", "۔", "¹",
];

/// Text rich in what the rules depend on.
fn text() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PARTS), 0..60).prop_map(|parts| parts.concat())
}

fn options() -> impl Strategy<Value = Options> {
    let max = prop_oneof![Just(0usize), 1usize..30];
    let language = prop::sample::select(vec!["auto", "en", "de", "sk", "ru", "hy"]);
    (0usize..12, 0usize..12, max, language).prop_map(|(first_min, min, max, language)| Options {
        mode: Mode::Normal,
        first_min,
        min,
        max,
        language: Language::from_code(language),
    })
}

fn pieces<'a>(text: &'a str, sizes: &[usize]) -> Vec<&'a str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    for &size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let end = rest.char_indices().nth(size).map_or(rest.len(), |(index, _)| index);
        pieces.push(&rest[..end]);
        rest = &rest[end..];
    }
    pieces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn outputs_joined_are_the_input(text in text(), options in options()) {
        prop_assert_eq!(split_pieces(options, [text.as_str()]).concat(), text);
    }

    #[test]
    fn any_text_at_all_comes_out_whole(text in any::<String>(), options in options()) {
        prop_assert_eq!(split_pieces(options, [text.as_str()]).concat(), text);
    }

    #[test]
    fn every_split_gives_the_same_sentences(
        text in text(), options in options(), sizes in prop::collection::vec(1usize..7, 1..9),
    ) {
        let whole = split_pieces(options, [text.as_str()]);
        prop_assert_eq!(split_pieces(options, pieces(&text, &sizes)), whole);
    }

    #[test]
    fn lengths_are_kept(text in text(), options in options()) {
        let sentences = split_pieces(options, [text.as_str()]);
        let (_, complete) = sentences.split_last().map_or((None, &[][..]), |(last, rest)| (Some(last), rest));
        for (index, sentence) in complete.iter().enumerate() {
            let length = sentence.trim_end().chars().count();
            let least = if index == 0 { options.first_min } else { options.min };
            prop_assert!(options.max > 0 || length >= least, "{sentence:?} is shorter than {least}");
            prop_assert!(options.max > 0 || sentence.chars().any(|c| !c.is_whitespace()));
        }
        prop_assert!(options.max == 0 || sentences.iter().all(|s| s.chars().count() <= options.max));
    }

    #[test]
    fn no_more_is_held_than_twice_the_longest_sentence(text in text(), options in options()) {
        let mut splitter = Splitter::new(options);
        let (mut longest, mut peak) = (0, 0);
        for piece in pieces(&text, &[1]) {
            splitter.put(piece, |sentence| longest = longest.max(sentence.len()));
            peak = peak.max(splitter.held_bytes());
        }
        longest = longest.max(splitter.finish().map_or(0, |last| last.len()));
        prop_assert!(peak <= 2 * longest, "{peak} bytes held for a longest sentence of {longest}");
    }

    #[test]
    fn idle_flushes_lose_nothing(text in text(), options in options(), every in 1usize..9) {
        let mut splitter = Splitter::new(options);
        let mut joined = String::new();
        for piece in pieces(&text, &[every]) {
            splitter.put(piece, |sentence| joined.push_str(sentence));
            joined.extend(splitter.flush_idle());
            prop_assert_eq!(splitter.held_bytes(), 0);
        }
        prop_assert_eq!(joined, text);
    }

    #[test]
    fn simple_mode_keeps_every_visible_character(tokens in prop::collection::vec("[a-c .!?\\n]{0,4}", 0..20)) {
        let options = Options { mode: Mode::Simple, ..Options::default() };
        let visible = |text: &str| text.split_whitespace().collect::<String>();
        let sentences = split_pieces(options, tokens.iter().map(String::as_str));
        prop_assert!(sentences.iter().all(|s| s.trim() == s && !s.is_empty()));
        prop_assert_eq!(visible(&sentences.concat()), visible(&tokens.concat()));
    }
}

/// At most this many steps per character: one to read it, one to keep it.
const STEPS_A_CHARACTER: usize = 2;

#[test]
fn the_cost_of_a_character_is_flat_without_a_boundary() {
    for token in [
        "word ",
        "a.b",
        "....",
        "<b",
        "「",
        "(",
        "`x ",
        "e.g. ",
        "1\n",
        "สวัสดี",
        "\"a ",
        "- ",
        "der 3. x ",
        "a.[1",
        "und\n",
        ". ",
    ] {
        let mut splitter = Splitter::new(Options::default());
        let mut characters = 0;
        for _ in 0..100_000 {
            let before = splitter.steps();
            splitter.put(token, |_| {});
            characters += token.chars().count();
            assert!(splitter.steps() - before <= STEPS_A_CHARACTER * token.chars().count(), "{token:?}");
        }
        assert!(splitter.steps() <= STEPS_A_CHARACTER * characters);
    }
}

#[test]
fn a_cut_moves_each_character_once_at_most() {
    for (max, text) in [
        (100, format!("a {} ", "b".repeat(90))),
        (0, "Hello. Bob. The U.S. The end. ".to_owned()),
        (7, "J. R. word ((((( 12. x".to_owned()),
    ] {
        let text = text.repeat(1_000);
        let mut splitter = Splitter::new(Options { max, ..Options::default() });
        let mut sentences = 0;
        splitter.put(&text, |_| sentences += 1);
        assert!(sentences >= 900);
        assert!(splitter.moved_bytes() > 0);
        assert!(splitter.moved_bytes() <= text.len());
    }
}

#[test]
fn each_word_is_counted_once_at_most_to_detect_the_language() {
    for text in ["der 3. und ", "Word. ", "x.[1] The 12. Mai. ", "Title\nText 5. y"] {
        let text = text.repeat(1_000);
        let mut splitter = Splitter::new(Options::default());
        splitter.put(&text, |_| {});
        assert!(splitter.counted_bytes() <= text.len(), "{} of {}", splitter.counted_bytes(), text.len());
    }
}
