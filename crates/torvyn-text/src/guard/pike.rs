//! Pattern matching over text in pieces: the states of an automaton, in order of preference, with where each began.
//!
//! Of several matches the leftmost counts, and of those from one place the one that the expression prefers, as in a
//! search over the whole text. What was begun longest ago is where the text must wait. A beginning that has led to no
//! match within twice the window is given up; whatever fits into the window is found.

use std::sync::Arc;

use regex_automata::nfa::thompson::State;
use regex_automata::util::primitives::StateID;

use super::around::Around;
use super::pattern::Patterns;
use super::{Found, View};

/// A place in the text: in bytes of the view, and in characters of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Place {
    byte: usize,
    char: u64,
}

#[derive(Debug, Clone, Copy)]
struct Thread {
    state: StateID,
    start: Place,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    start: Place,
    end: Place,
    rule: u32,
}

#[derive(Debug, Clone)]
pub struct PatternSearch {
    rules: Arc<Patterns>,
    /// How far the text was read.
    at: Place,
    threads: Vec<Thread>,
    spare: Vec<Thread>,
    /// Which states are in the list that is being made, by its number.
    seen: Vec<u32>,
    list: u32,
    stack: Vec<StateID>,
    /// Some thread waits to see the next character.
    waits: bool,
    /// The best match so far; threads before it may still find a better one.
    pending: Option<Pending>,
    /// The beginning of the pending match has been told already.
    told: bool,
}

impl PatternSearch {
    pub fn new(rules: Arc<Patterns>) -> Self {
        let seen = vec![0; rules.nfa.states().len()];
        Self {
            rules,
            at: Place::default(),
            threads: Vec::new(),
            spare: Vec::new(),
            seen,
            list: 0,
            stack: Vec::new(),
            waits: false,
            pending: None,
            told: false,
        }
    }

    pub fn advance(&mut self, view: View<'_>, over: bool, found: &mut Vec<Found>) -> usize {
        let rules = Arc::clone(&self.rules);
        loop {
            if self.threads.is_empty() {
                if self.pending.is_some() {
                    self.conclude(found);
                }
                self.skip(&rules, view);
            }
            let next = view.text[self.at.byte..].chars().next();
            if next.is_none() && !over {
                break;
            }
            if self.waits {
                self.look(&rules, view, next);
            }
            let Some(c) = next else {
                self.threads.clear();
                if self.pending.is_none() {
                    break;
                }
                continue;
            };
            if self.pending.is_none() {
                self.begin(&rules, view, c);
            }
            self.read(&rules, view, c);
            self.give_up(view, found);
        }
        let first = self.threads.first().map_or(self.at.byte, |thread| thread.start.byte);
        self.pending.map_or(first, |pending| pending.start.byte.min(first))
    }

    /// Passes over text in which no match begins.
    fn skip(&mut self, rules: &Patterns, view: View<'_>) {
        let rest = &view.text.as_bytes()[self.at.byte..];
        let len = rest.iter().position(|&byte| rules.first[usize::from(byte)]).unwrap_or(rest.len());
        // The bytes inside a character begin nothing, so that this is the border of one.
        let passed = &view.text[self.at.byte..self.at.byte + len];
        self.at.byte += len;
        self.at.char += passed.chars().count() as u64;
    }

    fn next_list(&mut self) {
        self.list = self.list.wrapping_add(1);
        if self.list == 0 {
            self.seen.fill(0);
            self.list = 1;
        }
    }

    /// The next character is known: threads that wait for it go on or die.
    fn look(&mut self, rules: &Patterns, view: View<'_>, next: Option<char>) {
        let around = Around::new(self.before(view), next);
        self.waits = false;
        let old = std::mem::replace(&mut self.threads, std::mem::take(&mut self.spare));
        self.next_list();
        for thread in &old {
            if self.add(rules, view, *thread, Some(&around)) {
                break;
            }
        }
        self.spare = old;
        self.spare.clear();
    }

    /// A match may begin here, after all that began before.
    fn begin(&mut self, rules: &Patterns, view: View<'_>, c: char) {
        let mut first = [0; 4];
        if !rules.first[usize::from(c.encode_utf8(&mut first).as_bytes()[0])] {
            return;
        }
        let around = Around::new(self.before(view), Some(c));
        self.next_list();
        for thread in &self.threads {
            self.seen[thread.state.as_usize()] = self.list;
        }
        let thread = Thread { state: rules.nfa.start_anchored(), start: self.at };
        self.add(rules, view, thread, Some(&around));
    }

