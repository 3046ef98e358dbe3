//! Traces: the time and outcome of every call, for `trace` and `bench`. Off by default.

use torvyn_stream::{Settled, Step};

/// What a call did with its element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    Pulled,
    Done,
    Passed,
    Routed,
    Dropped,
    Held,
    Replaced,
    Blocked,
    Paused,
    Failed,
}

impl<E> From<&Result<Step, E>> for CallOutcome {
    fn from(result: &Result<Step, E>) -> Self {
        match result {
            Ok(Step::Done | Step::More) => Self::Done,
            Ok(Step::Forward) => Self::Passed,
            Ok(Step::Route) => Self::Routed,
            Ok(Step::Drop) => Self::Dropped,
            Ok(Step::Hold) => Self::Held,
            Ok(Step::Replace(_)) => Self::Replaced,
            Ok(Step::Block(_)) => Self::Blocked,
            Ok(Step::Pause) => Self::Paused,
            Err(_) => Self::Failed,
        }
    }
}

impl From<&Settled> for CallOutcome {
    fn from(settled: &Settled) -> Self {
        match settled {
            Settled::Forward => Self::Passed,
            Settled::Drop => Self::Dropped,
            Settled::Done(_) => Self::Done,
            Settled::Other(outcome, _) => Self::from(&**outcome),
        }
    }
}

/// One call of one component.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    pub node: u16,
    pub outcome: CallOutcome,
    pub made: u32,
    /// Payload bytes the node has copied so far.
    pub copied_bytes: u64,
    pub sequence: u64,
    pub start_ns: u64,
    pub nanos: u64,
}

#[derive(Debug)]
pub struct Tracer {
    pub events: Vec<Event>,
    limit: usize,
    pub missed: u64,
}

impl Tracer {
    pub fn new(limit: usize) -> Self {
        Self { events: Vec::new(), limit, missed: 0 }
    }

    pub fn heap_bytes(&self) -> usize {
        self.events.capacity() * size_of::<Event>()
    }

    pub fn record(&mut self, event: Event) {
        if self.events.len() < self.limit {
            self.events.push(event);
        } else {
            self.missed += 1;
        }
    }
}
