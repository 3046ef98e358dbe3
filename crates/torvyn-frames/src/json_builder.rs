//! What a parser of partial JSON reports, and its errors.

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PartialError {
    #[error("invalid JSON at byte {at}")]
    Malformed { at: usize },
    #[error("nested more than {limit} deep")]
    TooDeep { limit: usize },
    #[error("ended too early, at byte {at}")]
    Unfinished { at: usize },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar<'a> {
    Null,
    Truth(bool),
    /// As written.
    Number(&'a str),
}

/// Builds a value from the parser's events.
pub trait Build {
    fn open(&mut self, is_object: bool);
    fn close(&mut self);
    /// The next value of the open object belongs to this key.
    fn key(&mut self, key: &str);
    fn scalar(&mut self, scalar: Scalar<'_>);
    fn begin_text(&mut self);
    fn text(&mut self, part: &str);
    fn end_text(&mut self);
}
