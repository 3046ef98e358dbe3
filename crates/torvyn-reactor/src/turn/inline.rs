//! Running a node whose component is called inside the turn.

use torvyn_stream::{Call, Step};

use crate::blueprint::Role;
use crate::core::Core;
use crate::node::{Phase, Worker};
use crate::shared_state::Failure;
use crate::trace::CallOutcome;
use crate::turn::verdict::note_stamp;

impl Core {
    pub(super) fn run_inline(&mut self, index: usize) -> Result<usize, Failure> {
        let is_plain = self.nodes[index].is_plain;
        let mut done =
            if is_plain { self.take_inputs::<true>(index)? } else { self.take_inputs::<false>(index)? };
        done += usize::from(self.tick(index)?);
        Ok(done + usize::from(self.finish_if_ended(index)?))
    }

    /// Calls the stage as long as elements wait and its outputs have room. What a plain node never needs is decided
    /// here, not for each element.
    fn take_inputs<const IS_PLAIN: bool>(&mut self, index: usize) -> Result<usize, Failure> {
        let mut done = 0;
        // The free capacity is looked up again only when the last value has been used up.
        let mut room = 0;
        loop {
            let node = &mut self.nodes[index];
            if room == 0 || node.unfinished.has_backlog() {
                room = self.edges.free_slots(node);
            }
            if room == 0 || node.phase == Phase::Finished || node.paused {
                break;
            }
            if node.more {
                node.more = false;
                done += 1;
                room = 0;
                self.call(index, Step::More)?;
                continue;
            }
            if node.unfinished.has_retry() {
                if !self.try_again(index)? {
                    break;
                }
                (done, room) = (done + 1, 0);
                continue;
            }
            if !IS_PLAIN && node.unfinished.has_answers() {
                self.conclude_answer(index)?;
                (done, room) = (done + 1, 0);
                continue;
            }
            if !IS_PLAIN && node.is_held {
                break;
            }
            // The rest may become too old during the call: it is looked at again before the next one.
            if !IS_PLAIN && done > 0 && node.spec.drops_stale() {
                break;
            }
            let Some(input) = self.edges.next_input(node) else { break };
            // A filter has ended the stream, and the elements it passed are still on their way.
            if node.phase == Phase::Flushing {
                break;
            }
            if !IS_PLAIN
                && node.takes_batches
                && !node.spec.tells_input
                && let Some(settled) = self.run_batch(index, input, room)?
            {
                (done, room) = (done + settled, 0);
                continue;
            }
            let node = &mut self.nodes[index];
            let Worker::Inline(stage) = &mut node.worker else { break };
            if !IS_PLAIN && node.spec.tells_input {
                stage.set_input(self.edges.list[input].input);
            }
            // The element is processed in place and moves once, to its destination.
            let Some(element) = self.edges.list[input].queue.front_mut() else { break };
            let counters = &self.edges.shared.nodes[index];
            counters.received.add(1);
            done += 1;
            let call = Call { ledger: &counters.ledger, now_ns: self.now_ns };
            let started = if self.timed { self.clock.now_ns() } else { 0 };
            let outcome = stage.accept(element, call, &mut self.outbox);
            if self.timed {
                let sequence = element.sequence;
                self.record(index, sequence, started, CallOutcome::from(&outcome));
            }
            let used = if matches!(outcome, Ok(Step::Done)) { self.outbox.made.len() } else { 1 };
            room = room.saturating_sub(used);
            // Outputs of a later `flush` are numbered after the last element, even one that was passed on unchanged.
            if matches!(outcome, Ok(Step::Forward))
                && self.nodes[index].role == Role::Processor
                && let Some(element) = self.edges.list[input].queue.front_mut()
            {
                note_stamp(&mut self.nodes[index], element, false);
            }
            match outcome {
                // The fast path for the two results that nearly all calls return.
                Ok(Step::Forward)
                    if !self.nodes[index].unfinished.holds_elements()
                        && self.edges.pass_front(&self.nodes[index], index, input) => {}
                Ok(Step::Done) if self.outbox.made.is_empty() => {
                    if let Some(element) = self.edges.list[input].queue.front_mut() {
                        note_stamp(&mut self.nodes[index], element, true);
                    }
                    self.count_done(index, true, 1);
                    if !IS_PLAIN && self.edges.tracks {
                        self.absorb_front(index, input);
                    }
                    self.edges.release_front(input);
                    self.charge_held(index)?;
                }
                outcome => {
                    let element = self.edges.list[input].queue.pop();
                    self.conclude(index, element, outcome, 0)?;
                }
            }
        }
        Ok(done)
    }

    /// Repeats a failed call when its time has come. False: not yet.
    pub(super) fn try_again(&mut self, index: usize) -> Result<bool, Failure> {
        let node = &mut self.nodes[index];
        let retry = node
            .unfinished
            .used()
            .and_then(|unfinished| unfinished.retry.take_if(|retry| retry.at_ns <= self.now_ns));
        let Some(retry) = retry else {
            return Ok(false);
        };
        let (Some(mut element), Worker::Inline(stage)) = (retry.element, &mut node.worker) else {
            return Ok(true);
        };
        let counters = &self.edges.shared.nodes[index];
        let call = Call { ledger: &counters.ledger, now_ns: self.now_ns };
        let outcome = stage.accept(&mut element, call, &mut self.outbox);
        self.conclude(index, Some(element), outcome, retry.attempt)?;
        Ok(true)
    }

    /// `resume` or `flush`: a call without an element.
    pub(crate) fn call(&mut self, index: usize, what: Step) -> Result<(), Failure> {
        let Worker::Inline(stage) = &mut self.nodes[index].worker else { return Ok(()) };
        let counters = &self.edges.shared.nodes[index];
        let call = Call { ledger: &counters.ledger, now_ns: self.now_ns };
        let (outcome, is_flush) = match what {
            Step::More => (stage.resume(call, &mut self.outbox), false),
            _ => (stage.flush(call, &mut self.outbox), true),
        };
        // A generator's element is concluded when the generator ends.
        let element = self.nodes[index].unfinished.take_current();
        let is_flush = is_flush || (element.is_none() && self.nodes[index].phase == Phase::Flushing);
        let concluded = self.conclude(index, element, outcome, u32::MAX);
        let named = |failure| Failure { method: "flush", ..failure };
        concluded.map_err(|failure| if is_flush { named(failure) } else { failure })
    }

    /// Calls a stage whose time has come. False: there is none, or its outputs have no room, or its state has just been
    /// saved and is about to become durable.
    pub(super) fn tick(&mut self, index: usize) -> Result<bool, Failure> {
        let node = &self.nodes[index];
        let Worker::Inline(stage) = &node.worker else { return Ok(false) };
        if node.phase != Phase::Running || stage.due().is_none_or(|due| due > self.now_ns) {
            return Ok(false);
        }
        if self.edges.free_slots(node) == 0 || self.is_cut(index) || node.is_held {
            return Ok(false);
        }
        let node = &mut self.nodes[index];
        let Worker::Inline(stage) = &mut node.worker else { return Ok(false) };
        let counters = &self.edges.shared.nodes[index];
        let call = Call { ledger: &counters.ledger, now_ns: self.now_ns };
        // A stage that paused with an alarm has nothing else that resumes it.
        node.paused = false;
        let outcome = stage.tick(call, &mut self.outbox).map(|()| Step::Done);
        let concluded = self.conclude(index, None, outcome, u32::MAX);
        concluded.map_err(|failure| Failure { method: "on_timer", ..failure }).map(|()| true)
    }
}
