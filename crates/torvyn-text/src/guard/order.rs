//! Elements of many kinds and choices pass through guards in their original order.
//!
//! Each kind of each choice is a text of its own, with its own guard. Elements of the same choice wait behind buffered
//! text, even those of a kind that is not guarded. An answer must not wait for reasoning that may never continue, so
//! this is bounded: beyond `WAITING_LIMIT` the buffered text is released.

use std::collections::VecDeque;
use std::sync::Arc;

use super::machine::Guard;
use super::pending_element::{Divisible, PendingElement, place};
use super::rules::{Finding, Made, Settings};

/// Bytes that may wait behind text of another kind.
pub const WAITING_LIMIT: usize = 64;

/// The least that an element counts: a reader waits for one without text, too.
const ELEMENT_COST: usize = 8;

/// Elements of a choice that may wait; those of one long match are then merged.
const ELEMENTS_LIMIT: usize = 2048;

/// The text of one kind.
struct Lane {
    kind: Option<Box<str>>,
    guard: Guard,
    end: u64,
}

struct Choice<E: Divisible> {
    index: i64,
    lanes: Vec<Lane>,
    queue: VecDeque<PendingElement<E>>,
}

/// All guarded texts of one stream of elements.
pub struct GuardedTexts<E: Divisible> {
    settings: Arc<Settings>,
    /// The kinds that are guarded; an element without a kind is `text`.
    kinds: Vec<String>,
    choices: Vec<Choice<E>>,
}

/// The address of an element.
#[derive(Debug, Clone, Copy)]
pub struct Address<'a> {
    pub kind: Option<&'a str>,
    pub choice: i64,
}

/// The result of passing an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// Send it unchanged, at once.
    Unchanged,
    /// What may be sent is in the output.
    Taken,
    /// A match has ended the stream.
    Blocked,
}

impl<E: Divisible> GuardedTexts<E> {
    pub fn new(settings: Arc<Settings>, kinds: Vec<String>) -> Self {
        Self { settings, kinds, choices: Vec::new() }
    }

    /// Whether the text of this kind is guarded.
    pub fn guards(&self, kind: Option<&str>) -> bool {
        let kind = kind.unwrap_or("text");
        self.kinds.iter().any(|guarded| guarded == kind)
    }

    /// Takes an element of a guarded kind. `make` is called only if it must be kept.
    pub fn put(
        &mut self,
        address: Address<'_>,
        text: &str,
        make: impl FnOnce() -> E,
        out: &mut Vec<E::Output>,
    ) -> Passage {
        if text.is_empty() {
            return self.pass(address, 0, make, out);
        }
        let at = self.choice(address.choice);
        let choice = &mut self.choices[at];
        let lane = choice.lane(address.kind, &self.settings);
        let passage = choice.put(lane, text, make, out);
        if passage == Passage::Unchanged || !choice.is_blocked() {
            return passage;
        }
        self.finish(out);
        Passage::Blocked
    }

    /// Takes an element of another kind, with its size in bytes.
    pub fn pass(
        &mut self,
        address: Address<'_>,
        bytes: usize,
        make: impl FnOnce() -> E,
        out: &mut Vec<E::Output>,
    ) -> Passage {
        let same = |choice: &&mut Choice<E>| choice.index == address.choice && !choice.queue.is_empty();
        let Some(choice) = self.choices.iter_mut().find(same) else { return Passage::Unchanged };
        choice.queue.push_back(PendingElement::passing(make(), bytes));
        choice.relieve(out);
        if choice.is_blocked() {
            self.finish(out);
            return Passage::Blocked;
        }
        Passage::Taken
    }

    /// Ends the stream: everything is decided and sent; of a blocked choice, what came before the match. True: a match
    /// ends the stream.
    pub fn finish(&mut self, out: &mut Vec<E::Output>) -> bool {
        self.choices.iter_mut().for_each(|choice| choice.finish(out));
        self.choices.iter().any(Choice::is_blocked)
    }

    pub fn clear(&mut self) {
        self.choices.clear();
    }

    /// Bytes in the buffers.
    pub fn held_bytes(&self) -> usize {
        self.choices.iter().map(Choice::held_bytes).sum()
    }

    /// Reports the findings since the last call.
    pub fn take_findings(&mut self, mut tell: impl FnMut(&Finding)) {
        for lane in self.choices.iter_mut().flat_map(|choice| &mut choice.lanes) {
            lane.guard.take_findings().for_each(|finding| tell(&finding));
        }
    }

    fn choice(&mut self, index: i64) -> usize {
        if let Some(known) = self.choices.iter().position(|choice| choice.index == index) {
            return known;
        }
        self.choices.push(Choice { index, lanes: Vec::new(), queue: VecDeque::new() });
        self.choices.len() - 1
    }
}

