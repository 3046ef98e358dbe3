//! Running a source that is called inside the turn.

use torvyn_stream::{Call, Pull};

use crate::core::Core;
use crate::node::{Phase, Stamp, Worker};
use crate::offload::Task;
use crate::shared_state::Failure;
use crate::trace::CallOutcome;
use crate::turn::verdict::send_one;

impl Core {
    pub(super) fn run_source(&mut self, index: usize) -> Result<usize, Failure> {
        if self.nodes[index].phase == Phase::Flushing {
            return self.finish_if_ended(index).map(usize::from);
        }
        // Elements drained since the last call may end the back-pressure.
        self.tell_pressure(index);
        let mut done = 0;
        // A flow with batches may use more than its credit at once, and makes up for it in later turns.
        let credit = if self.takes_batches { i64::MAX } else { self.credit_elements.max(1) };
        let batch = i64::from(self.batch).min(credit) as usize;
        let began_ns = if self.takes_batches { self.clock.now_ns() } else { 0 };
        let mut room = 0;
        while done < batch {
            if room == 0 || !self.nodes[index].backlog.is_empty() {
                room = if self.may_pull(index) { self.edges.free_slots(&self.nodes[index]) } else { break };
            }
            if self.nodes[index].pulls_many && self.tracer.is_none() {
                let pulled = self.pull_many(index, room.min(batch - done))?;
                done += pulled.count;
                room = 0;
                if pulled.is_short {
                    break;
                }
                continue;
            }
            // With a limit, every pull is checked against it.
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
                self.record(index, sequence, started, CallOutcome::Pulled);
            }
            done += 1;
            match pulled {
                Ok(Pull::Restored { emission, sequence, timestamp_ns }) => {
                    let node = &mut self.nodes[index];
                    node.stamp = Stamp { sequence, timestamp_ns, attributes: None };
                    send_one(&mut self.edges, node, index, emission, None, self.now_ns)?;
                    if !node.backlog.is_empty() {
                        room = 0;
                    }
                }
                Ok(Pull::Ready(emission)) => {
                    self.pulled += 1;
                    if self.edges.shared.has_requests() {
                        self.obey_source(index)?;
                        room = 0;
                    }
                    let node = &mut self.nodes[index];
                    send_one(&mut self.edges, node, index, emission, None, self.now_ns)?;
                    // There was capacity in elements, but not in bytes.
                    if !node.backlog.is_empty() {
                        room = 0;
                    }
                }
                Ok(Pull::Pending(until)) => {
                    self.nodes[index].pending = Some(until);
                    done -= 1;
                    // Even if its time has come: requests to the flow are handled before it is pulled again.
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
        if self.takes_batches && !self.nodes[index].pulls_many {
            self.pull_ns += self.clock.now_ns().saturating_sub(began_ns);
        }
        self.tell_pressure(index);
        Ok(done)
    }

    pub(super) fn may_pull(&mut self, index: usize) -> bool {
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
        if self.is_held_for_checkpoint(index) {
            return false;
        }
        if !self.nodes[index].is_carrier && self.pulled >= self.edges.shared.limit() {
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
