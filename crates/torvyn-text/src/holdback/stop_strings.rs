//! Stop strings: text passes up to the first one that completes.

use aho_corasick::automaton::StateID;

use super::automaton::{Automaton, TooLarge};

pub const MOST_STOPS: usize = 16;

#[derive(Debug, thiserror::Error)]
pub enum StopsError {
    #[error("{0} stop strings were given; 1 to {MOST_STOPS} are allowed")]
    Count(usize),
    #[error("stop string {0} is empty")]
    Empty(usize),
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

/// The stop string that completes first wins; of several that complete together, the first in the list.
#[derive(Debug)]
pub struct StopStrings {
    stops: Vec<String>,
    include: bool,
    automaton: Automaton,
    state: StateID,
    buffer: String,
    matched: Option<usize>,
}

impl StopStrings {
    pub fn new(stops: Vec<String>, include: bool) -> Result<Self, StopsError> {
        let automaton = automaton(&stops)?;
        let state = automaton.start();
        Ok(Self { stops, include, automaton, state, buffer: String::new(), matched: None })
    }

    /// Takes text; appends to `out` what can no longer be part of a stop string. After a match nothing passes.
    pub fn put(&mut self, text: &str, out: &mut String) {
        if self.matched.is_some() {
            return;
        }
        for (at, &byte) in text.as_bytes().iter().enumerate() {
            self.state = self.automaton.step(self.state, byte);
            if self.automaton.is_match(self.state)
                && let Some((stop, len)) = self.automaton.matches(self.state).min_by_key(|&(stop, _)| stop)
            {
                self.matched = Some(stop);
                self.buffer.push_str(&text[..=at]);
                let end = self.buffer.len() - if self.include { 0 } else { len };
                out.push_str(&self.buffer[..end]);
                self.buffer.clear();
                return;
            }
        }
        self.let_go(text, out);
    }

    fn let_go(&mut self, text: &str, out: &mut String) {
        let depth = self.automaton.depth(self.state);
        if let Some(sure) = text.len().checked_sub(depth) {
            out.push_str(&self.buffer);
            self.buffer.clear();
            out.push_str(&text[..sure]);
            self.buffer.push_str(&text[sure..]);
        } else {
            self.buffer.push_str(text);
            out.extend(self.buffer.drain(..self.buffer.len() - depth));
        }
    }

    /// Ends the input: the buffered text is sent. The stop strings and a match are kept.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&self.buffer);
        self.buffer.clear();
        self.state = self.automaton.start();
    }

    /// Changes the stop strings for the buffered and the coming text. What can be sent now goes to `out`.
    pub fn replace(&mut self, stops: Vec<String>, out: &mut String) -> Result<(), StopsError> {
        self.automaton = automaton(&stops)?;
        let matched = self.matched.map(|index| self.stops[index].clone());
        self.stops = stops;
        self.state = self.automaton.start();
        if let Some(matched) = matched {
            // A match stays, with the string that matched.
            self.stops.push(matched);
            self.matched = Some(self.stops.len() - 1);
            return Ok(());
        }
        let buffer = std::mem::take(&mut self.buffer);
        self.put(&buffer, out);
        Ok(())
    }

    pub fn matched(&self) -> Option<&str> {
        self.matched.map(|index| self.stops[index].as_str())
    }

    pub fn buffered(&self) -> &str {
        &self.buffer
    }
}

fn automaton(stops: &[String]) -> Result<Automaton, StopsError> {
    if stops.is_empty() || stops.len() > MOST_STOPS {
        return Err(StopsError::Count(stops.len()));
    }
    if let Some(empty) = stops.iter().position(String::is_empty) {
        return Err(StopsError::Empty(empty));
    }
    Ok(Automaton::new(stops)?)
}
