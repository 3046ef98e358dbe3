//! The reactor's side of offloaded stages: batches out, results in, credit kept honest.

use torvyn_stream::{Element, StageError, Step};

use crate::blueprint::{Recovery, Role};
use crate::core::Core;
use crate::node::{OffloadState, Phase, Worker};
use crate::offload::{Credit, Finished, Task};
use crate::shared::Failure;

const MAX_BATCH: usize = 64;

impl Core {
    fn offload(&mut self, index: usize) -> Option<&mut OffloadState> {
        match &mut self.nodes[index].worker {
            Worker::Offloaded(state) => Some(state),
            Worker::Inline(_) => None,
        }
    }

    pub(crate) fn run_offloaded_source(&mut self, index: usize) -> Result<usize, Failure> {
        let done = self.take_results(index)?;
        if self.nodes[index].phase == Phase::Flushing {
            return Ok(done + usize::from(self.finish_if_ended(index)?));
        }
        let limit = self.wires.shared.limit.get();
        if limit != 0 && self.pulled >= limit {
            self.stop_sources();
        }
        let node = &self.nodes[index];
        let waits = node.retry.as_ref().is_some_and(|retry| retry.at_ns > self.now_ns);
        if node.phase == Phase::Running && !waits {
            let left = if limit == 0 { usize::MAX } else { self.left_of(limit, index) };
            // READY first: a source that is asked again has heard of it.
            self.tell_pressure(index);
            self.grant_credit(index, left);
        }
        Ok(done)
    }

    /// What is left of a limit for one source, with what the others have been granted set aside.
    fn left_of(&self, limit: u64, index: usize) -> usize {
        let others =
            self.nodes.iter().enumerate().filter(|(at, node)| *at != index && node.role == Role::Source);
        let granted = others.map(|(_, node)| match &node.worker {
            Worker::Offloaded(state) if node.phase == Phase::Running => {
                state.exchange.outstanding() + state.results.len()
            }
            _ => 0,
        });
        ((limit - self.pulled) as usize).saturating_sub(granted.sum())
    }

    /// What the component may make before it must ask again: the room behind it, less what is on its way.
    fn grant_credit(&mut self, index: usize, most: usize) {
        let node = &self.nodes[index];
        let room = self.wires.room(node).min(most).min(MAX_BATCH);
        let byte_room = self.wires.byte_room(node);
        if let Some(state) = self.offload(index) {
            let waiting = state.results.iter().map(Finished::used);
            let waiting = waiting.fold((0, 0), |(e, b), used| (e + used.elements, b + used.bytes));
            let elements = room.saturating_sub(waiting.0);
            let bytes = byte_room.saturating_sub(waiting.1);
            let elements = if bytes == 0 { 0 } else { elements };
            state.exchange.hand_over([], Some(Credit { elements, bytes }));
        }
    }

    pub(crate) fn run_offloaded(&mut self, index: usize) -> Result<usize, Failure> {
        let done = self.take_results(index)?;
        let handed = self.hand_batch(index);
        self.grant_credit(index, usize::MAX);
        Ok(done.max(handed) + usize::from(self.finish_if_ended(index)?))
    }

    /// Fetches what an offloaded stage has delivered; it is settled when there is room.
    pub(crate) fn collect_results(&mut self, index: usize) {
        if let Some(OffloadState { exchange, results, .. }) = self.offload(index) {
            exchange.collect(results);
        }
    }

    /// Settles the results that are there, as far as there is room for what they made.
    fn take_results(&mut self, index: usize) -> Result<usize, Failure> {
        self.collect_results(index);
        let mut done = 0;
        loop {
            if self.nodes[index].phase == Phase::Finished || self.wires.room(&self.nodes[index]) == 0 {
                break;
            }
            let Some(state) = self.offload(index) else { break };
            let Some(finished) = state.results.pop_front() else { break };
            let element = if finished.consumed { state.in_hand.pop_front() } else { None };
            // What is made before the answer is known does not end the attempt.
            let is_answer = finished.consumed || finished.last || self.nodes[index].role == Role::Source;
            let retry = if is_answer { self.nodes[index].retry.take() } else { None };
            let attempt = retry.map_or(0, |retry| retry.attempt);
            done += 1;
            if self.nodes[index].role == Role::Source {
                self.pulled += finished.made.len() as u64;
            }
            if finished.consumed && attempt == 0 {
                self.wires.shared.nodes[index].received.add(1);
            }
            self.outbox.made.extend(finished.made);
            self.outbox.ports.extend(finished.ports);
            let outcome = finished.outcome;
            if !finished.last {
                self.conclude(index, element, outcome, attempt)?;
            } else {
                self.conclude_last(index, outcome)?;
                let end = finished.end.or_else(|| self.nodes[index].end.take().map(|end| *end));
                self.finish_when_empty(index, end);
            }
        }
        if done > 0 {
            self.settle_loan(index);
        }
        Ok(done)
    }

