use proptest::prelude::*;

use super::*;

/// Text split at some of its character borders.
fn cut(text: &str, cuts: &[bool]) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for (at, c) in text.chars().enumerate() {
        if cuts.get(at).copied().unwrap_or(false) {
            pieces.push(String::new());
        }
        if let Some(last) = pieces.last_mut() {
            last.push(c);
        }
    }
    pieces
}

/// Every prefix is checked; the first that ends in a stop string decides.
fn naive(text: &str, stops: &[String], include: bool) -> (String, Option<String>) {
    for end in (0..=text.len()).filter(|&end| text.is_char_boundary(end)) {
        if let Some(stop) = stops.iter().find(|stop| text[..end].ends_with(stop.as_str())) {
            let end = if include { end } else { end - stop.len() };
            return (text[..end].to_owned(), Some(stop.clone()));
        }
    }
    (text.to_owned(), None)
}

fn stream(pieces: &[String], stops: &[String], include: bool) -> (String, Option<String>) {
    let mut machine = StopStrings::new(stops.to_vec(), include).expect("valid stops");
    let mut out = String::new();
    for piece in pieces {
        machine.put(piece, &mut out);
    }
    machine.finish(&mut out);
    (out, machine.matched().map(str::to_owned))
}

#[test]
fn only_what_may_become_a_stop_waits() {
    let mut stops = StopStrings::new(vec!["END".into(), "\n\n".into()], false).expect("valid stops");
    let mut out = String::new();
    for (text, sent, held) in [("abc", "abc", ""), ("dE", "abcd", "E"), ("Nx\n", "abcdENx", "\n")] {
        stops.put(text, &mut out);
        assert_eq!((out.as_str(), stops.buffered()), (sent, held));
    }
    stops.put("\nrest", &mut out);
    assert_eq!((out.as_str(), stops.matched()), ("abcdENx", Some("\n\n")));
}

#[test]
fn a_complete_string_that_begins_nothing_longer_does_not_wait() {
    let automaton = Automaton::new(&["abab", "bc"]).expect("small");
    let state = b"abab".iter().fold(automaton.start(), |state, &byte| automaton.step(state, byte));
    assert!(automaton.is_match(state));
    assert_eq!(automaton.depth(state), 2);
}

#[test]
fn large_lists_take_the_compact_automaton() {
    let words: Vec<String> = (0..20_000).map(|n| format!("word{n}")).collect();
    let automaton = Automaton::new(&words).expect("fits");
    let state = b"xword1999".iter().fold(automaton.start(), |state, &byte| automaton.step(state, byte));
    assert!(automaton.is_match(state));
    assert_eq!(automaton.depth(state), 8);
}

#[test]
fn other_stops_look_at_what_has_not_left() {
    let mut stops = StopStrings::new(vec!["stop now".into()], false).expect("valid stops");
    let mut out = String::new();
    stops.put("go stop n", &mut out);
    stops.replace(vec!["stop".into()], &mut out).expect("valid stops");
    assert_eq!((out.as_str(), stops.matched()), ("go ", Some("stop")));
}

proptest! {
    #[test]
    fn stops_agree_with_a_search_over_the_whole(
        text in "[abé\u{1f600}]{0,12}",
        stops in prop::collection::vec("[abé\u{1f600}]{1,4}", 1..5),
        cuts in prop::collection::vec(any::<bool>(), 12),
        include in any::<bool>(),
    ) {
        let pieces = cut(&text, &cuts);
        prop_assert_eq!(stream(&pieces, &stops, include), naive(&text, &stops, include));
    }
}
