//! One turn: leftovers first, then sweeps from the sources down, until the credit is used or nothing moves.

mod call_outcome;
mod flow_end;
mod flow_failure;
mod interrupt;

use torvyn_stream::{Call, Pull, Step};

use crate::blueprint::{Role, Timing};
use crate::core::{Core, Turn};
use crate::node::{Phase, Worker};
use crate::offload::Task;
use crate::shared_state::Failure;
use crate::trace::Event;
use crate::turn::call_outcome::{note_stamp, send_one};

/// Every so many turns the calls are timed: often enough for a mean, too seldom to cost anything.
const SAMPLE_EVERY: u64 = 64;

/// What a batch may take from its first element at the source to its last at the sink.
const SWEEP_NS: u64 = 10_000;

impl Core {
    /// Runs a turn. `paced` turns keep to the flow's share; the others go on until they must wait or, when
    /// `until_output`, until something has reached the exit.
    pub fn turn(&mut self, paced: bool, until_output: bool) -> Turn {
        self.now_ns = self.clock.now_ns();
        let turns = &self.edges.shared.turns;
        self.timed = self.tracer.is_some()
            || match self.timing {
                Timing::Off => false,
                Timing::Sampled => turns.get().is_multiple_of(SAMPLE_EVERY),
                Timing::Every => true,
            };
        turns.add(1);
        self.credit_elements = (self.credit_elements + self.quota_elements).min(self.quota_elements);
        self.credit_ns = (self.credit_ns + self.quota_ns).min(self.quota_ns);
        if paced && (self.credit_ns <= 0 || self.credit_elements <= 0) {
            return Turn::Again;
        }
        let swept = self.clear_leftovers().and_then(|()| self.sweeps(paced, until_output));
        let turn = swept.unwrap_or_else(|failure| if self.fail(failure) { Turn::Over } else { Turn::Again });
        self.publish();
        turn
    }

    /// Makes the facts of this turn visible to others.
    pub(crate) fn publish(&self) {
        self.edges.publish();
        for (node, counters) in self.nodes.iter().zip(&self.edges.shared.nodes) {
            counters.unread.set(node.unread());
            // What a node has sent and no queue had room for yet is on its way to the edge.
            for (edge, _) in &node.backlog {
                let edge = &self.edges.shared.edges[usize::from(*edge)];
                edge.entered.add(1);
                edge.unread.add(1);
            }
        }
    }

    fn sweeps(&mut self, paced: bool, until_output: bool) -> Result<Turn, Failure> {
        loop {
            if self.edges.shared.has_requests() {
                self.obey()?;
            }
            if self.check_time()? || self.edges.shared.state().is_over() {
                return Ok(Turn::Over);
            }
            let before_ns = self.now_ns;
            let work = self.sweep()?;
            self.now_ns = self.clock.now_ns();
            let spent = self.now_ns.saturating_sub(before_ns);
            self.adapt_batch(work, spent);
            if work == 0 {
                if self.settle() {
                    return Ok(Turn::Over);
                }
                if self.edges.shared.has_requests() {
                    continue;
                }
                return Ok(if self.has_output() { Turn::Output } else { Turn::Parked(self.due()) });
            }
            if self.failing {
                self.drain_until = Some(self.now_ns.saturating_add(self.drain_timeout_ns));
            }
            if until_output && self.has_output() {
                return Ok(Turn::Output);
            }
            self.credit_elements -= work as i64;
            self.credit_ns -= spent as i64;
            if self.credit_elements <= 0 || self.credit_ns <= 0 {
                if paced {
                    return Ok(Turn::Again);
                }
                self.credit_elements = self.quota_elements;
                self.credit_ns = self.quota_ns;
                // The caller's thread: time for its signals and its other duties.
                return Ok(if self.has_output() { Turn::Output } else { Turn::Again });
            }
        }
    }

