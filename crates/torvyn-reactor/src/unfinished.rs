//! What a node has not finished: outputs that did not fit, elements that wait for a verdict or a retry.
//!
//! Most nodes never have any of it, so its memory is allocated with the first thing that a node must keep.

use std::collections::VecDeque;
use std::ops::Deref;

use torvyn_stream::{Element, Emission, Foreign};

use crate::absorbed::Absorbed;
use crate::node::{Answer, Retry};
use crate::swap::{Swap, Trial};

#[derive(Default)]
pub struct UnfinishedWork {
    /// Outputs that did not fit into their queue yet, with the edge of each.
    pub backlog: VecDeque<(u16, Element)>,
    pub held: VecDeque<Element>,
    pub retry: Option<Box<Retry>>,
    /// A batch has failed: so many elements are given to the stage one by one.
    pub singles: usize,
    pub answers: VecDeque<Answer>,
    /// The element whose generator is not exhausted yet.
    pub current: Option<Box<Element>>,
    /// Elements that were started and never finished.
    pub given_up: u64,
    /// The attributes of the next outputs of a processor.
    pub attributes: Option<Foreign>,
    /// The receipts of the elements inside an aggregator or a guard.
    pub absorbed: Option<Box<Absorbed>>,
    /// Its stage is new, and the one before waits until it has proved itself.
    pub trial: Option<Box<Trial>>,
    /// The stage on trial has failed, and the one before is not in its place yet.
    pub is_returning: bool,
}

const EMPTY: &UnfinishedWork = &UnfinishedWork {
    backlog: VecDeque::new(),
    held: VecDeque::new(),
    retry: None,
    singles: 0,
    answers: VecDeque::new(),
    current: None,
    given_up: 0,
    attributes: None,
    trial: None,
    is_returning: false,
    absorbed: None,
};

/// Reads like the work itself, and like none if there never was any.
#[derive(Default)]
pub struct Unfinished(Option<Box<UnfinishedWork>>);

impl Deref for Unfinished {
    type Target = UnfinishedWork;

    #[inline(always)]
    fn deref(&self) -> &UnfinishedWork {
        self.0.as_deref().unwrap_or(EMPTY)
    }
}

impl Unfinished {
    /// To put something into it.
    #[inline]
    pub fn fill(&mut self) -> &mut UnfinishedWork {
        self.0.get_or_insert_default()
    }

    // What is asked for every element: without unfinished work, one look at a pointer.

    #[inline(always)]
    pub fn has_backlog(&self) -> bool {
        self.0.as_ref().is_some_and(|used| !used.backlog.is_empty())
    }

    #[inline(always)]
    pub fn has_retry(&self) -> bool {
        self.0.as_ref().is_some_and(|used| used.retry.is_some())
    }

    #[inline(always)]
    pub fn has_answers(&self) -> bool {
        self.0.as_ref().is_some_and(|used| !used.answers.is_empty())
    }

    #[inline(always)]
    pub fn holds_elements(&self) -> bool {
        self.0.as_ref().is_some_and(|used| !used.held.is_empty())
    }

    /// Whether something must leave before the node takes more.
    #[inline(always)]
    pub fn is_busy(&self) -> bool {
        let Some(used) = &self.0 else { return false };
        !used.backlog.is_empty() || used.retry.is_some() || !used.answers.is_empty()
    }

    /// To take something out of it; `None` if it never held anything.
    #[inline]
    pub fn used(&mut self) -> Option<&mut UnfinishedWork> {
        self.0.as_deref_mut()
    }

    pub fn take_retry(&mut self) -> Option<Box<Retry>> {
        self.used()?.retry.take()
    }

    pub fn retry_mut(&mut self) -> Option<&mut Retry> {
        self.used()?.retry.as_deref_mut()
    }

    pub fn take_trial(&mut self) -> Option<Box<Trial>> {
        self.used()?.trial.take()
    }

    pub fn take_current(&mut self) -> Option<Element> {
        self.used()?.current.take().map(|current| *current)
    }

    #[inline]
    pub fn set_attributes(&mut self, attributes: Option<Foreign>) {
        if attributes.is_some() {
            self.fill().attributes = attributes;
        } else if let Some(used) = self.used() {
            used.attributes = None;
        }
    }

    /// What elements wait in.
    pub fn waiting_bytes(&self) -> usize {
        self.backlog.capacity() * size_of::<(u16, Element)>()
            + self.held.capacity() * size_of::<Element>()
            + self.retry.as_ref().map_or(0, |_| size_of::<Retry>())
            + self.current.as_ref().map_or(0, |_| size_of::<Element>())
            + self.answers.capacity() * size_of::<Answer>()
            + self.answers.iter().map(|answer| answer.made.capacity() * size_of::<Emission>()).sum::<usize>()
    }

    pub fn heap_bytes(&self) -> usize {
        let Some(used) = &self.0 else { return 0 };
        size_of::<UnfinishedWork>()
            + used.absorbed.as_ref().map_or(0, |absorbed| size_of::<Absorbed>() + absorbed.capacity_bytes())
            + used.trial.as_ref().map_or(0, |_| size_of::<Trial>() + size_of::<Swap>())
    }
}
