//! A node of a running flow: its worker, its error policy, and the elements that it has not finished.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

use torvyn_stream::{AckLog, Element, Emission, End, Foreign, Policy, Stage, StageError, Step};

use crate::absorbed::Absorbed;
use crate::backoff::Backoff;
use crate::blueprint::{EdgeSpec, Recovery, Role};
use crate::offload::{Offload, TaskResult};
use crate::swap::{Replacement, Trial};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Running,
    /// The input has ended; `flush` was called and its outputs are leaving.
    Flushing,
    /// The node sends nothing more.
    Finished,
}

pub struct Retry {
    pub element: Option<Element>,
    pub attempt: u32,
    pub at_ns: u64,
}

/// The result of an element of a batch that waits for the retry of one before it.
pub struct Answer {
    pub element: Element,
    pub made: Vec<Emission>,
    pub outcome: Result<Step, StageError>,
}

/// The sequence number, time and attributes of the next outputs of a source or a resumed stage.
#[derive(Default)]
pub struct Stamp {
    pub sequence: u64,
    pub timestamp_ns: u64,
    pub attributes: Option<Foreign>,
}

/// The state of a node whose stage runs outside the turns.
pub struct OffloadState {
    pub exchange: Arc<Offload>,
    pub results: VecDeque<TaskResult>,
    /// Elements sent to the worker whose results have not arrived, oldest first. The worker has copies.
    pub in_flight: VecDeque<Element>,
    /// How many elements an aggregator held when it gave the result that is being settled; None if it cannot say.
    pub held_elements: Option<usize>,
    /// The worker gives its component all that it takes in one call.
    pub in_batches: bool,
    /// How many of them, from the oldest, count as received: one, or all with `in_batches`. The others still count as
    /// waiting in their queue.
    pub begun: usize,
    /// The elements that the worker was working on when it was stopped.
    pub left: Vec<Element>,
    /// The edge they came from: all but the one being worked on still count as waiting there.
    pub lender: u16,
    pub batch: usize,
    pub handed_ns: u64,
    /// A flush or completion was sent and is not answered yet.
    pub closing: bool,
}

/// Who calls a node's stage.
pub enum Worker {
    /// The thread that runs the turn.
    Inline(Box<dyn Stage>),
    /// A thread or an event loop outside the turns, through an exchange of tasks and results.
    Offloaded(Box<OffloadState>),
}

impl Worker {
    pub fn offloaded(exchange: Arc<Offload>) -> Self {
        let in_batches = exchange.in_batches();
        Self::Offloaded(Box::new(OffloadState {
            exchange,
            results: VecDeque::new(),
            in_flight: VecDeque::new(),
            held_elements: None,
            in_batches,
            begun: 0,
            left: Vec::new(),
            lender: 0,
            batch: 1,
            handed_ns: 0,
            closing: false,
        }))
    }

    /// Whether its stage takes batches, and whether it returns them.
    fn batches(&self) -> (bool, bool) {
        match self {
            Self::Inline(stage) => (stage.batch_limit() > 1, stage.pulls_many()),
            Self::Offloaded(_) => (false, false),
        }
    }
}

pub struct Node {
    pub role: Role,
    pub worker: Worker,
    pub phase: Phase,
    pub recovery: Recovery,
    pub retries: u32,
    pub backoff: Backoff,
    pub budget_bytes: u64,
    pub inputs: Box<[u16]>,
    pub ports: Box<[Box<[u16]>]>,
    /// The id of each port, as emissions name it; empty if the node sends to its first port only.
    pub port_ids: Box<[u16]>,
    /// Whether the stage is told which input an element comes from.
    pub tells_input: bool,
    /// Outputs that did not fit into their queue yet, with the edge of each.
    pub backlog: VecDeque<(u16, Element)>,
    pub held: VecDeque<Element>,
    pub retry: Option<Box<Retry>>,
    /// The stage may take several elements in one call.
    pub takes_batches: bool,
    /// A source returns several elements in one call.
    pub pulls_many: bool,
    /// A batch has failed: so many elements are given to the stage one by one.
    pub singles: usize,
    pub answers: VecDeque<Answer>,
    pub more: bool,
    /// The element whose generator is not exhausted yet.
    pub current: Option<Element>,
    /// Elements that were started and never finished.
    pub given_up: u64,
    /// Some input drops or fails when it is full, so the reactor checks after each run whether the node stalls.
    pub watches_inputs: bool,
    pub paused: bool,
    /// A source returned `pending`; the inner value is the time until which it waits.
    pub pending: Option<Option<u64>>,
    pub pressured: bool,
    pub cursor: u16,
    pub next_sequence: u64,
    pub stamp: Stamp,
    pub end: Option<Box<End>>,
    /// The acknowledgements of a source that asks for them.
    pub acks: Option<Arc<AckLog>>,
    /// The receipts of the elements inside an aggregator or a guard.
    pub absorbed: Absorbed,
    /// One end of an edge that leaves the process. Its elements do not count against a flow's limit.
    pub is_carrier: bool,
    /// Its stage is being exchanged: it takes no more elements, and finishes what it has begun.
    pub is_held: bool,
    /// Its stage is new, and the one before waits until it has proved itself.
    pub trial: Option<Box<Trial>>,
    /// Its stage is called for each element and nothing is tracked, so that most checks can be left out.
    pub is_plain: bool,
}

