//! Running a stage that takes what waits in one call. Each element is then concluded in order, as if it had been called
//! for alone: counters, policies, budgets and sequence numbers are those of single calls.

use std::vec::Drain;

use torvyn_stream::{Answers, Call, Emission, Settled};

use crate::blueprint::Role;
use crate::buffers;
use crate::core::{Core, NEVER};
use crate::edges::Accepts;
use crate::node::{Answer, Phase, Retry, Worker};
use crate::offload::MAX_CALL;
use crate::shared_state::Failure;
use crate::swap::is_plain;
use crate::trace::{CallOutcome, Event};
use crate::turn::verdict::note_stamp;

/// An attempt after which nothing is retried.
pub(super) const LAST: u32 = u32::MAX;

impl Core {
    /// Gives the stage what waits in `input`, at most `room` elements, and concludes each. `None`: the stage must be
    /// called for the next element alone, because no other waits or because a batch has failed.
    pub(super) fn run_batch(
        &mut self,
        index: usize,
        input: usize,
        room: usize,
    ) -> Result<Option<usize>, Failure> {
        let node = &mut self.nodes[index];
        let Worker::Inline(stage) = &mut node.worker else { return Ok(None) };
        let queue = &mut self.edges.list[input].queue;
        let count = queue.len().min(room).min(stage.batch_limit()).min(MAX_CALL);
        if node.unfinished.singles > 0 || count < 2 {
            if let Some(unfinished) = node.unfinished.used() {
                unfinished.singles = unfinished.singles.saturating_sub(1);
            }
            return Ok(None);
        }
        let counters = &self.edges.shared.nodes[index];
        let call = Call { ledger: &counters.ledger, now_ns: self.now_ns };
        let started_ns = if self.timed { self.clock.now_ns() } else { 0 };
        let mut answers = buffers::answers();
        let outcome = stage.accept_batch(queue.front_batch(count), call, &mut answers);
        if let Err(error) = outcome {
            if !error.stops_the_flow() {
                // Single calls tell which element is at fault.
                node.unfinished.fill().singles = count - 1;
                return Ok(None);
            }
            counters.received.add(1);
            let element = queue.pop();
            return self.conclude(index, element, Err(error), LAST).map(|()| Some(1));
        }
        if self.timed {
            self.record_batch(index, input, &answers, started_ns);
        }
        let settled = answers.settled.len();
        let concluded = self.conclude_batch(index, input, &mut answers);
        buffers::return_answers(answers);
        concluded.map(|()| Some(settled))
    }

    fn conclude_batch(&mut self, index: usize, input: usize, answers: &mut Answers) -> Result<(), Failure> {
        let mut made = answers.made.drain(..);
        let mut settled = answers.settled.drain(..);
        loop {
            let run = self.conclude_run(index, input, settled.as_slice());
            if run > 0 {
                settled.nth(run - 1);
                continue;
            }
            let Some(next) = settled.next() else { break };
            if let Err(failure) = self.conclude_front(index, input, next, &mut made, 0) {
                // The component has answered the rest: its answers count, and their outputs reach no consumer.
                let before = self.set_accepts(index, Accepts::Nothing);
                for next in settled {
                    let _ = self.conclude_front(index, input, next, &mut made, LAST);
                }
                self.restore_accepts(index, &before);
                return Err(failure);
            }
            let node = &self.nodes[index];
            if node.phase != Phase::Running {
                return Ok(());
            }
            if node.unfinished.has_retry() {
                self.set_aside(index, input, settled, made);
                return Ok(());
            }
        }
        self.charge_held(index)
    }

    /// Concludes the first elements of `input` that have the same plain result. Returns how many; 0 if the next one
    /// needs a look of its own.
    fn conclude_run(&mut self, index: usize, input: usize, settled: &[Settled]) -> usize {
        let node = &mut self.nodes[index];
        let Some(first) = settled.first().filter(|_| !node.unfinished.holds_elements()) else { return 0 };
        let is_same = |next: &&Settled| match (first, next) {
            (Settled::Done(made), Settled::Done(other)) => made + other == 0,
            (Settled::Forward, Settled::Forward) | (Settled::Drop, Settled::Drop) => true,
            _ => false,
        };
        let count = settled.iter().take_while(is_same).count();
        let counters = &self.edges.shared.nodes[index];
        match first {
            _ if count < 2 => return 0,
            // A processor notes the number and the attributes of what it passes on.
            Settled::Forward if node.role != Role::Processor => {
                let passed = self.edges.pass_run(&self.nodes[index], index, input, count);
                self.edges.shared.nodes[index].received.add(passed as u64);
                return passed;
            }
            Settled::Drop => counters.rare.count().filtered.add(count as u64),
            Settled::Done(_) if !self.edges.tracks => {
                let batch = self.edges.list[input].queue.front_batch(count);
                if let Some(last) = batch.second.last().or(batch.first.last()) {
                    note_stamp(node, last, true);
                }
                self.count_done(index, true, count as u64);
            }
            _ => return 0,
        }
        self.edges.shared.nodes[index].received.add(count as u64);
        self.edges.release_run(input, count);
        count
    }

