//! Elements whose text is in a guard, and which part of it is sent with which element.

use std::collections::VecDeque;

use super::rules::Made;

/// An element whose text may be sent in parts.
pub trait Divisible {
    type Output;

    /// A part of its text, or text that replaces it. `is_rest`: the last part, and nothing was removed.
    fn part(&self, text: &str, is_rest: bool) -> Self::Output;

    /// The element unchanged.
    fn whole(self) -> Self::Output;
}

/// An element in a guard.
pub(super) struct PendingElement<E: Divisible> {
    /// The guard of its text; None if it passes unchanged.
    pub lane: Option<usize>,
    /// The position of its text in the lane.
    pub start: u64,
    pub end: u64,
    pub element: E,
    pub is_touched: bool,
    pub is_decided: bool,
    /// What is sent when all elements before it have been sent.
    pub ready: Vec<E::Output>,
    pub ready_bytes: usize,
}

impl<E: Divisible> PendingElement<E> {
    pub fn guarded(element: E, lane: usize, start: u64, end: u64) -> Self {
        Self {
            lane: Some(lane),
            start,
            end,
            element,
            is_touched: false,
            is_decided: false,
            ready: Vec::new(),
            ready_bytes: 0,
        }
    }

    pub fn passing(element: E, bytes: usize) -> Self {
        let waiting = Self::guarded(element, 0, 0, bytes as u64);
        Self { lane: None, is_decided: true, ..waiting }
    }

    pub fn add(&mut self, text: &str, is_rest: bool) {
        self.ready.push(self.element.part(text, is_rest));
        self.ready_bytes += text.len();
    }
}

/// Assigns a guard's output to the elements it comes from.
pub(super) fn place<E: Divisible>(queue: &mut VecDeque<PendingElement<E>>, lane: usize, made: Made<'_>) {
    let mut own = queue.iter_mut().filter(|waiting| waiting.lane == Some(lane) && !waiting.is_decided);
    match made {
        Made::Text { start, text } => {
            let (mut at, mut rest) = (start, text);
            while !rest.is_empty()
                && let Some(waiting) = own.next()
            {
                let len = rest.len().min(waiting.end.saturating_sub(at) as usize);
                at += len as u64;
                waiting.is_decided = at >= waiting.end;
                if len > 0 {
                    waiting.add(&rest[..len], waiting.is_decided && !waiting.is_touched);
                }
                rest = &rest[len..];
            }
        }
        Made::Instead { start, end, text } => {
            let mut text = text;
            for waiting in own.take_while(|waiting| waiting.start < end) {
                if waiting.end > start || waiting.end == end {
                    waiting.is_touched = true;
                    if !text.is_empty() {
                        waiting.add(std::mem::take(&mut text), false);
                    }
                }
                waiting.is_decided = waiting.end <= end;
            }
        }
    }
}
