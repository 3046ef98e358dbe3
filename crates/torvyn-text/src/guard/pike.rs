//! Pattern matching over split text: the states of an automaton, in order of preference, with their starting points.
//!
//! The leftmost match wins, and of those from one position the one that the expression prefers, as in a search over the
//! whole text. The text waits from the oldest starting point on. A start that leads to no match within twice the window
//! is given up; whatever fits into the window is found.

use std::sync::Arc;

use regex_automata::nfa::thompson::State;
use regex_automata::util::look::LookSet;
use regex_automata::util::primitives::StateID;

use super::candidate::{Candidate, Judgement, LeftContext};
use super::look_around::LookAround;
use super::pattern::Patterns;
use super::{Found, View};

/// A position in the text: in bytes of the view, and in characters of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Place {
    pub(super) byte: usize,
    pub(super) char: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Thread {
    pub(super) state: StateID,
    /// Bytes read since it reached a match whose check waits for more.
    pub(super) after: u32,
    pub(super) start: Place,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    /// Where its thread began; the match may begin later.
    pub(super) origin: Place,
    pub(super) start: Place,
    pub(super) end: Place,
    pub(super) rule: u32,
}

#[derive(Debug, Clone)]
pub struct PatternSearch {
    pub(super) rules: Arc<Patterns>,
    /// How far the text was read.
    pub(super) at: Place,
    pub(super) threads: Vec<Thread>,
    pub(super) spare: Vec<Thread>,
    /// Which states are in the list that is being built, by its number.
    pub(super) seen: Vec<u32>,
    pub(super) list: u32,
    pub(super) stack: Vec<StateID>,
    /// A thread waits for the next character.
    pub(super) waits: bool,
    /// The best match so far; threads before it may still find a better one.
    pub(super) pending: Option<Pending>,
    /// The beginning of the pending match was already reported.
    pub(super) is_reported: bool,
    /// Nothing comes after what was read.
    pub(super) over: bool,
    pub(super) left: LeftContext,
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
            is_reported: false,
            over: false,
            left: LeftContext::default(),
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
            self.over = next.is_none();
            if self.waits {
                self.look(&rules, view, next);
            }
            let Some(c) = next else {
                self.decide(&rules, view);
                self.threads.clear();
                if self.pending.is_none() {
                    break;
                }
                continue;
            };
            self.read(&rules, view, c);
            self.give_up(view, found);
        }
        let first = self.threads.first().map_or(self.at.byte, |thread| thread.start.byte);
        self.pending.map_or(first, |pending| pending.start.byte.min(first))
    }

    /// Skips text in which no match begins.
    fn skip(&mut self, rules: &Patterns, view: View<'_>) {
        let rest = &view.text.as_bytes()[self.at.byte..];
        let len =
            rest.iter().position(|&byte| !rules.entries[usize::from(byte)].is_empty()).unwrap_or(rest.len());
        // The bytes inside a character begin nothing, so this is a character boundary.
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

    /// The next character is known: threads that wait for it continue or end.
    fn look(&mut self, rules: &Patterns, view: View<'_>, next: Option<char>) {
        let around = LookAround::new(self.before(view), next);
        self.waits = false;
        let old = std::mem::replace(&mut self.threads, std::mem::take(&mut self.spare));
        self.next_list();
        for thread in &old {
            if matches!(rules.nfa.state(thread.state), State::Match { .. }) {
                self.threads.push(*thread);
            } else if self.add(rules, view, *thread, Some(&around)) {
                break;
            }
        }
        self.spare = old;
        self.spare.clear();
    }

    /// Reads a character: the started threads continue, and after them a match may begin here.
    fn read(&mut self, rules: &Patterns, view: View<'_>, c: char) {
        let mut room = [0; 4];
        let bytes = c.encode_utf8(&mut room).as_bytes();
        let here = self.at;
        let begins = self.pending.is_none() && !rules.entries[usize::from(bytes[0])].is_empty();
        let holding = begins.then(|| LookAround::new(self.before(view), Some(c)).holding(rules.entry_looks));
        self.at.byte += bytes.len();
        self.at.char += 1;
        for (index, &byte) in bytes.iter().enumerate() {
            let old = std::mem::replace(&mut self.threads, std::mem::take(&mut self.spare));
            self.next_list();
            let is_last = index + 1 == bytes.len();
            let cut = old.iter().any(|thread| self.step(rules, view, *thread, byte, is_last));
            if let (0, false, Some(holding)) = (index, cut, holding) {
                self.begin(rules, view, byte, here, holding);
            }
            self.spare = old;
            self.spare.clear();
        }
    }

    /// Moves a thread by a byte. True: it has reached a match, and the threads after it no longer matter.
    #[inline]
    fn step(&mut self, rules: &Patterns, view: View<'_>, thread: Thread, byte: u8, is_last: bool) -> bool {
        let next = match rules.nfa.state(thread.state) {
            State::ByteRange { trans } => trans.matches_byte(byte).then_some(trans.next),
            State::Sparse(sparse) => sparse.matches_byte(byte),
            State::Dense(dense) => dense.matches_byte(byte),
            State::Match { .. } => {
                let thread = Thread { after: thread.after + 1, ..thread };
                if is_last {
                    return self.judge(rules, view, thread);
                }
                self.threads.push(thread);
                None
            }
            _ => None,
        };
        next.is_some_and(|state| self.add(rules, view, Thread { state, ..thread }, None))
    }

    /// Starts a match with this byte, after all that began before.
    fn begin(&mut self, rules: &Patterns, view: View<'_>, byte: u8, start: Place, holding: LookSet) {
        for entry in &rules.entries[usize::from(byte)] {
            let allowed = || {
                rules.begins[entry.pattern].is_none_or(|begins| {
                    let mut left = self.left_of(view, start);
                    begins(left.next(), left.next())
                })
            };
            if entry.looks.subtract(holding).is_empty()
                && allowed()
                && self.add(rules, view, Thread { state: entry.next, after: 0, start }, None)
            {
                return;
            }
        }
    }

    /// The characters before a place, the nearest first.
    fn left_of<'a>(&'a self, view: View<'a>, place: Place) -> impl Iterator<Item = char> + 'a {
        view.text[..place.byte].chars().rev().chain(self.left.text().chars().rev())
    }

    /// Ends the input: waiting checks decide without more text.
    fn decide(&mut self, rules: &Patterns, view: View<'_>) {
        let old = std::mem::take(&mut self.threads);
        for thread in old {
            if matches!(rules.nfa.state(thread.state), State::Match { .. }) && self.judge(rules, view, thread)
            {
                return;
            }
        }
    }

    /// Adds what a thread can reach without reading. True: it has reached a match, and the threads after it no longer
    /// matter.
    fn add(&mut self, rules: &Patterns, view: View<'_>, thread: Thread, around: Option<&LookAround>) -> bool {
        self.stack.clear();
        self.stack.push(thread.state);
        while let Some(id) = self.stack.pop() {
            let state = rules.nfa.state(id);
            if matches!(state, State::Match { .. }) {
                // Never skipped: where a check rejects one start, it may accept a later one.
                if self.judge(rules, view, Thread { state: id, after: 0, ..thread }) {
                    return true;
                }
                continue;
            }
            if std::mem::replace(&mut self.seen[id.as_usize()], self.list) == self.list {
                continue;
            }
            match state {
                State::ByteRange { .. } | State::Sparse(_) | State::Dense(_) => {
                    self.threads.push(Thread { state: id, ..thread });
                }
                State::Look { look, next } => match around {
                    Some(around) if around.holds(*look) => self.stack.push(*next),
                    Some(_) => {}
                    None => {
                        self.waits = true;
                        self.threads.push(Thread { state: id, ..thread });
                    }
                },
                State::Union { alternates } => self.stack.extend(alternates.iter().rev()),
                State::BinaryUnion { alt1, alt2 } => self.stack.extend([alt2, alt1]),
                State::Capture { next, .. } => self.stack.push(*next),
                State::Fail | State::Match { .. } => {}
            }
        }
        false
    }

    /// Decides on a thread that has reached a match, or lets it wait. True: it is a match.
    fn judge(&mut self, rules: &Patterns, view: View<'_>, thread: Thread) -> bool {
        let State::Match { pattern_id } = rules.nfa.state(thread.state) else { return false };
        let (start, end) = (thread.start.byte, self.at.byte - thread.after as usize);
        let candidate = Candidate {
            far: self.left.text(),
            near: &view.text[..start],
            text: &view.text[start..end],
            right: &view.text[end..self.at.byte],
            over: self.over,
        };
        // A match whose beginning has left the view was checked with it.
        let check = rules.checks[pattern_id.as_usize()].filter(|_| !self.is_reported);
        match check.map_or_else(|| candidate.accept(), |check| check(&candidate)) {
            Judgement::Reject => false,
            Judgement::Wait => {
                self.threads.push(thread);
                false
            }
            Judgement::Accept(from, to) => {
                let chars = |from: usize, to: usize| view.text[from..to].chars().count() as u64;
                let char = thread.start.char + if from > 0 { chars(start, start + from) } else { 0 };
                let end = Place { byte: start + to, char: self.at.char - chars(start + to, self.at.byte) };
                let rule = rules.rules[pattern_id.as_usize()];
                let from = Place { byte: start + from, char };
                self.pending = Some(Pending { origin: thread.start, start: from, end, rule });
                true
            }
        }
    }

    fn before(&self, view: View<'_>) -> Option<char> {
        view.text[..self.at.byte].chars().next_back().or(view.before)
    }
}
