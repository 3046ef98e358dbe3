//! A node of a running flow: its worker, its error policy, and the elements that it has not finished.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;

use torvyn_stream::{AckLog, Element, Emission, End, Stage, StageError, Step};

use crate::blueprint::{EdgeSpec, Role};
use crate::node_spec::NodeSpec;
use crate::offload::{Offload, TaskResult};
use crate::swap::Replacement;
use crate::unfinished::Unfinished;

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
    /// None: the node's stage is new and gets the element again.
    pub outcome: Option<Result<Step, StageError>>,
}

/// The edge of a list that has one. The highest number stands for none: no flow has so many edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Only(u16);

impl Only {
    pub const NONE: Self = Self(u16::MAX);

    fn of(edges: &[u16]) -> Self {
        match edges {
            [only] => Self(*only),
            _ => Self::NONE,
        }
    }

    #[inline(always)]
    pub fn edge(self) -> Option<usize> {
        (self.0 != u16::MAX).then_some(usize::from(self.0))
    }
}

/// The sequence number and time of the next outputs of a source or a resumed stage.
#[derive(Default)]
pub struct Stamp {
    pub sequence: u64,
    pub timestamp_ns: u64,
}

/// Whether a source waits, and until when.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Pending(u64);

impl Pending {
    pub const NO: Self = Self(0);

    /// Until this time, or until it is woken.
    pub fn until(time_ns: Option<u64>) -> Self {
        Self(time_ns.map_or(u64::MAX, |time_ns| time_ns.clamp(1, u64::MAX - 1)))
    }

    /// The time at which it ends by itself.
    pub fn due(self) -> Option<u64> {
        (self.0 > 0 && self.0 < u64::MAX).then_some(self.0)
    }

    pub fn is_over(self, now_ns: u64) -> bool {
        self.0 <= now_ns
    }
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

impl OffloadState {
    fn waiting_bytes(&self) -> usize {
        self.results.capacity() * size_of::<TaskResult>()
            + self.in_flight.capacity() * size_of::<Element>()
            + self.left.capacity() * size_of::<Element>()
            + self.exchange.waiting_bytes()
    }
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
    pub worker: Worker,
    pub spec: Arc<NodeSpec>,
    pub unfinished: Unfinished,
    pub next_sequence: u64,
    pub stamp: Stamp,
    /// A source waits for something to send.
    pub pending: Pending,
    /// The acknowledgements of a source that asks for them.
    pub acks: Option<Arc<AckLog>>,
    pub end: Option<Arc<End>>,
    pub cursor: u16,
    // What is asked for every element, from the specification.
    pub role: Role,
    /// The only edge that leads to it, and the only one that leaves its first port.
    pub only_input: Only,
    pub only_output: Only,
    pub phase: Phase,
    /// The stage may take several elements in one call.
    pub takes_batches: bool,
    /// A source returns several elements in one call.
    pub pulls_many: bool,
    pub more: bool,
    pub paused: bool,
    pub pressured: bool,
    /// Its stage is being exchanged: it takes no more elements, and finishes what it has begun.
    pub is_held: bool,
    /// Its stage is called for each element and nothing is tracked, so that most checks can be left out.
    pub is_plain: bool,
}

impl Node {
    /// A node that is not connected yet.
    pub fn new(spec: NodeSpec, worker: Worker) -> Self {
        let (takes_batches, pulls_many) = worker.batches();
        Self {
            worker,
            unfinished: Unfinished::default(),
            next_sequence: 0,
            stamp: Stamp::default(),
            pending: Pending::default(),
            acks: None,
            end: None,
            cursor: 0,
            role: spec.role,
            only_input: Only::NONE,
            only_output: Only::NONE,
            phase: Phase::Running,
            takes_batches,
            pulls_many,
            more: false,
            paused: false,
            pressured: false,
            is_held: false,
            is_plain: false,
            spec: Arc::new(spec),
        }
    }

    /// Changes what it was built with.
    pub fn respecify(&mut self, change: impl FnOnce(&mut NodeSpec)) {
        change(Arc::make_mut(&mut self.spec));
        self.spec = self.spec.clone().shared();
    }

    /// Fills in the edges that lead to the node at `index` and leave its ports.
    pub fn connect<'a>(&mut self, index: usize, numbered: impl Iterator<Item = (u16, &'a EdgeSpec)> + Clone) {
        self.cursor = 0;
        self.respecify(|spec| spec.connect(index, numbered));
        self.only_input = Only::of(&self.spec.inputs);
        self.only_output = self.spec.ports.first().map_or(Only::NONE, |edges| Only::of(edges));
    }

    /// The node's new worker goes on where the old one has stopped. What that asked for, such as a pause, was its own.
    pub fn take_over(&mut self) {
        (self.takes_batches, self.pulls_many) = self.worker.batches();
        self.paused = false;
        self.pending = Pending::NO;
        self.pressured = false;
        if let Some(unfinished) = self.unfinished.used() {
            unfinished.singles = 0;
        }
        if let Worker::Offloaded(new) = &mut self.worker {
            // It may have been halted when it was here before.
            new.exchange.restart(Vec::new());
        }
    }

    /// A worker with the policy and the budget of this node.
    pub fn replacement(&self, worker: Worker) -> Replacement {
        Replacement {
            worker,
            recovery: self.spec.recovery,
            retries: self.spec.retries,
            backoff: self.spec.backoff,
            budget_bytes: self.spec.budget_bytes,
        }
    }

    /// Whether it has unfinished elements.
    pub fn is_busy(&self) -> bool {
        self.unfinished.is_busy()
            || self.more
            || matches!(&self.worker, Worker::Offloaded(state)
                if !state.in_flight.is_empty() || !state.results.is_empty())
    }

    /// The number of elements that were started and are not finished.
    pub fn unread(&self) -> u64 {
        let begun = match &self.worker {
            Worker::Offloaded(state) => state.begun + state.left.len(),
            Worker::Inline(_) => 0,
        };
        let unfinished = &*self.unfinished;
        let retried = unfinished.retry.as_ref().is_some_and(|retry| retry.element.is_some());
        let single = [retried, unfinished.current.is_some()].into_iter().map(u64::from).sum::<u64>();
        unfinished.given_up + (unfinished.held.len() + begun + unfinished.answers.len()) as u64 + single
    }

    /// Visits the host's objects that the stage keeps.
    pub fn visit(&self, visit: &mut dyn FnMut(NonNull<()>)) {
        if let Worker::Inline(stage) = &self.worker {
            stage.visit(visit);
        }
    }

    /// What the elements take that wait in it, beside their payloads.
    pub fn waiting_bytes(&self) -> usize {
        let worker = match &self.worker {
            Worker::Offloaded(state) => state.waiting_bytes(),
            Worker::Inline(_) => 0,
        };
        worker + self.unfinished.waiting_bytes()
    }

    /// What else it takes beside the shared specification, with the part of a stage that belongs to the reactor.
    pub fn heap_bytes(&self) -> usize {
        let worker = match &self.worker {
            Worker::Offloaded(_) => size_of::<OffloadState>() + 2 * size_of::<usize>() + size_of::<Offload>(),
            Worker::Inline(stage) => stage.border_bytes(),
        };
        let acks = self.acks.as_ref().map_or(0, |acks| 2 * size_of::<usize>() + acks.size_bytes());
        worker + acks + self.unfinished.heap_bytes()
    }
}