impl<E: Divisible> Choice<E> {
    fn lane(&mut self, kind: Option<&str>, settings: &Arc<Settings>) -> usize {
        if let Some(known) = self.lanes.iter().position(|lane| lane.kind.as_deref() == kind) {
            return known;
        }
        self.lanes.push(Lane { kind: kind.map(Into::into), guard: Guard::new(settings.clone()), end: 0 });
        self.lanes.len() - 1
    }

    fn put(&mut self, at: usize, text: &str, make: impl FnOnce() -> E, out: &mut Vec<E::Output>) -> Passage {
        let (is_first, lane) = (self.queue.is_empty(), &mut self.lanes[at]);
        let start = lane.end;
        lane.end += text.len() as u64;
        self.queue.push_back(PendingElement::guarded(make(), at, start, lane.end));
        let queue = &mut self.queue;
        let mut is_whole = false;
        let is_unchanged = lane.guard.put(text, |made| match made {
            Made::Text { text: own, .. } if is_first && own.len() == text.len() => is_whole = true,
            _ => place(queue, at, made),
        });
        if is_unchanged && is_whole {
            queue.pop_back();
            return Passage::Unchanged;
        }
        if is_whole {
            place(queue, at, Made::Text { start, text });
        }
        self.join_oldest();
        self.leave(out);
        self.relieve(out);
        Passage::Taken
    }

    /// A match may continue over any number of elements; all but the last few have no text left to send.
    fn join_oldest(&mut self) {
        if self.queue.len() > ELEMENTS_LIMIT
            && self.queue[0].ready.is_empty()
            && self.queue[0].lane == self.queue[1].lane
            && let Some(oldest) = self.queue.pop_front()
        {
            self.queue[0].start = oldest.start;
            self.queue[0].is_touched = true;
        }
    }

    fn is_blocked(&self) -> bool {
        self.lanes.iter().any(|lane| lane.guard.blocked().is_some())
    }

    /// Sends what may be sent, up to the first buffered text.
    fn leave(&mut self, out: &mut Vec<E::Output>) {
        while let Some(first) = self.queue.front_mut() {
            out.append(&mut first.ready);
            first.ready_bytes = 0;
            if !first.is_decided {
                return;
            }
            if let Some(PendingElement { lane: None, element, .. }) = self.queue.pop_front() {
                out.push(element.whole());
            }
        }
    }

    /// Releases the buffered text that too much waits behind.
    fn relieve(&mut self, out: &mut Vec<E::Output>) {
        while let Some(lane) = self.queue.front().and_then(|first| first.lane)
            && self.queue.len() > 1
            && self.lanes[lane].guard.blocked().is_none()
            && self.behind(lane) > WAITING_LIMIT
        {
            let queue = &mut self.queue;
            self.lanes[lane].guard.release(|made| place(queue, lane, made));
            self.decide(lane);
            self.leave(out);
        }
    }

    /// What waits behind the text of a lane.
    fn behind(&self, lane: usize) -> usize {
        let others = self.queue.iter().filter(|waiting| waiting.lane != Some(lane));
        others.map(|waiting| ((waiting.end - waiting.start) as usize).max(ELEMENT_COST)).sum()
    }

    fn finish(&mut self, out: &mut Vec<E::Output>) {
        self.leave(out);
        while let Some(lane) = self.queue.front().and_then(|first| first.lane)
            && self.lanes[lane].guard.blocked().is_none()
        {
            self.finish_lane(lane);
            self.leave(out);
        }
        self.queue.clear();
        // Text that is not buffered may still be part of a match that is to be reported.
        (0..self.lanes.len()).for_each(|lane| self.finish_lane(lane));
    }

    fn finish_lane(&mut self, at: usize) {
        let (queue, lane) = (&mut self.queue, &mut self.lanes[at]);
        lane.guard.finish(|made| place(queue, at, made));
        lane.end = 0;
        self.decide(at);
    }

    /// All text of a lane was sent or removed, unless a match has ended it.
    fn decide(&mut self, lane: usize) {
        if self.lanes[lane].guard.blocked().is_none() {
            let own = self.queue.iter_mut().filter(|waiting| waiting.lane == Some(lane));
            own.for_each(|waiting| waiting.is_decided = true);
        }
    }

    fn held_bytes(&self) -> usize {
        let guarded: usize = self.lanes.iter().map(|lane| lane.guard.held_bytes()).sum();
        let passing = |waiting: &PendingElement<E>| match waiting.lane {
            Some(_) => waiting.ready_bytes,
            None => (waiting.end - waiting.start) as usize,
        };
        guarded + self.queue.iter().map(passing).sum::<usize>()
    }
}