    fn read(&mut self, rules: &Patterns, view: View<'_>, c: char) {
        let mut room = [0; 4];
        let bytes = c.encode_utf8(&mut room).as_bytes();
        self.at.byte += bytes.len();
        self.at.char += 1;
        for &byte in bytes {
            let old = std::mem::replace(&mut self.threads, std::mem::take(&mut self.spare));
            self.next_list();
            for thread in &old {
                let next = match rules.nfa.state(thread.state) {
                    State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
                    State::Sparse(sparse) => sparse.matches_byte(byte),
                    State::Dense(dense) => dense.matches_byte(byte),
                    _ => None,
                };
                if let Some(state) = next
                    && self.add(rules, view, Thread { state, start: thread.start }, None)
                {
                    break;
                }
            }
            self.spare = old;
            self.spare.clear();
        }
    }

    /// Adds what a thread can reach without reading. True: it has reached a match, and what comes after it is moot.
    fn add(&mut self, rules: &Patterns, view: View<'_>, thread: Thread, around: Option<&Around>) -> bool {
        self.stack.clear();
        self.stack.push(thread.state);
        while let Some(id) = self.stack.pop() {
            if std::mem::replace(&mut self.seen[id.as_usize()], self.list) == self.list {
                continue;
            }
            match rules.nfa.state(id) {
                State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) => {
                    self.threads.push(Thread { state: id, start: thread.start });
                }
                State::Look { look, next } => match around {
                    Some(around) if around.holds(*look) => self.stack.push(*next),
                    Some(_) => {}
                    None => {
                        self.waits = true;
                        self.threads.push(Thread { state: id, start: thread.start });
                    }
                },
                State::Union { alternates } => self.stack.extend(alternates.iter().rev()),
                State::BinaryUnion { alt1, alt2 } => self.stack.extend([alt2, alt1]),
                State::Capture { next, .. } => self.stack.push(*next),
                State::Fail => {}
                State::Match { pattern_id } => {
                    let pattern = pattern_id.as_usize();
                    if self.is_valid(rules, view, thread.start, pattern) {
                        let rule = rules.rules[pattern];
                        self.pending = Some(Pending { start: thread.start, end: self.at, rule });
                        return true;
                    }
                }
            }
        }
        false
    }

    fn is_valid(&self, rules: &Patterns, view: View<'_>, start: Place, pattern: usize) -> bool {
        // What has a check is short; a match whose beginning is gone is not.
        rules.checks[pattern].is_none_or(|check| !self.told && check(&view.text[start.byte..self.at.byte]))
    }

    /// The pending match is final: the search goes on after it.
    fn conclude(&mut self, found: &mut Vec<Found>) {
        if let Some(pending) = self.pending.take() {
            let (start, end) = (pending.start.byte, pending.end.byte);
            found.push(Found { start, end, rule: pending.rule, goes_on: false });
            self.restart(pending.end);
        }
        self.told = false;
    }

    fn restart(&mut self, at: Place) {
        self.threads.clear();
        self.waits = false;
        self.pending = None;
        self.at = at;
    }

    /// Gives up what began too long ago, and tells the beginning of a match that has grown too long to be kept.
    fn give_up(&mut self, view: View<'_>, found: &mut Vec<Found>) {
        let Some(oldest) = self.threads.first().map(|thread| thread.start) else { return };
        let limit = 2 * self.rules.window;
        if self.at.char - oldest.char <= limit {
            return;
        }
        match self.pending {
            Some(pending) if pending.start == oldest && self.at.char - pending.end.char > limit => {
                self.conclude(found);
            }
            Some(pending) if pending.start == oldest => self.tell(pending, found),
            pending => {
                let back = view.text[..self.at.byte].char_indices().rev().take(self.rules.window as usize);
                let byte = back.last().map_or(0, |(byte, _)| byte);
                let recent = Place { byte, char: self.at.char - self.rules.window };
                let earlier = pending.filter(|pending| pending.start.byte < byte);
                self.restart(earlier.map_or(recent, |pending| pending.start));
            }
        }
    }

    fn tell(&mut self, pending: Pending, found: &mut Vec<Found>) {
        let (start, end) = (pending.start.byte, pending.end.byte);
        if end > start {
            found.push(Found { start, end, rule: pending.rule, goes_on: true });
        }
        self.told = true;
        for thread in &mut self.threads {
            thread.start = pending.end;
        }
        self.pending = Some(Pending { start: pending.end, ..pending });
    }

    fn before(&self, view: View<'_>) -> Option<char> {
        view.text[..self.at.byte].chars().next_back().or(view.before)
    }

    pub fn forget(&mut self, bytes: usize) {
        self.at.byte -= bytes;
        for thread in &mut self.threads {
            thread.start.byte -= bytes;
        }
        if let Some(pending) = &mut self.pending {
            pending.start.byte -= bytes;
            pending.end.byte -= bytes;
        }
    }

    pub fn clear(&mut self) {
        self.restart(Place::default());
        self.told = false;
    }
}
