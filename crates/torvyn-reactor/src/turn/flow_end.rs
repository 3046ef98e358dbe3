//! How streams and flows end: in order, drained, interrupted, cancelled or failed. Every element is accounted for.

use std::sync::Arc;

use torvyn_stream::{End, ErrorKind, StageError, Step};

use crate::blueprint::Role;
use crate::core::Core;
use crate::edges::Accepts;
use crate::ends;
use crate::node::{Node, Phase, Worker};
use crate::offload::Task;
use crate::shared_state::{Failure, FailureKind, State};

impl Core {
    /// Sources end here; what is already inside goes on to the sinks.
    pub(crate) fn stop_sources(&mut self) {
        self.stop_sources_that(|_| true);
    }

    /// The sources end that are not the end of an edge: what has left the process still comes back.
    pub(crate) fn stop_own_sources(&mut self) {
        self.stop_sources_that(|node| !node.spec.is_carrier);
    }

    fn stop_sources_that(&mut self, ends: impl Fn(&Node) -> bool) {
        if self.edges.shared.state() == State::Running {
            self.edges.shared.set_state(State::Draining);
        }
        for index in 0..self.nodes.len() {
            let node = &self.nodes[index];
            if node.role == Role::Source && node.phase == Phase::Running && ends(node) {
                self.stop_source(index);
            }
        }
        if let Some(entry) = self.entry {
            let edge = &mut self.edges.list[usize::from(entry)];
            edge.closed.get_or_insert_with(|| ends::because("stop"));
        }
    }

    /// What a source has made and could not send yet still leaves; then it is finished.
    fn stop_source(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.unfinished.take_retry();
        if let Worker::Offloaded(state) = &mut node.worker {
            state.exchange.stop_after(&mut state.results);
        }
        if node.is_busy() {
            node.phase = Phase::Flushing;
            node.end = Some(ends::because("stop"));
        } else {
            self.finish_node(index, ends::because("stop"));
        }
    }

    /// The caller will feed no more, and says how the stream ended.
    pub(crate) fn close_entry(&mut self, end: End) {
        if let Some(entry) = self.entry {
            self.edges.list[usize::from(entry)].closed = Some(ends::shared(end));
        }
    }

    /// Deadlines of the flow. True when they ended it.
    pub(crate) fn check_time(&mut self) -> Result<bool, Failure> {
        if self.deadline_ns <= self.now_ns {
            return Err(Failure {
                kind: FailureKind::DeadlineExceeded,
                node: None,
                edge: None,
                sequence: None,
                method: "run",
                error: StageError::new(ErrorKind::DeadlineExceeded, "the flow's deadline has passed"),
            });
        }
        if self.drain_until_ns <= self.now_ns {
            self.give_up();
            return Ok(true);
        }
        Ok(false)
    }

    /// When a node's input has ended and its hands are empty: flush, then close. True when something happened.
    pub(crate) fn finish_if_ended(&mut self, index: usize) -> Result<bool, Failure> {
        let node = &self.nodes[index];
        if node.phase == Phase::Finished || node.paused || node.is_held || node.is_busy() {
            return Ok(false);
        }
        if node.phase == Phase::Flushing {
            let end = self.nodes[index].end.take();
            return self.close_node(index, end.unwrap_or_else(|| ends::because("stop")));
        }
        let Some(end) = self.edges.input_end(node).cloned() else { return Ok(false) };
        let sink = node.role == Role::Sink;
        if sink && self.failing {
            // `complete` belongs to streams that ended in order.
            self.finish_node(index, end);
            return Ok(true);
        }
        if let Worker::Offloaded(_) = node.worker {
            let told = End::clone(&end);
            let task = if sink { Task::Complete(told) } else { Task::Flush(told) };
            self.nodes[index].end.get_or_insert(end);
            return Ok(self.ask_to_close(index, task));
        }
        self.let_held_go(index)?;
        self.nodes[index].phase = Phase::Flushing;
        self.nodes[index].end = Some(end);
        if self.nodes[index].role != Role::Sink {
            self.call(index, Step::Done)?;
        }
        if self.nodes[index].phase == Phase::Flushing && !self.nodes[index].is_busy() {
            self.finish_if_ended(index)?;
        }
        Ok(true)
    }

    fn close_node(&mut self, index: usize, end: Arc<End>) -> Result<bool, Failure> {
        let node = &mut self.nodes[index];
        if let (Role::Sink, Worker::Inline(stage)) = (node.role, &mut node.worker)
            && !self.failing
            && let Err(error) = stage.complete(&end)
        {
            self.edges.shared.nodes[index].rare.count().errors.add(1);
            return Err(Failure {
                kind: FailureKind::Component,
                node: Some(index),
                edge: None,
                sequence: None,
                method: "complete",
                error,
            });
        }
        self.finish_node(index, end);
        Ok(true)
    }

    /// An offloaded stage has said its last word; its node closes when what it made has left.
    pub(crate) fn finish_when_empty(&mut self, index: usize, end: Option<Arc<End>>) {
        let end = end.unwrap_or_else(|| ends::because("stop"));
        if self.let_held_go(index).is_ok() && !self.nodes[index].unfinished.has_backlog() {
            self.finish_node(index, end);
        } else {
            self.nodes[index].phase = Phase::Flushing;
            self.nodes[index].end = Some(end);
        }
    }

