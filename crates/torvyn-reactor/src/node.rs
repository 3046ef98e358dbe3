//! A node while the flow runs: its stage and everything that waits in its hands.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

use torvyn_stream::{Element, End, Foreign, Stage};

use crate::blueprint::{Recovery, Role};
use crate::offload::{Offload, TaskResult};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Running,
    /// The input has ended; `flush` was called and what it made is leaving.
    Flushing,
    /// Nothing more comes from here.
    Finished,
}

pub struct Retry {
    pub element: Option<Element>,
    pub attempt: u32,
    pub at_ns: u64,
}

/// What a source or a resumed stage numbers its outputs with.
#[derive(Default)]
pub struct Stamp {
    pub sequence: u64,
    pub timestamp_ns: u64,
    pub attributes: Option<Foreign>,
}

pub struct OffloadState {
    pub exchange: Arc<Offload>,
    pub results: VecDeque<TaskResult>,
    /// Elements handed over whose results have not come back, oldest first. The worker has copies.
    pub in_flight: VecDeque<Element>,
    /// The oldest of them counts as received; the others still count as waiting in their queue.
    pub is_begun: bool,
    /// What a worker had begun when it was stopped.
    pub left: Option<Element>,
    /// The edge they came from: all but the one being worked on still count as waiting there.
    pub lender: u16,
    pub batch: usize,
    pub handed_ns: u64,
    /// A flush or completion is out.
    pub closing: bool,
}

pub enum Worker {
    Inline(Box<dyn Stage>),
    Offloaded(Box<OffloadState>),
}

pub struct Node {
    pub role: Role,
    pub worker: Worker,
    pub phase: Phase,
    pub recovery: Recovery,
    pub retries: u32,
    pub backoff_ns: u64,
    pub budget_bytes: u64,
    pub inputs: Box<[u16]>,
    pub ports: Box<[Box<[u16]>]>,
    /// What was made but did not fit into its queue yet.
    pub backlog: VecDeque<(u16, Element)>,
    pub held: VecDeque<Element>,
    pub retry: Option<Box<Retry>>,
    pub more: bool,
    /// What a generator that is not at its end yet was made from.
    pub current: Option<Element>,
    /// Elements that were begun and never concluded.
    pub given_up: u64,
    /// Some input drops or fails when it is full: after each run it is noted whether the node has stalled.
    pub watches_inputs: bool,
    pub paused: bool,
    /// A source that said "nothing yet", and until when.
    pub pending: Option<Option<u64>>,
    pub pressured: bool,
    pub cursor: u16,
    pub next_sequence: u64,
    pub stamp: Stamp,
    pub end: Option<Box<End>>,
}

impl Node {
    /// Whether anything is still in its hands.
    pub fn is_busy(&self) -> bool {
        !self.backlog.is_empty()
            || self.retry.is_some()
            || self.more
            || matches!(&self.worker, Worker::Offloaded(state)
                if !state.in_flight.is_empty() || !state.results.is_empty())
    }

    /// Elements begun and not concluded so far.
    pub fn unread(&self) -> u64 {
        let begun =
            matches!(&self.worker, Worker::Offloaded(state) if state.is_begun || state.left.is_some());
        let retried = self.retry.as_ref().is_some_and(|retry| retry.element.is_some());
        let single = [begun, retried, self.current.is_some()];
        self.given_up + self.held.len() as u64 + single.into_iter().map(u64::from).sum::<u64>()
    }

    /// The host's objects that the stage keeps.
    pub fn visit(&self, visit: &mut dyn FnMut(NonNull<()>)) {
        if let Worker::Inline(stage) = &self.worker {
            stage.visit(visit);
        }
    }

    pub fn heap_bytes(&self) -> usize {
        let ports: usize = self.ports.iter().map(|edges| size_of_val(&**edges) + 16).sum();
        let offload = match &self.worker {
            Worker::Offloaded(_) => size_of::<OffloadState>() + size_of::<Offload>(),
            Worker::Inline(stage) => size_of_val(&**stage),
        };
        size_of_val(&*self.inputs)
            + ports
            + offload
            + self.backlog.capacity() * size_of::<(u16, Element)>()
            + self.held.capacity() * size_of::<Element>()
    }
}