impl Node {
    /// A node that is not connected yet. With `Recovery::DeadLetter` the last of its ports takes failed elements.
    pub fn new(role: Role, worker: Worker, ports: usize) -> Self {
        let (takes_batches, pulls_many) = worker.batches();
        Self {
            role,
            worker,
            phase: Phase::Running,
            recovery: Recovery::FailFast,
            retries: 0,
            backoff: Backoff::default(),
            budget_bytes: u64::MAX,
            inputs: Box::default(),
            ports: (0..ports).map(|_| Box::default()).collect(),
            port_ids: Box::default(),
            tells_input: false,
            backlog: VecDeque::new(),
            held: VecDeque::new(),
            retry: None,
            takes_batches,
            pulls_many,
            singles: 0,
            answers: VecDeque::new(),
            more: false,
            current: None,
            given_up: 0,
            watches_inputs: false,
            paused: false,
            pending: None,
            pressured: false,
            cursor: 0,
            next_sequence: 0,
            stamp: Stamp::default(),
            end: None,
            acks: None,
            absorbed: Absorbed::default(),
            is_carrier: false,
            is_held: false,
            trial: None,
            is_plain: false,
        }
    }

    /// Fills in the edges that lead to the node at `index` and leave its ports.
    pub fn connect<'a>(&mut self, index: usize, numbered: impl Iterator<Item = (u16, &'a EdgeSpec)> + Clone) {
        let inputs = numbered.clone().filter(|(_, edge)| edge.target == Some(index));
        self.cursor = 0;
        self.watches_inputs = inputs.clone().any(|(_, edge)| edge.policy != Policy::Block);
        self.inputs = inputs.map(|(number, _)| number).collect();
        for (port, leaving) in self.ports.iter_mut().enumerate() {
            let edges = numbered.clone().filter(|(_, edge)| edge.source == Some((index, port)));
            *leaving = edges.map(|(number, _)| number).collect();
        }
    }

    /// The node's new worker goes on where `old` has stopped. What the old stage asked for, such as a pause, was its own.
    pub fn take_over(&mut self, old: &mut Worker) {
        (self.takes_batches, self.pulls_many) = self.worker.batches();
        self.paused = false;
        self.pending = None;
        self.pressured = false;
        self.singles = 0;
        if let Worker::Offloaded(new) = &mut self.worker {
            // It may have been halted when it was here before.
            new.exchange.restart(Vec::new());
            if let Worker::Offloaded(old) = old {
                new.in_flight = std::mem::take(&mut old.in_flight);
                new.begun = std::mem::take(&mut old.begun);
                new.lender = old.lender;
            }
        }
    }

    /// A worker with the policy and the budget of this node.
    pub fn replacement(&self, worker: Worker) -> Replacement {
        Replacement {
            worker,
            recovery: self.recovery,
            retries: self.retries,
            backoff: self.backoff,
            budget_bytes: self.budget_bytes,
        }
    }

    /// Whether it has unfinished elements.
    pub fn is_busy(&self) -> bool {
        !self.backlog.is_empty()
            || self.retry.is_some()
            || self.more
            || !self.answers.is_empty()
            || matches!(&self.worker, Worker::Offloaded(state)
                if !state.in_flight.is_empty() || !state.results.is_empty())
    }

    /// The number of elements that were started and are not finished.
    pub fn unread(&self) -> u64 {
        let begun = match &self.worker {
            Worker::Offloaded(state) => state.begun + state.left.len(),
            Worker::Inline(_) => 0,
        };
        let retried = self.retry.as_ref().is_some_and(|retry| retry.element.is_some());
        let single = [retried, self.current.is_some()].into_iter().map(u64::from).sum::<u64>();
        self.given_up + (self.held.len() + begun + self.answers.len()) as u64 + single
    }

    /// Visits the host's objects that the stage keeps.
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
            + self.answers.capacity() * size_of::<Answer>()
            + self.absorbed.capacity_bytes()
    }
}
