//! The law on a vocabulary of every byte and a few words, under every rule a vocabulary can have.

use super::*;
use crate::vocabulary::Table;
use proptest::prelude::*;

const PLAIN: Policies = Policies {
    skip_special: true,
    tail: Bad::Replace,
    bad_bytes: Bad::Replace,
    unknown: Unknown::Error,
    graphemes: false,
    continues: false,
};

fn entries() -> Vec<Vec<u8>> {
    let words = [" a", "  ", "é", "\u{301}", "👩", "\u{200d}", ""];
    let bytes = (0u8..=255).map(|byte| vec![byte]);
    bytes.chain(words.iter().map(|word| word.as_bytes().to_vec())).collect()
}

fn vocabulary(start: Option<Start>, strip: u32, each: bool) -> Arc<Vocabulary> {
    let entries = entries();
    let mut made = Vocabulary::new(entries.iter().map(|entry| Some(&entry[..]))).expect("it is small");
    if let Some(until) = start {
        let mut first = Table::default();
        for entry in &entries {
            assert!(first.push(entry.strip_prefix(b" ").unwrap_or(entry)));
        }
        assert!(made.start_with(first, until));
    }
    (made.strip, made.replace_each_byte) = (strip, each);
    assert!(made.mark_special(0));
    made.special_separates = each;
    Arc::new(made)
}

fn text(streamer: &mut Streamer, ids: &[i64], sizes: &[usize]) -> String {
    let mut out = String::new();
    let mut rest = ids;
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at((*size).min(rest.len()));
        match piece {
            [id] if streamer.plain(*id).is_some() => out.push_str(streamer.plain(*id).unwrap_or_default()),
            _ => streamer.put_ids(piece, &mut out).expect("all ids are known"),
        }
        rest = after;
    }
    streamer.finish(&mut out).expect("the tail is replaced");
    assert_eq!(streamer.held_bytes(), 0);
    out
}

#[test]
fn a_failed_call_is_as_if_it_had_not_been() {
    let policies = Policies { bad_bytes: Bad::Error, graphemes: true, ..PLAIN };
    let mut streamer = Streamer::new(Some(vocabulary(Some(Start::Token), 1, false)), policies);
    let mut out = String::new();
    for wrong in [vec![32, 97, 0xff], vec![256, -1], vec![0xe3, 97], vec![9_999]] {
        assert!(streamer.put_ids(&wrong, &mut out).is_err());
        assert_eq!((out.as_str(), streamer.held_bytes()), ("", 0));
    }
    assert_eq!(text(&mut streamer, &[256, 256], &[1]), "a a");
}

#[test]
fn a_skipped_special_token_separates_bytes_only_where_the_vocabulary_says_so() {
    let ids = [0xc3, 0, 0xa9];
    for (separates, expected) in [(false, "é"), (true, "\u{fffd}\u{fffd}")] {
        let mut streamer = Streamer::new(Some(vocabulary(None, 0, separates)), PLAIN);
        assert_eq!(text(&mut streamer, &ids, &[1]), expected);
    }
}

#[test]
fn the_start_of_a_text_lasts_as_long_as_the_vocabulary_says() {
    let spaces = [32, 32, 256];
    let expected = [(Start::Token, "  a"), (Start::Taken, "  a"), (Start::Text, "a")];
    for (until, expected) in expected {
        let mut streamer = Streamer::new(Some(vocabulary(Some(until), 0, false)), PLAIN);
        assert_eq!(text(&mut streamer, &spaces, &[1]), expected);
    }
}

fn starts() -> impl Strategy<Value = Option<Start>> {
    prop::sample::select(vec![None, Some(Start::Token), Some(Start::Taken), Some(Start::Text)])
}

proptest! {
    #[test]
    fn every_split_gives_the_text_of_one_call(
        ids in prop::collection::vec(0i64..263, 0..40),
        sizes in prop::collection::vec(1usize..5, 1..8),
        start in starts(),
        strip in 0u32..3,
        each: bool,
        graphemes: bool,
        continues: bool,
    ) {
        let policies = Policies { graphemes, continues, ..PLAIN };
        let shared = vocabulary(start, strip, each);
        let whole = text(&mut Streamer::new(Some(shared.clone()), Policies { graphemes: false, ..policies }), &ids, &[99]);
        let mut streamer = Streamer::new(Some(shared), policies);
        prop_assert_eq!(text(&mut streamer, &ids, &sizes), whole.clone());
        // Reset after the end.
        prop_assert_eq!(text(&mut streamer, &ids, &sizes), whole);
    }
}
