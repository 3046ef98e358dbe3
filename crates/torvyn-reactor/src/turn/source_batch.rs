//! Pulling several elements from a source in one call.

use torvyn_stream::{Call, Pull};

use crate::core::Core;
use crate::ends;
use crate::node::{Pending, Worker};
use crate::shared_state::Failure;
use crate::turn::verdict::send_one;

struct Pulled {
    /// What counts against the turn: at least one, unless the source has nothing.
    count: usize,
    /// Nothing more can be pulled now.
    is_short: bool,
}

impl Core {
    /// Pulls at most `batch` elements, as many per call as there is room for.
    pub(super) fn pull_batches(&mut self, index: usize, batch: usize) -> Result<usize, Failure> {
        let mut done = 0;
        while done < batch && self.may_pull(index) {
            let room = self.edges.free_slots(&self.nodes[index]);
            let pulled = self.pull_many(index, room.min(batch - done))?;
            done += pulled.count;
            if pulled.is_short {
                break;
            }
        }
        Ok(done)
    }

    /// Pulls at most `most` elements and sends them.
    fn pull_many(&mut self, index: usize, most: usize) -> Result<Pulled, Failure> {
        let node = &mut self.nodes[index];
        let is_counted = !node.spec.is_carrier;
        let left = self.edges.shared.limit().saturating_sub(self.pulled);
        let most = if is_counted { most.min(usize::try_from(left).unwrap_or(usize::MAX)) } else { most };
        let none = Pulled { count: 0, is_short: true };
        let Worker::Inline(stage) = &mut node.worker else { return Ok(none) };
        let attempt = node.unfinished.take_retry().map_or(0, |retry| retry.attempt);
        let counters = &self.edges.shared.nodes[index];
        let call = Call { ledger: &counters.ledger, now_ns: self.now_ns };
        let started_ns = if self.timed { self.clock.now_ns() } else { 0 };
        let outcome = stage.pull_many(most, call, &mut self.outbox);
        let count = self.outbox.made.len();
        if self.timed {
            let nanos = self.clock.now_ns().saturating_sub(started_ns);
            counters.sampled_ns.add(nanos);
            counters.sampled_calls.add(count.max(1) as u64);
        }
        self.pulled += if is_counted { count as u64 } else { 0 };
        self.send_pulled(index)?;
        match outcome {
            Ok(None | Some(Pull::Ready(_))) => {}
            Ok(Some(Pull::Pending(until))) => {
                self.nodes[index].pending = Pending::until(until);
                return Ok(Pulled { count, is_short: true });
            }
            Ok(Some(Pull::End(end))) => self.finish_node(index, ends::shared(end)),
            Err(error) => self.conclude(index, None, Err(error), attempt)?,
        }
        // A source that returns less than it may has no more at the moment, and must not be made to wait for it.
        Ok(Pulled { count: count.max(1), is_short: count < most })
    }

    /// Sends the outbox. An interrupt that the source requested in its last pull applies to what it sent before.
    fn send_pulled(&mut self, index: usize) -> Result<(), Failure> {
        let mut made = std::mem::take(&mut self.outbox.made);
        let has_requests = self.edges.shared.has_requests();
        let is_sent =
            !has_requests && self.edges.send_run(&mut self.nodes[index], index, &mut made, self.now_ns);
        if is_sent {
            self.outbox.made = made;
            return Ok(());
        }
        let last = if has_requests { made.pop() } else { None };
        let mut result = Ok(());
        for emission in &mut made {
            let node = &mut self.nodes[index];
            let sent = send_one(&mut self.edges, node, index, emission, self.now_ns);
            result = result.and(sent);
        }
        made.clear();
        self.outbox.made = made;
        if let Some(mut emission) = last {
            self.obey_source(index)?;
            let node = &mut self.nodes[index];
            result = result.and(send_one(&mut self.edges, node, index, &mut emission, self.now_ns));
        }
        result
    }
}
