//! Hand-made GGUF files: read, truncated, changed.

use super::*;
use proptest::prelude::*;

fn text(value: &str) -> Vec<u8> {
    [&(value.len() as u64).to_le_bytes()[..], value.as_bytes()].concat()
}

fn pair(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&text(key)[..], &kind.to_le_bytes(), value].concat()
}

fn list(kind: u32, count: u64, items: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes()[..], &count.to_le_bytes(), items].concat()
}

fn file(pairs: &[Vec<u8>]) -> Vec<u8> {
    let head = [&b"GGUF"[..], &3u32.to_le_bytes(), &7u64.to_le_bytes(), &(pairs.len() as u64).to_le_bytes()];
    [head.concat(), pairs.concat()].concat()
}

fn small() -> Vec<u8> {
    let tokens = [text("<s>"), text("▁Hi")].concat();
    let merges = [text("a b"), text("c d")].concat();
    let nested = list(ARRAY, 1, &list(4, 2, &[0; 8]));
    file(&[
        pair("general.name", STRING, &text("small")),
        pair("tokenizer.ggml.model", STRING, &text("llama")),
        pair("tokenizer.ggml.tokens", ARRAY, &list(STRING, 2, &tokens)),
        pair("tokenizer.ggml.merges", ARRAY, &list(STRING, 2, &merges)),
        pair("tokenizer.ggml.scores", ARRAY, &list(6, 2, &[0; 8])),
        pair("other.nested", ARRAY, &nested),
        pair("tokenizer.ggml.token_type", ARRAY, &list(5, 2, &[3, 0, 0, 0, 1, 0, 0, 0])),
        pair("tokenizer.ggml.add_space_prefix", BOOL, &[0]),
    ])
}

#[test]
fn tokens_types_and_rules_are_read() {
    let found = read(&small()[..]).expect("it is well formed");
    assert_eq!(found.model, "llama");
    assert_eq!(found.tokens, [b"<s>".to_vec(), "▁Hi".as_bytes().to_vec()]);
    assert_eq!(found.kinds, [3, 1]);
    assert_eq!(found.add_space_prefix, Some(false));
}

#[test]
fn every_cut_is_told_as_what_it_is() {
    let whole = small();
    for end in 0..whole.len() {
        let error = read(&whole[..end]).expect_err("a part was taken for the whole");
        let expected = if end < 4 {
            matches!(error, GgufError::NotGguf)
        } else {
            matches!(error, GgufError::Truncated { at } if at <= end as u64)
        };
        assert!(expected, "{end}: {error}");
    }
}

#[test]
fn a_count_that_is_only_claimed_costs_nothing() {
    let claimed = file(&[pair("tokenizer.ggml.tokens", ARRAY, &list(STRING, MAX_TOKENS, b""))]);
    assert!(matches!(read(&claimed[..]), Err(GgufError::Truncated { .. })));
    let beyond = file(&[pair("tokenizer.ggml.tokens", ARRAY, &list(STRING, u64::MAX, b""))]);
    assert!(matches!(read(&beyond[..]), Err(GgufError::TooLarge { value: u64::MAX, .. })));
}

#[test]
fn lists_in_lists_have_an_end() {
    let mut deep = list(4, 0, b"");
    for _ in 0..50 {
        deep = list(ARRAY, 1, &deep);
    }
    assert!(matches!(read(&file(&[pair("deep", ARRAY, &deep)])[..]), Err(GgufError::BadType { .. })));
}

#[test]
fn what_has_no_tokenizer_says_what_is_missing() {
    let bare = file(&[pair("general.name", STRING, &text("bare"))]);
    assert!(matches!(read(&bare[..]), Err(GgufError::Missing { key: "tokenizer.ggml.model" })));
    let wrong = file(&[pair("tokenizer.ggml.model", 4, &[0; 4])]);
    assert!(matches!(read(&wrong[..]), Err(GgufError::WrongType { .. })));
    assert!(matches!(read(&b"GGUF\0\0\0\x03\0\0\0\0"[..]), Err(GgufError::Version { .. })));
}

proptest! {
    #[test]
    fn a_changed_file_is_read_or_refused(at in 0usize..400, byte: u8) {
        let mut changed = small();
        let at = at % changed.len();
        changed[at] = byte;
        let _ = read(&changed[..]);
    }
}
