//! The elements that an offloaded stage has in flight: which one is started, which ones still count as waiting in their
//! queue, and what happens to both when the stage is interrupted or stopped.

use std::collections::VecDeque;

use torvyn_stream::{Element, Queue};

use crate::core::Core;
use crate::edges::Accepts;
use crate::offload::Task;
use crate::shared_state::Failure;

impl Core {
    /// The element that a result is about.
    pub(crate) fn take_front(&mut self, index: usize) -> Option<Element> {
        let state = self.offload(index)?;
        let was_begun = state.begun > 0;
        state.begun = state.begun.saturating_sub(1);
        let element = state.in_flight.pop_front();
        if element.is_some() && !was_begun {
            self.edges.shared.nodes[index].received.add(1);
        }
        element
    }

    /// Counts the oldest element in flight as received, or all of a batch: the worker starts them by itself, unless it
    /// is paused.
    pub(crate) fn begin_front(&mut self, index: usize) {
        let paused = self.nodes[index].paused;
        if let Some(state) = self.offload(index)
            && !paused
        {
            let handed = state.in_flight.len();
            let begun = if state.in_batches { handed } else { handed.min(1) };
            let news = begun.saturating_sub(state.begun);
            state.begun += news;
            self.edges.shared.nodes[index].received.add(news as u64);
        }
    }

    /// The worker has delivered its last result and will not start what it still has.
    pub(crate) fn return_front(&mut self, index: usize) {
        if let Some(state) = self.offload(index)
            && state.begun > 0
        {
            let begun = std::mem::take(&mut state.begun);
            self.edges.shared.nodes[index].received.subtract(begun as u64);
            self.settle_loan(index);
        }
    }

    /// An interrupt: drops the elements that the stage has not started, unless they are marked `keep`, and the outputs
    /// of its pending results.
    pub(crate) fn recall(&mut self, index: usize) -> Result<(), Failure> {
        let paused = self.nodes[index].paused;
        let Some(state) = self.offload(index) else { return Ok(()) };
        if state.exchange.is_stopped() {
            return Ok(());
        }
        let begun = state.exchange.recall(state.in_flight.len(), paused, &mut state.results);
        let rest = state.in_flight.split_off(begun);
        self.drop_recalled(index, rest);
        let before = self.set_accepts(index, Accepts::Kept);
        let mut result = Ok(());
        let Some(state) = self.offload(index) else { return Ok(()) };
        let (last, answers): (Vec<_>, Vec<_>) = state.results.drain(..).partition(|finished| finished.last);
        state.results.extend(last);
        for finished in answers {
            let concluded = self.conclude_result(index, finished);
            result = result.and(concluded);
        }
        self.restore_accepts(index, &before);
        self.begin_front(index);
        self.settle_loan(index);
        result
    }

    /// Drops the elements that were handed over and not started. Those marked `keep` go back to the worker.
    fn drop_recalled(&mut self, index: usize, mut rest: VecDeque<Element>) {
        let Some(state) = self.offload(index) else { return };
        // The first count as received although the worker has not started them; the others belong to the queue.
        let begun = state.begun.saturating_sub(state.in_flight.len()).min(rest.len());
        let waiting = rest.split_off(begun);
        let (mut kept, begun): (Vec<_>, Vec<_>) = rest.into_iter().partition(Element::keep);
        let (more, gone): (Vec<_>, Vec<_>) = waiting.into_iter().partition(Element::keep);
        kept.extend(more);
        let tasks: Vec<_> = kept.iter().map(|element| Task::Accept(element.detached())).collect();
        state.in_flight.extend(kept);
        state.begun -= begun.len();
        state.exchange.hand_over(tasks.into_iter().chain([Task::Interrupt]), None);
        if let Some(queue) = self.lender(index) {
            queue.drop_lent(gone.len());
        }
        if !begun.is_empty() {
            self.nodes[index].unfinished.fill().given_up += begun.len() as u64;
            // It may have been out for a retry, which gets no result now.
            if let Some(unfinished) = self.nodes[index].unfinished.used() {
                unfinished.retry.take_if(|retry| retry.element.is_none());
            }
        }
        gone.into_iter().chain(begun).for_each(|element| self.edges.release(element));
    }

    /// All elements of a batch but the one in progress still count as waiting in their queue.
    pub(crate) fn settle_loan(&mut self, index: usize) {
        let Some(state) = self.offload(index) else { return };
        let begun = state.begun;
        let waiting = state.in_flight.len() - begun;
        let bytes = state.in_flight.iter().skip(begun).map(|element| element.len as usize).sum();
        if let Some(queue) = self.lender(index) {
            queue.lend(waiting, bytes);
        }
    }

    /// The queue that the elements in flight came from.
    fn lender(&mut self, index: usize) -> Option<&mut Queue> {
        let lender = usize::from(self.offload(index)?.lender);
        let edge = *self.nodes[index].spec.inputs.get(lender)?;
        Some(&mut self.edges.list[usize::from(edge)].queue)
    }

    /// Counts the results of a stopped stage: its outputs reach no consumer.
    pub(crate) fn count_results(&mut self, index: usize) {
        let Some(state) = self.offload(index) else { return };
        let results = std::mem::take(&mut state.results);
        if results.is_empty() {
            return;
        }
        let before = self.set_accepts(index, Accepts::Nothing);
        for finished in results {
            // The flow is ending: a failure is counted, and no policy applies.
            let _ = self.conclude_result(index, finished);
        }
        self.restore_accepts(index, &before);
        self.settle_loan(index);
    }

    pub(crate) fn set_accepts(&mut self, index: usize, accepts: Accepts) -> Vec<Accepts> {
        let edges = &mut self.edges.list;
        let set = |&edge: &u16| {
            let edge = &mut edges[usize::from(edge)];
            let to = if edge.is_dead() { Accepts::Nothing } else { accepts };
            std::mem::replace(&mut edge.accepts, to)
        };
        self.nodes[index].spec.ports.iter().flatten().map(set).collect()
    }

    pub(crate) fn restore_accepts(&mut self, index: usize, before: &[Accepts]) {
        for (&edge, &accepts) in self.nodes[index].spec.ports.iter().flatten().zip(before) {
            self.edges.list[usize::from(edge)].accepts = accepts;
        }
    }

    /// Elements that were handed over and not started stay unread in their queue. One that was started may still get a
    /// result: it is kept for `count_late_results`.
    pub(crate) fn leave_loan(&mut self, index: usize) {
        self.settle_loan(index);
        let Some(state) = self.offload(index) else { return };
        let begun = std::mem::take(&mut state.begun);
        state.left.extend(state.in_flight.drain(..begun));
        let waiting = std::mem::take(&mut state.in_flight);
        if let Some(queue) = self.lender(index) {
            queue.leave_lent();
        }
        waiting.into_iter().for_each(|element| self.edges.release_unread(element));
    }

    /// After the last turn and the end of the workers: counts the results that arrived since, and gives up the rest.
    pub(crate) fn count_late_results(&mut self) {
        for index in 0..self.nodes.len() {
            let Some(state) = self.offload(index) else { continue };
            state.exchange.collect_late(&mut state.results);
            state.in_flight.extend(state.left.drain(..));
            state.begun = state.in_flight.len();
            self.count_results(index);
            self.empty_hands(index);
            let Some(state) = self.offload(index) else { continue };
            let left = std::mem::take(&mut state.left);
            self.nodes[index].unfinished.fill().given_up += left.len() as u64;
            left.into_iter().for_each(|element| self.edges.release_unread(element));
        }
        self.publish();
    }
}