    /// Nothing more comes from this node: those after it see the end, those before it see that nobody listens.
    pub(crate) fn finish_node(&mut self, index: usize, end: Arc<End>) {
        self.nodes[index].phase = Phase::Finished;
        self.close_worker(index);
        let node = &mut self.nodes[index];
        for &edge in node.spec.ports.iter().flatten() {
            let edge = &mut self.edges.list[usize::from(edge)];
            edge.closed.get_or_insert_with(|| end.clone());
        }
        let is_settled = !self.failing && end.finish_reason != "cancelled";
        node.end = Some(end);
        self.empty_hands(index);
        self.drop_absorbed(index, is_settled);
        self.stop_listening(index);
    }

    pub(crate) fn stop_listening(&mut self, index: usize) {
        let inputs = self.nodes[index].spec.inputs.clone();
        for &edge in &inputs {
            let at = usize::from(edge);
            self.edges.list[at].accepts = Accepts::Nothing;
            for element in self.edges.list[at].queue.discard() {
                self.edges.release_unread(element);
            }
            let Some(source) = self.edges.list[at].source.node() else { continue };
            let edges = &self.edges.list;
            let unheard = |&edge: &u16| edges[usize::from(edge)].is_dead();
            let node = &self.nodes[source];
            if node.phase != Phase::Finished && node.spec.ports.iter().flatten().all(unheard) {
                self.finish_node(source, ends::because("cancelled"));
            }
        }
    }

    pub(crate) fn empty_hands(&mut self, index: usize) {
        // The component has answered: a failure is counted, and no policy applies.
        let _ = self.settle_answers(index, Accepts::Nothing);
        let node = &mut self.nodes[index];
        node.more = false;
        let mut left = Vec::new();
        if let Some(unfinished) = node.unfinished.used() {
            for (edge, element) in std::mem::take(&mut unfinished.backlog) {
                self.edges.leave_unread(edge, element);
            }
            left.extend(unfinished.held.drain(..));
            left.extend(unfinished.retry.take().and_then(|retry| retry.element));
            left.extend(unfinished.current.take().map(|current| *current));
            unfinished.given_up += left.len() as u64;
        }
        self.edges.shared.nodes[index].ledger.hold(0);
        left.into_iter().for_each(|element| self.edges.release_unread(element));
        self.leave_loan(index);
    }

    /// Cancelled, or not drained in time. A flow that was failing has failed.
    pub(super) fn give_up(&mut self) {
        if self.failing {
            self.abandon(State::Failed, End::because("error"));
        } else {
            self.abandon(State::Cancelled, End::because("cancelled"));
        }
    }

    /// Ends the flow at once: everything inside stays unread and is counted.
    pub(crate) fn abandon(&mut self, state: State, end: End) {
        for index in 0..self.nodes.len() {
            if self.nodes[index].phase != Phase::Finished {
                self.nodes[index].phase = Phase::Finished;
                self.close_worker(index);
            }
            self.empty_hands(index);
            self.drop_absorbed(index, false);
        }
        self.outbox.made.clear();
        for index in 0..self.edges.list.len() {
            // What has reached the exit of a flow that failed was delivered: the caller reads it, then the error.
            if state == State::Failed && self.edges.list[index].target.node().is_none() {
                continue;
            }
            for element in self.edges.list[index].queue.discard() {
                self.edges.release_unread(element);
            }
        }
        self.conclude_flow(state, ends::shared(end));
    }

    /// Whether all nodes are done; then the flow is.
    pub(crate) fn conclude_if_done(&mut self) -> bool {
        if self.edges.shared.state() == State::Running && self.sources_are_done() {
            self.edges.shared.set_state(State::Draining);
        }
        if self.nodes.iter().any(|node| node.phase != Phase::Finished) {
            return false;
        }
        let last = self.nodes.iter().filter(|node| node.role == Role::Sink || self.exit.is_some());
        let ends = last.filter_map(|node| node.end.as_ref());
        let is_special = |end: &&Arc<End>| end.finish_reason != "stop" || end.object.is_some();
        let end = self.exit_end().cloned().or_else(|| {
            let mut ends = ends.clone();
            ends.clone().find(is_special).or_else(|| ends.next()).cloned()
        });
        if self.failing {
            self.conclude_flow(State::Failed, ends::because("error"));
        } else {
            self.conclude_flow(State::Completed, end.unwrap_or_else(|| ends::because("stop")));
        }
        true
    }

    fn sources_are_done(&self) -> bool {
        let entry = self.entry.map(|entry| self.edges.list[usize::from(entry)].closed.is_some());
        let mut sources = self.nodes.iter().filter(|node| node.role == Role::Source);
        entry.unwrap_or(true) && sources.all(|node| node.phase == Phase::Finished)
    }

    /// Tells the worker that no more is wanted; what it has answered by now is counted.
    pub(crate) fn close_worker(&mut self, index: usize) {
        match &mut self.nodes[index].worker {
            Worker::Inline(stage) => stage.close(),
            Worker::Offloaded(state) => {
                state.exchange.stop_after(&mut state.results);
                self.count_results(index);
            }
        }
    }

    fn conclude_flow(&mut self, state: State, end: Arc<End>) {
        self.edges.shared.outcome().end.get_or_insert(end);
        self.edges.shared.set_state(state);
    }
}