    /// Concludes the first element of `input` with its result.
    #[inline]
    fn conclude_front(
        &mut self,
        index: usize,
        input: usize,
        settled: Settled,
        made: &mut Drain<'_, Emission>,
        attempt: u32,
    ) -> Result<(), Failure> {
        self.edges.shared.nodes[index].received.add(1);
        let node = &mut self.nodes[index];
        let queue = &mut self.edges.list[input].queue;
        match settled {
            Settled::Forward => {
                if node.role == Role::Processor
                    && let Some(element) = queue.front_mut()
                {
                    note_stamp(node, element, false);
                }
                if !node.unfinished.holds_elements()
                    && self.edges.pass_front(&self.nodes[index], index, input)
                {
                    return Ok(());
                }
            }
            Settled::Drop if !node.unfinished.holds_elements() => {
                self.edges.shared.nodes[index].rare.count().filtered.add(1);
                self.edges.release_front(input);
                return Ok(());
            }
            Settled::Done(0) if !node.unfinished.holds_elements() => {
                if let Some(element) = queue.front_mut() {
                    note_stamp(node, element, true);
                }
                self.count_done(index, true, 1);
                if self.edges.tracks {
                    self.absorb_front(index, input);
                }
                self.edges.release_front(input);
                return Ok(());
            }
            _ => {}
        }
        self.outbox.made.extend(made.by_ref().take(settled.made()));
        let element = self.edges.list[input].queue.pop();
        self.conclude(index, element, settled.outcome(), attempt)
    }

    /// The element before these is retried: they keep their results until that is decided.
    fn set_aside(
        &mut self,
        index: usize,
        input: usize,
        settled: Drain<'_, Settled>,
        mut made: Drain<'_, Emission>,
    ) {
        let queue = &mut self.edges.list[input].queue;
        for next in settled {
            let made = made.by_ref().take(next.made()).collect();
            let Some(element) = queue.pop() else { return };
            self.edges.shared.nodes[index].received.add(1);
            self.nodes[index].unfinished.fill().answers.push_back(Answer {
                element,
                made,
                outcome: Some(next.outcome()),
            });
        }
    }

    /// The same for an offloaded stage, whose results came together.
    pub(crate) fn set_results_aside(&mut self, index: usize) {
        while let Some(finished) = self.offload(index).and_then(|state| state.results.pop_front()) {
            let is_followed = finished.followed;
            let Some(element) = self.take_front(index) else { return };
            let answer = Answer { element, made: finished.made, outcome: Some(finished.outcome) };
            self.nodes[index].unfinished.fill().answers.push_back(answer);
            if !is_followed {
                return;
            }
        }
    }

    /// Concludes the first element that was set aside.
    pub(crate) fn conclude_answer(&mut self, index: usize) -> Result<(), Failure> {
        let answer =
            self.nodes[index].unfinished.used().and_then(|unfinished| unfinished.answers.pop_front());
        let Some(Answer { element, made, outcome }) = answer else { return Ok(()) };
        let Some(outcome) = outcome else {
            let at_ns = if self.nodes[index].is_held { NEVER } else { self.now_ns };
            let retry = Retry { element: Some(element), attempt: 0, at_ns };
            let node = &mut self.nodes[index];
            node.unfinished.fill().retry = Some(Box::new(retry));
            // The last one: what a plain node need not look for is gone.
            node.is_plain = is_plain(node, self.edges.tracks);
            return Ok(());
        };
        self.outbox.made.extend(made);
        self.conclude(index, Some(element), outcome, 0)
    }

    /// Concludes all elements that were set aside, when nothing waits for a retry any more.
    pub(crate) fn settle_answers(&mut self, index: usize, accepts: Accepts) -> Result<(), Failure> {
        let Some(unfinished) =
            self.nodes[index].unfinished.used().filter(|unfinished| !unfinished.answers.is_empty())
        else {
            return Ok(());
        };
        let answers = std::mem::take(&mut unfinished.answers);
        let before = self.set_accepts(index, accepts);
        let mut result = Ok(());
        for answer in answers {
            let unfinished = self.nodes[index].unfinished.fill();
            let Some(outcome) = answer.outcome else {
                if accepts == Accepts::Kept && answer.element.keep() {
                    unfinished.answers.push_back(answer);
                } else {
                    unfinished.given_up += 1;
                    self.edges.release_unread(answer.element);
                }
                continue;
            };
            self.outbox.made.extend(answer.made);
            let concluded = self.conclude(index, Some(answer.element), outcome, LAST);
            result = result.and(concluded);
        }
        self.restore_accepts(index, &before);
        result
    }

    /// Every element gets its share of the call's time.
    fn record_batch(&mut self, index: usize, input: usize, answers: &Answers, started_ns: u64) {
        let count = answers.settled.len();
        let nanos = self.clock.now_ns().saturating_sub(started_ns);
        let counters = &self.edges.shared.nodes[index];
        counters.sampled_ns.add(nanos);
        counters.sampled_calls.add(count as u64);
        let Some(tracer) = &mut self.tracer else { return };
        let share = nanos / count as u64;
        let batch = self.edges.list[input].queue.front_batch(count);
        for (at, (element, settled)) in (0..).zip(batch.iter().zip(&answers.settled)) {
            tracer.record(Event {
                node: index as u16,
                outcome: CallOutcome::from(settled),
                made: settled.made() as u32,
                copied_bytes: counters.ledger.copied_bytes(),
                sequence: element.sequence,
                start_ns: started_ns + at * share,
                nanos: share,
            });
        }
    }
}