    /// A source that keeps up is asked for more at a time, as long as the first of a batch need not wait long for the
    /// last; one that blocks is never read ahead of its token.
    fn adapt_batch(&mut self, work: usize, spent_ns: u64) {
        if spent_ns > self.turn_time_ns {
            self.batch = 1;
        } else if spent_ns > 2 * SWEEP_NS {
            self.batch = (self.batch / 2).max(1);
        } else if work >= self.batch as usize && 2 * spent_ns <= SWEEP_NS {
            self.batch = (self.batch * 2).min(self.max_batch);
        }
    }

    fn clear_leftovers(&mut self) -> Result<(), Failure> {
        for index in (0..self.nodes.len()).rev() {
            let node = &self.nodes[index];
            if node.role != Role::Source && (!node.backlog.is_empty() || self.edges.has_input(node)) {
                self.run(index)?;
            }
        }
        Ok(())
    }

    /// Every node once, sources first. The work of a sweep is that of its busiest node.
    fn sweep(&mut self) -> Result<usize, Failure> {
        let mut most = 0;
        for index in 0..self.nodes.len() {
            most = most.max(self.run(index)?);
        }
        Ok(most)
    }

    #[inline]
    fn run(&mut self, index: usize) -> Result<usize, Failure> {
        let node = &mut self.nodes[index];
        if node.phase == Phase::Finished {
            return Ok(0);
        }
        self.edges.shared.set_running_node(Some(index));
        let mut moved = 0;
        if !node.backlog.is_empty() {
            let waiting = node.backlog.len();
            let empty = self.edges.drain_backlog(node)?;
            moved = waiting - node.backlog.len();
            if !empty {
                self.collect_results(index);
                return Ok(moved + self.note_stalled(index, moved));
            }
        }
        let did = match (&node.worker, node.role) {
            (Worker::Offloaded(_), Role::Source) => self.run_offloaded_source(index)?,
            (Worker::Offloaded(_), _) => self.run_offloaded(index)?,
            (_, Role::Source) => self.run_source(index)?,
            _ => self.run_inline(index)?,
        };
        let did = did.max(moved);
        Ok(did + self.note_stalled(index, did))
    }

    /// Tells the queues in front of a node whether it has taken anything. A node that stalls lets them drop or fail as
    /// their policy says, which is work for the nodes before it: the flow must not park on it.
    #[inline]
    fn note_stalled(&mut self, index: usize, did: usize) -> usize {
        let node = &self.nodes[index];
        if !node.watches_inputs {
            return 0;
        }
        let mut news = 0;
        for &edge in &node.inputs {
            let queue = &mut self.edges.list[usize::from(edge)].queue;
            let stalled = did == 0 && !queue.is_empty();
            news += usize::from(queue.note_stalled(stalled) && stalled);
        }
        news
    }

    fn run_source(&mut self, index: usize) -> Result<usize, Failure> {
        if self.nodes[index].phase == Phase::Flushing {
            return self.finish_if_ended(index).map(usize::from);
        }
        // What was drained since the last time may end the back-pressure.
        self.tell_pressure(index);
        let mut done = 0;
        let batch = (self.batch as i64).min(self.credit_elements.max(1)) as usize;
        let mut room = 0;
        while done < batch {
            if room == 0 || !self.nodes[index].backlog.is_empty() {
                room = if self.may_pull(index) { self.edges.free_slots(&self.nodes[index]) } else { break };
            }
            // With a limit every pull is checked against it.
            room = if self.edges.shared.limit() == u64::MAX { room - 1 } else { 0 };
            let node = &mut self.nodes[index];
            let Worker::Inline(stage) = &mut node.worker else { break };
            let attempt = node.retry.take().map_or(0, |retry| retry.attempt);
            let counters = &self.edges.shared.nodes[index];
            let call = Call { ledger: &counters.ledger, now_ns: self.now_ns };
            let started = if self.timed { self.clock.now_ns() } else { 0 };
            let pulled = stage.pull(call);
            if self.timed {
                let sequence = node.next_sequence;
                self.record(index, sequence, started, "pulled");
            }
            done += 1;
            match pulled {
                Ok(Pull::Ready(emission)) => {
                    self.pulled += 1;
                    if self.edges.shared.has_requests() {
                        self.obey_source(index)?;
                        room = 0;
                    }
                    let node = &mut self.nodes[index];
                    send_one(&mut self.edges, node, index, emission, self.now_ns)?;
                    // There was room in elements, but not in bytes.
                    if !node.backlog.is_empty() {
                        room = 0;
                    }
                }
                Ok(Pull::Pending(until)) => {
                    self.nodes[index].pending = Some(until);
                    done -= 1;
                    // Even if its time has come already: requests to the flow are heard before it is asked again.
                    break;
                }
                Ok(Pull::End(end)) => {
                    self.finish_node(index, end);
                    room = 0;
                }
                Err(error) => {
                    self.conclude(index, None, Err(error), attempt)?;
                    room = 0;
                }
            }
        }
        self.tell_pressure(index);
        Ok(done)
    }

