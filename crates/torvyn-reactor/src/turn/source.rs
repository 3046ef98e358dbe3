//! Running a source that is called inside the turn.

use torvyn_stream::{Call, Pull};

use crate::core::Core;
use crate::ends;
use crate::node::{Pending, Phase, Worker};
use crate::offload::Task;
use crate::shared_state::Failure;
use crate::trace::CallOutcome;
use crate::turn::verdict::send_one;

impl Core {
    pub(super) fn run_source(&mut self, index: usize) -> Result<usize, Failure> {
        if self.nodes[index].phase == Phase::Flushing {
            return self.finish_if_ended(index).map(usize::from);
        }
        if self.nodes[index].is_held {
            return Ok(0);
        }
        // Elements drained since the last call may end the back-pressure.
        self.tell_pressure(index);
        // A flow with batches may use more than its credit at once, and makes up for it in later turns.
        let credit = if self.takes_batches { i64::MAX } else { self.credit_elements.max(1) };
        let batch = i64::from(self.batch).min(credit) as usize;
        let done = if self.nodes[index].pulls_many && self.tracer.is_none() {
            self.pull_batches(index, batch)?
        } else if self.takes_batches {
            let began_ns = self.clock.now_ns();
            let done = self.pull_elements(index, batch)?;
            self.pull_ns += self.clock.now_ns().saturating_sub(began_ns);
            done
        } else {
            self.pull_elements(index, batch)?
        };
        self.tell_pressure(index);
        Ok(done)
    }

    /// Pulls at most `batch` elements, one per call.
    fn pull_elements(&mut self, index: usize, batch: usize) -> Result<usize, Failure> {
        let is_carrier = self.nodes[index].spec.is_carrier;
        let mut done = 0;
        let mut room = 0;
        while done < batch {
            if room == 0 || self.nodes[index].unfinished.has_backlog() {
                room = if self.may_pull(index) { self.edges.free_slots(&self.nodes[index]) } else { break };
            }
            // With a limit, every pull is checked against it.
            room = if self.edges.shared.limit() == u64::MAX { room - 1 } else { 0 };
            let node = &mut self.nodes[index];
            let Worker::Inline(stage) = &mut node.worker else { break };
            let attempt = node.unfinished.take_retry().map_or(0, |retry| retry.attempt);
            let counters = &self.edges.shared.nodes[index];
            let call = Call { ledger: &counters.ledger, now_ns: self.now_ns };
            let started = if self.timed { self.clock.now_ns() } else { 0 };
            let mut pulled = stage.pull(call);
            if self.timed {
                let sequence = node.next_sequence;
                self.record(index, sequence, started, CallOutcome::Pulled);
            }
            done += 1;
            match pulled {
                Ok(Pull::Ready(ref mut emission)) => {
                    let mut time_ns = self.now_ns;
                    if is_carrier {
                        time_ns = self.restore_stamp(index);
                    } else {
                        self.pulled += 1;
                        if self.edges.shared.has_requests() {
                            self.obey_source(index)?;
                            room = 0;
                        }
                    }
                    let node = &mut self.nodes[index];
                    send_one(&mut self.edges, node, index, emission, time_ns)?;
                    // There was capacity in elements, but not in bytes.
                    if node.unfinished.has_backlog() {
                        room = 0;
                    }
                }
                Ok(Pull::Pending(until)) => {
                    self.nodes[index].pending = Pending::until(until);
                    done -= 1;
                    // Even if its time has come: requests to the flow are handled before it is pulled again.
                    break;
                }
                Ok(Pull::End(end)) => {
                    self.finish_node(index, ends::shared(end));
                    room = 0;
                }
                Err(error) => {
                    self.conclude(index, None, Err(error), attempt)?;
                    room = 0;
                }
            }
        }
        Ok(done)
    }

    /// The next element keeps the number and the time that it had before it left the process. Returns the time.
    #[cold]
    fn restore_stamp(&mut self, index: usize) -> u64 {
        let node = &mut self.nodes[index];
        let Worker::Inline(stage) = &node.worker else { return self.now_ns };
        let (sequence, timestamp_ns) = stage.restored_stamp();
        node.next_sequence = sequence;
        timestamp_ns
    }

    pub(super) fn may_pull(&mut self, index: usize) -> bool {
        let node = &mut self.nodes[index];
        if node.phase != Phase::Running || self.edges.free_slots(node) == 0 {
            return false;
        }
        if !node.pending.is_over(self.now_ns) {
            return false;
        }
        node.pending = Pending::NO;
        if node.unfinished.retry.as_ref().is_some_and(|retry| retry.at_ns > self.now_ns) {
            return false;
        }
        if self.is_held_for_checkpoint(index) {
            return false;
        }
        if !self.nodes[index].spec.is_carrier && self.pulled >= self.edges.shared.limit() {
            self.stop_own_sources();
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
}
