//! The splitter's behaviour, case by case, and its laws for every text and every split.

mod cases;
mod golden;
mod languages;
mod lateness;
mod laws;
mod lengths;

use super::{Mode, Options, Splitter};

/// The sentences of pieces put one after another, the rest included.
fn split_pieces<'a>(options: Options, pieces: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut splitter = Splitter::new(options);
    let mut sentences = Vec::new();
    for piece in pieces {
        splitter.put(piece, |sentence| sentences.push(sentence.to_owned()));
    }
    sentences.extend(splitter.finish());
    sentences
}

fn split(text: &str) -> Vec<String> {
    split_pieces(Options::default(), [text])
}

/// `|` stands for every boundary that is expected.
#[track_caller]
fn check(marked: &str) {
    let expected: Vec<&str> = marked.split('|').collect();
    assert_eq!(split(&expected.concat()), expected);
}