    fn may_pull(&mut self, index: usize) -> bool {
        let node = &mut self.nodes[index];
        if node.phase != Phase::Running || self.edges.free_slots(node) == 0 {
            return false;
        }
        if let Some(until) = node.pending {
            match until {
                Some(time) if time <= self.now_ns => node.pending = None,
                _ => return false,
            }
        }
        if node.retry.as_ref().is_some_and(|retry| retry.at_ns > self.now_ns) {
            return false;
        }
        if self.pulled >= self.edges.shared.limit() {
            self.stop_sources();
            return false;
        }
        true
    }

    pub(crate) fn tell_pressure(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let active = self.edges.is_pressured(node);
        if active == node.pressured || node.phase != Phase::Running {
            return;
        }
        node.pressured = active;
        match &mut node.worker {
            Worker::Inline(stage) => stage.pressure(active),
            Worker::Offloaded(state) => {
                state.exchange.hand_over([Task::Pressure(active)], None);
            }
        }
    }

    fn run_inline(&mut self, index: usize) -> Result<usize, Failure> {
        let mut done = 0;
        // Room is looked up again only when what was seen last has been used up.
        let mut room = 0;
        loop {
            let node = &mut self.nodes[index];
            if room == 0 || !node.backlog.is_empty() {
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
            if node.retry.is_some() {
                if !self.try_again(index)? {
                    break;
                }
                (done, room) = (done + 1, 0);
                continue;
            }
            let Some(input) = self.edges.next_input(node) else { break };
            // A filter has ended the stream, and what it let pass is still on its way.
            if node.phase == Phase::Flushing {
                break;
            }
            let Worker::Inline(stage) = &mut node.worker else { break };
            // The element is worked on where it lies and moves once, to where it goes.
            let Some(element) = self.edges.list[input].queue.front_mut() else { break };
            let counters = &self.edges.shared.nodes[index];
            counters.received.add(1);
            done += 1;
            let call = Call { ledger: &counters.ledger, now_ns: self.now_ns };
            let started = if self.timed { self.clock.now_ns() } else { 0 };
            let outcome = stage.accept(element, call, &mut self.outbox);
            if self.timed {
                let sequence = element.sequence;
                self.record(index, sequence, started, name_of(&outcome));
            }
            let used = if matches!(outcome, Ok(Step::Done)) { self.outbox.made.len() } else { 1 };
            room = room.saturating_sub(used);
            // What `flush` makes later is numbered after the last element, also one that was passed on as it is.
            if matches!(outcome, Ok(Step::Forward))
                && self.nodes[index].role == Role::Processor
                && let Some(element) = self.edges.list[input].queue.front_mut()
            {
                note_stamp(&mut self.nodes[index], element, false);
            }
            match outcome {
                // The two answers that nearly all calls give, without a detour.
                Ok(Step::Forward)
                    if self.nodes[index].held.is_empty()
                        && self.edges.pass_front(&self.nodes[index], index, input) => {}
                Ok(Step::Done) if self.outbox.made.is_empty() => {
                    if let Some(element) = self.edges.list[input].queue.front_mut() {
                        note_stamp(&mut self.nodes[index], element, true);
                    }
                    self.count_done(index, true);
                    self.edges.release_front(input);
                    self.charge_held(index)?;
                }
                outcome => {
                    let element = self.edges.list[input].queue.pop();
                    self.conclude(index, element, outcome, 0)?;
                }
            }
        }
        self.tick(index)?;
        Ok(done + usize::from(self.finish_if_ended(index)?))
    }

    /// Repeats a call that failed, when its time has come. False: not yet.
    fn try_again(&mut self, index: usize) -> Result<bool, Failure> {
        let node = &mut self.nodes[index];
        let Some(retry) = node.retry.take_if(|retry| retry.at_ns <= self.now_ns) else {
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

    /// `resume` or `flush`: a call that is not about an element.
    pub(crate) fn call(&mut self, index: usize, what: Step) -> Result<(), Failure> {
        let Worker::Inline(stage) = &mut self.nodes[index].worker else { return Ok(()) };
        let counters = &self.edges.shared.nodes[index];
        let call = Call { ledger: &counters.ledger, now_ns: self.now_ns };
        let (outcome, is_flush) = match what {
            Step::More => (stage.resume(call, &mut self.outbox), false),
            _ => (stage.flush(call, &mut self.outbox), true),
        };
        // A generator's element is concluded when the generator is at its end.
        let element = self.nodes[index].current.take();
        let is_flush = is_flush || (element.is_none() && self.nodes[index].phase == Phase::Flushing);
        let concluded = self.conclude(index, element, outcome, u32::MAX);
        let named = |failure| Failure { method: "flush", ..failure };
        concluded.map_err(|failure| if is_flush { named(failure) } else { failure })
    }

    fn tick(&mut self, index: usize) -> Result<(), Failure> {
        let node = &mut self.nodes[index];
        let room = self.edges.free_slots(node);
        let Worker::Inline(stage) = &mut node.worker else { return Ok(()) };
        if node.phase != Phase::Running || room == 0 || stage.due().is_none_or(|due| due > self.now_ns) {
            return Ok(());
        }
        let counters = &self.edges.shared.nodes[index];
        let call = Call { ledger: &counters.ledger, now_ns: self.now_ns };
        // A stage that paused with an alarm has nobody else to resume it.
        node.paused = false;
        let outcome = stage.tick(call, &mut self.outbox).map(|()| Step::Done);
        self.conclude(index, None, outcome, u32::MAX)
    }

    /// The earliest time at which a parked flow has something to do by itself.
    fn due(&self) -> Option<u64> {
        let nodes = self.nodes.iter().filter(|node| node.phase != Phase::Finished);
        nodes
            .flat_map(|node| {
                let stage = match &node.worker {
                    Worker::Inline(stage) => stage.due(),
                    Worker::Offloaded(_) => None,
                };
                [stage, node.pending.flatten(), node.retry.as_ref().map(|retry| retry.at_ns)]
            })
            .chain([self.deadline_ns, self.drain_until])
            .flatten()
            .min()
    }

    fn record(&mut self, index: usize, sequence: u64, start_ns: u64, outcome: &'static str) {
        let nanos = self.clock.now_ns().saturating_sub(start_ns);
        let counters = &self.edges.shared.nodes[index];
        counters.sampled_ns.add(nanos);
        counters.sampled_calls.add(1);
        if let Some(tracer) = &mut self.tracer {
            tracer.record(Event {
                node: index as u16,
                outcome,
                made: self.outbox.made.len() as u32,
                copied_bytes: counters.ledger.copied_bytes(),
                sequence,
                start_ns,
                nanos,
            });
        }
    }
}

fn name_of<E>(outcome: &Result<Step, E>) -> &'static str {
    match outcome {
        Ok(Step::Done | Step::More) => "done",
        Ok(Step::Forward) => "passed",
        Ok(Step::Route) => "routed",
        Ok(Step::Drop) => "dropped",
        Ok(Step::Hold) => "held",
        Ok(Step::Replace(_)) => "replaced",
        Ok(Step::Block(_)) => "blocked",
        Ok(Step::Pause) => "paused",
        Err(_) => "failed",
    }
}
