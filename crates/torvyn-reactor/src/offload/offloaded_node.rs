//! Running nodes whose component is offloaded: hands out batches, collects results, grants credit.

use torvyn_stream::{Foreign, StageError, Step};

use crate::blueprint::{Recovery, Role};
use crate::core::Core;
use crate::edges::Accepts;
use crate::ends;
use crate::node::{OffloadState, Phase, Stamp, Worker};
use crate::offload::{Credit, Task, TaskResult};
use crate::shared_state::Failure;

const MAX_BATCH: usize = 64;
/// The most elements that a component gets in one call.
pub(crate) const MAX_CALL: usize = 1024;

impl Core {
    pub(crate) fn offload(&mut self, index: usize) -> Option<&mut OffloadState> {
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
        let limit = self.edges.shared.limit();
        if self.pulled >= limit {
            self.stop_own_sources();
        }
        let node = &self.nodes[index];
        let waits = node.unfinished.retry.as_ref().is_some_and(|retry| retry.at_ns > self.now_ns);
        if node.is_held || self.is_held_for_checkpoint(index) {
            self.grant_credit(index, 0);
        } else if node.phase == Phase::Running && !waits {
            let left = if limit == u64::MAX { usize::MAX } else { self.left_of(limit, index) };
            // READY comes first: the source knows of it before it is pulled again.
            self.tell_pressure(index);
            self.grant_credit(index, left);
        }
        Ok(done)
    }

    /// The rest of a limit for one source, less what the others were granted.
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

