//! Batches: elements that wait in one queue, given to a stage in one call, and what happens to each of them.

use crate::element::Element;
use crate::ledger::Ledger;
use crate::stage::{Emission, StageError, Step};

/// The oldest elements of a queue, in place: a ring's slots are in two parts. As in `accept`, a stage may set an
/// element's companion and nothing else.
#[derive(Debug)]
pub struct Batch<'a> {
    pub first: &'a mut [Element],
    pub second: &'a mut [Element],
}

impl Batch<'_> {
    #[inline]
    pub fn len(&self) -> usize {
        self.first.len() + self.second.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn iter(&self) -> impl Iterator<Item = &Element> {
        self.first.iter().chain(self.second.iter())
    }

    /// The payloads as bytes, for a native stage.
    pub fn read<'b>(&'b self, ledger: &'b Ledger) -> impl Iterator<Item = Option<&'b [u8]>> {
        self.iter().map(move |element| element.read(ledger))
    }
}

/// What happens to one element of a batch. The results that nearly all elements have take no space of their own.
#[derive(Debug)]
pub enum Settled {
    Forward,
    Drop,
    /// It is consumed, and so many of the outputs are made from it.
    Done(u32),
    /// Any other result, and the number of its outputs.
    Other(Box<Result<Step, StageError>>, u32),
}

impl Settled {
    /// A result with its number of outputs.
    #[inline]
    pub fn new(outcome: Result<Step, StageError>, made: usize) -> Self {
        match outcome {
            Ok(Step::Forward) if made == 0 => Self::Forward,
            Ok(Step::Drop) if made == 0 => Self::Drop,
            Ok(Step::Done) => Self::Done(made as u32),
            outcome => Self::Other(Box::new(outcome), made as u32),
        }
    }

    pub fn made(&self) -> usize {
        match self {
            Self::Forward | Self::Drop => 0,
            Self::Done(made) | Self::Other(_, made) => *made as usize,
        }
    }

    pub fn outcome(self) -> Result<Step, StageError> {
        match self {
            Self::Forward => Ok(Step::Forward),
            Self::Drop => Ok(Step::Drop),
            Self::Done(_) => Ok(Step::Done),
            Self::Other(outcome, _) => *outcome,
        }
    }
}

/// The results of a batch: one per element, in order, and all outputs in the order of their elements. Reused between
/// calls.
#[derive(Debug, Default)]
pub struct Answers {
    pub settled: Vec<Settled>,
    pub made: Vec<Emission>,
}

impl Answers {
    /// The result of the next element. Its outputs are those that were added since the last result.
    #[inline]
    pub fn settle(&mut self, outcome: Result<Step, StageError>, made_before: usize) {
        let made = self.made.len() - made_before;
        self.settled.push(Settled::new(outcome, made));
    }

    /// Results of a batch of `count` that is consumed as a whole. All outputs belong to the last element.
    pub fn settle_all(&mut self, count: usize, last: Step) {
        self.settled.extend((1..count).map(|_| Settled::Done(0)));
        self.settled.push(Settled::new(Ok(last), self.made.len()));
    }

    pub fn clear(&mut self) {
        self.settled.clear();
        self.made.clear();
    }
}
