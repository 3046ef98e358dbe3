//! A candidate: text with the shape of a rule, its context, and the verdict of a check.

/// How many characters before a candidate a check may read.
pub const LEFT_CHARS: usize = 32;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// A match, from and to these bytes of its text.
    Accept(usize, usize),
    Reject,
    /// The text after it decides, and has not arrived.
    Wait,
}

/// Whether a candidate is a match: check digits, neighbours and the like. It must decide when the input is over.
pub type Check = fn(&Candidate<'_>) -> Judgement;

/// Whether a candidate may begin after these two characters, the nearer one first.
pub type Begins = fn(Option<char>, Option<char>) -> bool;

#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// The text before it, in two parts: what has left the view, and what is in it.
    pub far: &'a str,
    pub near: &'a str,
    pub text: &'a str,
    /// The text after it, as far as it has arrived.
    pub right: &'a str,
    /// Nothing comes after `right`.
    pub over: bool,
}

impl Candidate<'_> {
    /// The whole text is a match.
    pub fn accept(&self) -> Judgement {
        Judgement::Accept(0, self.text.len())
    }

    /// The characters before it, the nearest first.
    pub fn left(&self) -> impl Iterator<Item = char> + '_ {
        self.near.chars().rev().chain(self.far.chars().rev()).take(LEFT_CHARS)
    }

    /// The characters before it, in lower case and in the order of the text.
    pub fn left_lowercase(&self) -> String {
        let mut left: Vec<char> = self.left().collect();
        left.reverse();
        left.into_iter().flat_map(char::to_lowercase).collect()
    }

    /// The two characters before it, the nearer one first.
    pub fn before(&self) -> (Option<char>, Option<char>) {
        let mut left = self.left();
        (left.next(), left.next())
    }

    /// The characters after it; `None` for one that has not arrived, `Some(None)` for the end of the input.
    pub fn after(&self, at: usize) -> Option<Option<char>> {
        match self.right.chars().nth(at) {
            Some(c) => Some(Some(c)),
            None if self.over => Some(None),
            None => None,
        }
    }
}

/// The last characters that have left the view.
#[derive(Debug, Clone, Default)]
pub struct LeftContext(String);

impl LeftContext {
    const MOST_BYTES: usize = 512;

    pub fn push(&mut self, gone: &str) {
        self.0.push_str(gone);
        if self.0.len() > Self::MOST_BYTES {
            let keep = self.0.char_indices().rev().nth(LEFT_CHARS - 1).map_or(0, |(at, _)| at);
            self.0.drain(..keep);
        }
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }
}