    /// A flush, a completion or a source's end. No policy speaks of a completion: there is no element to skip.
    fn conclude_last(&mut self, index: usize, outcome: Result<Step, StageError>) -> Result<(), Failure> {
        let method = match self.nodes[index].role {
            Role::Sink => "complete",
            Role::Source => "pull",
            _ => "flush",
        };
        if method == "complete" {
            self.nodes[index].recovery = Recovery::FailFast;
        }
        let concluded = self.conclude(index, None, outcome, u32::MAX);
        concluded.map_err(|failure| Failure { method, ..failure })
    }

    /// Drops what an offloaded stage has not begun, unless it is marked to be kept, and what its answers were
    /// about to send.
    pub(crate) fn recall(&mut self, index: usize, gone: &mut Vec<Element>) {
        let Some(state) = self.offload(index) else { return };
        let begun = state.exchange.recall(state.in_hand.len(), &mut state.results);
        let (kept, dropped): (Vec<_>, Vec<_>) =
            state.in_hand.split_off(begun).into_iter().partition(Element::keep);
        let mut elements = state.in_hand.iter();
        for finished in &mut state.results {
            finished.made.retain(|emission| emission.keep);
            let about = if finished.consumed { elements.next() } else { None };
            if matches!(finished.outcome, Ok(Step::Forward)) && !about.is_some_and(Element::keep) {
                finished.outcome = Ok(Step::Done);
            }
        }
        let tasks: Vec<_> = kept.iter().map(|element| Task::Accept(element.detached())).collect();
        state.in_hand.extend(kept);
        state.exchange.hand_over(tasks.into_iter().chain([Task::Interrupt]), None);
        gone.extend(dropped);
        self.settle_loan(index);
    }

    /// All of a batch but the element being worked on still counts as waiting in the queue it came from.
    fn settle_loan(&mut self, index: usize) {
        let Some(state) = self.offload(index) else { return };
        let waiting = state.in_hand.len().saturating_sub(1);
        let bytes = state.in_hand.iter().skip(1).map(|element| element.len as usize).sum();
        let lender = usize::from(state.lender);
        let Some(&edge) = self.nodes[index].inputs.get(lender) else { return };
        self.wires.edges[usize::from(edge)].queue.lend(waiting, bytes);
    }

    fn hand_batch(&mut self, index: usize) -> usize {
        let node = &self.nodes[index];
        let room = self.wires.room(node);
        if node.phase != Phase::Running || room == 0 {
            return 0;
        }
        let now_ns = self.now_ns;
        let retries = node.retries;
        if let Some(retry) = &node.retry {
            if retry.at_ns > now_ns || retry.element.is_none() {
                return 0;
            }
            return self.hand_retry(index);
        }
        let Some(state) = self.offload(index) else { return 0 };
        if !state.in_hand.is_empty() || state.closing || !state.results.is_empty() {
            return 0;
        }
        // The same rule as for sources: a component that keeps up gets more at a time.
        let quick = now_ns.saturating_sub(state.handed_ns) < 1_000_000;
        state.batch = if quick && retries == 0 { (state.batch * 2).min(MAX_BATCH) } else { 1 };
        state.handed_ns = now_ns;
        let most = state.batch.min(room);
        self.fill_hand(index, most)
    }

    fn hand_retry(&mut self, index: usize) -> usize {
        let element = self.nodes[index].retry.as_mut().and_then(|retry| retry.element.take());
        let (Some(element), Some(state)) = (element, self.offload(index)) else { return 0 };
        state.exchange.hand_over([Task::Accept(element.detached())], None);
        state.in_hand.push_back(element);
        1
    }

    /// Takes a batch from one input, the next in turn.
    fn fill_hand(&mut self, index: usize, most: usize) -> usize {
        let node = &mut self.nodes[index];
        let Some(edge) = self.wires.next_input(node) else { return 0 };
        let lender = node.inputs.iter().position(|&input| usize::from(input) == edge).unwrap_or(0);
        let queue = &mut self.wires.edges[edge].queue;
        let batch: Vec<_> = std::iter::from_fn(|| queue.pop()).take(most).collect();
        let taken = batch.len();
        let Some(state) = self.offload(index) else { return 0 };
        state.lender = lender as u16;
        let tasks: Vec<_> = batch.iter().map(|element| Task::Accept(element.detached())).collect();
        state.in_hand.extend(batch);
        let exchange = state.exchange.clone();
        // The loan is noted before the worker is woken: it may answer at once.
        self.settle_loan(index);
        exchange.hand_over(tasks, None);
        taken
    }

    /// Asks for the flush of a stage whose input has ended, or for a sink's completion.
    pub(crate) fn ask_to_close(&mut self, index: usize, task: Task) -> bool {
        let Some(state) = self.offload(index) else { return false };
        if state.closing {
            return false;
        }
        state.closing = true;
        state.exchange.hand_over([task], None);
        true
    }
}