    /// Grants what the component may emit: the free capacity after it, less the results not yet settled.
    fn grant_credit(&mut self, index: usize, most: usize) {
        let node = &self.nodes[index];
        let room = self.edges.free_slots(node).min(most).min(MAX_BATCH);
        let free_bytes = self.edges.free_bytes(node);
        if let Some(state) = self.offload(index) {
            let waiting = state.results.iter().map(TaskResult::used);
            let waiting = waiting.fold((0, 0), |(e, b), used| (e + used.elements, b + used.bytes));
            let elements = room.saturating_sub(waiting.0);
            let bytes = free_bytes.saturating_sub(waiting.1);
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

    /// Collects delivered results; they are settled when there is capacity.
    pub(crate) fn collect_results(&mut self, index: usize) {
        if let Some(OffloadState { exchange, results, .. }) = self.offload(index) {
            exchange.collect(results);
        }
    }

    /// Settles the collected results as far as there is capacity for their outputs.
    fn take_results(&mut self, index: usize) -> Result<usize, Failure> {
        self.collect_results(index);
        let mut done = 0;
        loop {
            if self.nodes[index].phase == Phase::Finished || self.edges.free_slots(&self.nodes[index]) == 0 {
                break;
            }
            if !self.nodes[index].unfinished.has_retry() && self.nodes[index].unfinished.has_answers() {
                self.conclude_answer(index)?;
                done += 1;
                continue;
            }
            let Some(state) = self.offload(index) else { break };
            let Some(mut finished) = state.results.pop_front() else { break };
            done += 1;
            let (is_last, end) = (finished.last, finished.end.take());
            let is_source = self.nodes[index].role == Role::Source;
            let concluded = if is_source && self.pulled >= self.edges.shared.limit() {
                self.conclude_surplus(index, finished)
            } else {
                self.conclude_result(index, finished)
            };
            if let Err(failure) = concluded {
                self.settle_loan(index);
                return Err(failure);
            }
            if is_last {
                let end = end.map(ends::shared).or_else(|| self.nodes[index].end.take());
                self.finish_when_empty(index, end);
            }
        }
        if done > 0 {
            self.settle_loan(index);
        }
        Ok(done)
    }

    /// Settles one result: sends its outputs and concludes its element.
    pub(crate) fn conclude_result(&mut self, index: usize, finished: TaskResult) -> Result<(), Failure> {
        let is_source = self.nodes[index].role == Role::Source;
        // A paused sink's worker delivers nothing else until it is resumed.
        self.nodes[index].paused = false;
        // Outputs before the result do not end the attempt.
        let is_answer = finished.consumed || finished.last || is_source;
        // A retry that still has its element belongs to an earlier result of the same call.
        let is_waiting =
            self.nodes[index].unfinished.retry.as_ref().is_some_and(|retry| retry.element.is_some());
        let retry = if is_answer && !is_waiting { self.nodes[index].unfinished.take_retry() } else { None };
        let attempt = if is_waiting { u32::MAX } else { retry.map_or(0, |retry| retry.attempt) };
        if is_source {
            self.pulled += finished.made.len() as u64;
        }
        let element = if finished.consumed { self.take_front(index) } else { None };
        let (has_failed, is_followed) = (finished.has_failed(), finished.followed);
        if let Some(state) = self.offload(index) {
            state.held_elements = finished.held_elements;
        }
        if !is_answer {
            self.stamp_early_outputs(index);
        }
        self.outbox.made.extend(finished.made);
        self.outbox.ports.extend(finished.ports);
        if finished.last {
            self.return_front(index);
            return self.conclude_last(index, finished.outcome);
        }
        let concluded = self.conclude(index, element, finished.outcome, attempt);
        if has_failed && concluded.is_err() {
            // The worker waits and starts nothing more.
            return concluded;
        }
        let is_retried = self.nodes[index].unfinished.has_retry();
        if has_failed && let Some(state) = self.offload(index) {
            // Elements after one that is retried are given to the worker again together with it.
            let rest = state.in_flight.iter().filter(|_| !is_retried);
            state.exchange.restart(rest.map(|element| Task::Accept(element.detached())).collect());
        }
        if is_followed && is_retried {
            self.set_results_aside(index);
        }
        self.begin_front(index);
        concluded
    }

    /// A source's item that came after the limit was reached: it is counted and dropped.
    fn conclude_surplus(&mut self, index: usize, finished: TaskResult) -> Result<(), Failure> {
        let before = self.set_accepts(index, Accepts::Nothing);
        let concluded = self.conclude_result(index, finished);
        self.restore_accepts(index, &before);
        concluded
    }

    /// Outputs of a generator or a stream before its result belong to the element in flight: they get its number, time
    /// and attributes.
    fn stamp_early_outputs(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let Worker::Offloaded(state) = &node.worker else { return };
        if let Some(element) = state.in_flight.front() {
            node.stamp = Stamp { sequence: element.sequence, timestamp_ns: element.timestamp_ns };
            node.unfinished.set_attributes(element.companion.as_ref().and_then(Foreign::inherit));
        }
    }

    /// A flush, a completion or the end of a source or stream. Only a flush is subject to the node's policy.
    fn conclude_last(&mut self, index: usize, outcome: Result<Step, StageError>) -> Result<(), Failure> {
        let method = match self.nodes[index].role {
            Role::Sink => "complete",
            Role::Source => "pull",
            _ => "flush",
        };
        // A completion has no element to skip, and a stage that ends before its input cannot continue with the next.
        let is_early = self.offload(index).is_some_and(|state| !state.closing);
        if method == "complete" || (is_early && outcome.is_err()) {
            self.nodes[index].respecify(|spec| spec.recovery = Recovery::FailFast);
        }
        let concluded = self.conclude(index, None, outcome, u32::MAX);
        concluded.map_err(|failure| Failure { method, ..failure })
    }

    fn hand_batch(&mut self, index: usize) -> usize {
        let node = &self.nodes[index];
        let room = self.edges.free_slots(node);
        if node.phase != Phase::Running || room == 0 || node.paused {
            return 0;
        }
        let now_ns = self.now_ns;
        // What is handed over can no longer become too old.
        let is_single = node.spec.retries > 0 || node.spec.drops_stale();
        let is_behind = node.unfinished.has_answers();
        if let Some(retry) = &node.unfinished.retry {
            if retry.at_ns > now_ns || retry.element.is_none() {
                return 0;
            }
            return self.hand_retry(index);
        }
        if node.is_held {
            return 0;
        }
        let Some(state) = self.offload(index) else { return 0 };
        if !state.in_flight.is_empty() || state.closing || !state.results.is_empty() || is_behind {
            return 0;
        }
        // The same rule as for sources: a component that keeps up gets larger batches.
        let quick = now_ns.saturating_sub(state.handed_ns) < 1_000_000;
        state.batch = match quick && !is_single {
            _ if state.in_batches => MAX_CALL,
            true => (state.batch * 2).min(MAX_BATCH),
            false => 1,
        };
        state.handed_ns = now_ns;
        let most = state.batch.min(room);
        self.fill_hand(index, most)
    }

    fn hand_retry(&mut self, index: usize) -> usize {
        let retry = self.nodes[index].unfinished.used().and_then(|unfinished| unfinished.retry.as_mut());
        let element = retry.and_then(|retry| retry.element.take());
        let (Some(element), Some(state)) = (element, self.offload(index)) else { return 0 };
        state.in_flight.push_front(element);
        // It was counted as received before its first attempt.
        state.begun += 1;
        let tasks: Vec<_> = state.in_flight.iter().map(|element| Task::Accept(element.detached())).collect();
        state.exchange.hand_over(tasks, None);
        1
    }

    /// Takes a batch from one input, the next in turn.
    fn fill_hand(&mut self, index: usize, most: usize) -> usize {
        let node = &mut self.nodes[index];
        let Some(edge) = self.edges.next_input(node) else { return 0 };
        let lender = node.spec.inputs.iter().position(|&input| usize::from(input) == edge).unwrap_or(0);
        let queue = &mut self.edges.list[edge].queue;
        let batch: Vec<_> = std::iter::from_fn(|| queue.pop()).take(most).collect();
        let taken = batch.len();
        let Some(state) = self.offload(index) else { return 0 };
        state.lender = lender as u16;
        let tasks: Vec<_> = batch.iter().map(|element| Task::Accept(element.detached())).collect();
        state.in_flight.extend(batch);
        let exchange = state.exchange.clone();
        self.begin_front(index);
        // The loan is noted before the worker is woken, because the result may come at once.
        self.settle_loan(index);
        exchange.hand_over(tasks, None);
        taken
    }

    /// Requests the flush of a stage whose input has ended, or a sink's completion.
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
