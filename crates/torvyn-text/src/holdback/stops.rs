//! Stop strings: text passes up to the first of them that completes.

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

/// The stop that completes first wins; of several that complete together, the first of the list.
#[derive(Debug)]
pub struct StopStrings {
    stops: Vec<String>,
    include: bool,
    automaton: Automaton,
    state: StateID,
    held: String,
    matched: Option<usize>,
}

impl StopStrings {
    pub fn new(stops: Vec<String>, include: bool) -> Result<Self, StopsError> {
        let automaton = automaton(&stops)?;
        let state = automaton.start();
        Ok(Self { stops, include, automaton, state, held: String::new(), matched: None })
    }

    /// Takes text; puts into `out` what can no longer be part of a stop. After a match nothing passes.
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
                self.held.push_str(&text[..=at]);
                let end = self.held.len() - if self.include { 0 } else { len };
                out.push_str(&self.held[..end]);
                self.held.clear();
                return;
            }
        }
        self.let_go(text, out);
    }

    fn let_go(&mut self, text: &str, out: &mut String) {
        let depth = self.automaton.depth(self.state);
        if let Some(sure) = text.len().checked_sub(depth) {
            out.push_str(&self.held);
            self.held.clear();
            out.push_str(&text[..sure]);
            self.held.push_str(&text[sure..]);
        } else {
            self.held.push_str(text);
            out.extend(self.held.drain(..self.held.len() - depth));
        }
    }

    /// The input is over: what was held is text after all. The stops are kept, and what has matched stays known.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&self.held);
        self.held.clear();
        self.state = self.automaton.start();
    }

    /// Other stops for the text that has not been released. What is released by them goes to `out`.
    pub fn replace(&mut self, stops: Vec<String>, out: &mut String) -> Result<(), StopsError> {
        self.automaton = automaton(&stops)?;
        let matched = self.matched.map(|index| self.stops[index].clone());
        self.stops = stops;
        self.state = self.automaton.start();
        if let Some(matched) = matched {
            // What has stopped stays stopped, by the string it was.
            self.stops.push(matched);
            self.matched = Some(self.stops.len() - 1);
            return Ok(());
        }
        let held = std::mem::take(&mut self.held);
        self.put(&held, out);
        Ok(())
    }

    pub fn matched(&self) -> Option<&str> {
        self.matched.map(|index| self.stops[index].as_str())
    }

    pub fn held(&self) -> &str {
        &self.held
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
