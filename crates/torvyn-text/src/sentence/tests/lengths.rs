//! Lengths, flushing, and the simple mode.

use super::*;

fn simple(tokens: &[&str]) -> Vec<String> {
    split_pieces(Options { mode: Mode::Simple, ..Options::default() }, tokens.iter().copied())
}

#[test]
fn a_short_sentence_goes_on_into_the_next() {
    let options = Options { first_min: 4, min: 10, ..Options::default() };
    let sentences = split_pieces(options, ["Hi. Yes. No. It is so. Ok. 短。これはとても長い文です。"]);
    assert_eq!(sentences, ["Hi. Yes. ", "No. It is so. ", "Ok. 短。これはとても長い文です。"]);
}

#[test]
fn trailing_white_space_does_not_make_a_sentence_long_enough() {
    let options = Options { first_min: 4, ..Options::default() };
    assert_eq!(split_pieces(options, ["Hi.     Go. On."]), ["Hi.     Go. ", "On."]);
}

#[test]
fn a_long_sentence_is_cut_at_its_last_white_space() {
    let options = Options { max: 10, ..Options::default() };
    assert_eq!(split_pieces(options, ["one two three four"]), ["one two ", "three four"]);
}

#[test]
fn a_long_word_is_cut_hard() {
    let options = Options { max: 4, ..Options::default() };
    assert_eq!(split_pieces(options, ["ééééééé ok"]), ["éééé", "ééé ", "ok"]);
    assert_eq!(split_pieces(options, ["Hello."]), ["Hell", "o."]);
}

#[test]
fn max_wins_over_min() {
    let options = Options { first_min: 100, min: 100, max: 5, ..Options::default() };
    assert!(
        split_pieces(options, ["Yes. No. Dr. <tag attribute> `code code`"])
            .iter()
            .all(|s| s.chars().count() <= 5)
    );
}

#[test]
fn idle_time_lets_everything_held_go() {
    let mut splitter = Splitter::new(Options::default());
    splitter.put("Wait. The U.S. Th", |_| {});
    assert_eq!(splitter.flush_idle().as_deref(), Some("The U.S. Th"));
    assert_eq!(splitter.flush_idle(), None);
    let mut seen = Vec::new();
    splitter.put("e end. Next", |sentence| seen.push(sentence.to_owned()));
    assert_eq!(seen, ["e end. "]);
}

#[test]
fn code_that_is_open_stays_open_over_an_idle_flush() {
    let mut splitter = Splitter::new(Options::default());
    splitter.put("```\na. B", |_| {});
    splitter.flush_idle();
    splitter.put(". C. D\n```\n", |sentence| panic!("{sentence:?} was cut out of code"));
    assert_eq!(splitter.finish().as_deref(), Some(". C. D\n```\n"));
}

#[test]
fn clear_and_finish_make_the_splitter_new() {
    let options = Options { first_min: 8, ..Options::default() };
    let mut splitter = Splitter::new(options);
    splitter.put("```", |_| {});
    splitter.clear();
    assert_eq!((splitter.held_bytes(), splitter.finish()), (0, None));
    for _ in 0..2 {
        let mut seen = Vec::new();
        splitter.put("Hi. There. You. Go", |sentence| seen.push(sentence.to_owned()));
        assert_eq!(seen, ["Hi. There. ", "You. "]);
        assert_eq!(splitter.finish().as_deref(), Some("Go"));
    }
}

#[test]
fn simple_mode_ends_a_sentence_with_the_token_that_ends_in_a_stop() {
    assert_eq!(simple(&["Hello", " Dr", ". ", "Smith", "!"]), ["Hello Dr.", "Smith!"]);
    assert_eq!(simple(&["a.b", " c? d", " e", "?\n"]), ["a.b c? d e?"]);
}

#[test]
fn simple_mode_emits_nothing_for_a_blank_rest() {
    assert_eq!(simple(&["Yes.", " ", "\n"]), ["Yes."]);
    assert_eq!(simple(&["\u{3000} rest "]), ["rest"]);
    assert_eq!(simple(&[]), Vec::<String>::new());
}

#[test]
fn simple_mode_holds_no_more_than_the_sentence() {
    let mut splitter = Splitter::new(Options { mode: Mode::Simple, ..Options::default() });
    splitter.put("abc", |_| {});
    assert_eq!(splitter.held_bytes(), 3);
    splitter.put(".", |_| {});
    assert_eq!(splitter.held_bytes(), 0);
}
