//! One turn: leftovers first, then sweeps from the sources down, until the credit is used up or nothing moves.

mod acknowledgement;
mod batch;
mod checkpoint;
mod flow_end;
mod flow_failure;
mod hold;
mod inline;
mod interrupt;
mod recovery;
mod requests;
mod source;
mod source_batch;
pub(crate) mod verdict;

pub use verdict::method_name;

use crate::blueprint::{Role, Timing};
use crate::buffers;
use crate::core::{Core, NEVER, Turn};
use crate::node::{Phase, Worker};
use crate::shared_state::Failure;
use crate::trace::{CallOutcome, Event};

/// Calls are timed in every 64th turn: often enough for a mean, too seldom to cost anything.
const SAMPLE_EVERY: u64 = 64;

/// How long a batch may take from its first element at the source to its last at the sink.
const SWEEP_NS: u64 = 10_000;
/// The same for flows with a stage that takes batches: larger ones pay, and a call is still short.
const BATCH_SWEEP_NS: u64 = 1_000_000;

impl Core {
    /// Runs a turn. A `paced` turn keeps to the flow's share; others continue until they must wait or, with
    /// `until_output`, until there is an output.
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
        self.outbox = buffers::outbox();
        let swept = self.clear_leftovers().and_then(|()| self.sweeps(paced, until_output));
        let turn = swept.unwrap_or_else(|failure| if self.fail(failure) { Turn::Over } else { Turn::Again });
        if self.edges.tracks {
            self.deliver_acknowledgements();
        }
        self.rest();
        self.publish();
        buffers::return_outbox(std::mem::take(&mut self.outbox));
        turn
    }

    /// Tells the ends of edges that leave the process.
    fn rest(&mut self) {
        for node in &mut self.nodes {
            if node.spec.is_carrier
                && let Worker::Inline(stage) = &mut node.worker
            {
                stage.rest();
            }
        }
    }

    /// Publishes this turn's counters.
    pub(crate) fn publish(&self) {
        self.edges.publish();
        for (node, counters) in self.nodes.iter().zip(self.edges.shared.nodes.iter()) {
            counters.unread.set(node.unread());
            // What a node has sent and no queue had capacity for counts as on its way to the edge.
            for (edge, _) in &node.unfinished.backlog {
                self.edges.shared.edges[usize::from(*edge)].unread.add(1);
            }
        }
    }

    fn sweeps(&mut self, paced: bool, until_output: bool) -> Result<Turn, Failure> {
        loop {
            if self.edges.shared.has_requests() {
                self.obey()?;
            }
            if !self.swaps.is_empty() {
                self.try_swaps();
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
                if self.checkpoint.as_ref().is_some_and(|checkpoint| checkpoint.is_wanted()) && self.cut()? {
                    continue;
                }
                if self.conclude_if_done() {
                    return Ok(Turn::Over);
                }
                if self.edges.shared.has_requests() {
                    continue;
                }
                return Ok(if self.has_output() { Turn::Output } else { Turn::Parked(self.due()) });
            }
            if self.failing {
                self.drain_until_ns = self.now_ns.saturating_add(self.drain_timeout_ns);
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
                // The caller's thread needs time for signals and other work.
                return Ok(if self.has_output() { Turn::Output } else { Turn::Again });
            }
        }
    }

    /// A source that keeps up is pulled in larger batches, as long as the first element of a batch does not wait long
    /// for the last. A source that blocks is never read ahead.
    fn adapt_batch(&mut self, work: usize, spent_ns: u64) {
        let (sweep_ns, source_ns) =
            if self.takes_batches { (BATCH_SWEEP_NS, self.pull_ns) } else { (SWEEP_NS, spent_ns) };
        self.pull_ns = 0;
        if source_ns > self.turn_time_ns {
            self.batch = 1;
        } else if spent_ns > 2 * sweep_ns {
            self.batch = (self.batch / 2).max(1);
        } else if work >= self.batch as usize && 2 * spent_ns <= sweep_ns {
            self.batch = (self.batch * 2).min(self.max_batch);
        }
    }

    fn clear_leftovers(&mut self) -> Result<(), Failure> {
        let mut has_run = false;
        for index in (0..self.nodes.len()).rev() {
            let node = &self.nodes[index];
            if node.role != Role::Source && (node.unfinished.has_backlog() || self.edges.has_input(node)) {
                self.run(index)?;
                has_run = true;
            }
        }
        if has_run {
            self.now_ns = self.clock.now_ns();
        }
        Ok(())
    }

    /// Runs every node once, sources first. The work of a sweep is that of its busiest node.
    fn sweep(&mut self) -> Result<usize, Failure> {
        let mut most = 0;
        for index in 0..self.nodes.len() {
            most = most.max(self.run(index)?);
        }
        Ok(most)
    }

    #[inline]
    fn run(&mut self, index: usize) -> Result<usize, Failure> {
        if self.nodes[index].phase == Phase::Finished {
            return Ok(0);
        }
        self.edges.shared.set_running_node(Some(index));
        let mut moved = 0;
        if self.nodes[index].spec.drops_stale() {
            // A call before this one may have taken long.
            self.now_ns = self.clock.now_ns();
            moved = self.edges.drop_stale(&mut self.nodes, index, self.now_ns);
        }
        let node = &mut self.nodes[index];
        if node.unfinished.has_backlog() {
            let waiting = node.unfinished.backlog.len();
            let empty = self.edges.drain_backlog(node)?;
            moved += waiting - node.unfinished.backlog.len();
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

    /// Tells the queues in front of a node whether it took anything. When a node stalls they drop or fail as their
    /// policy says, which is work for the nodes before it, so the flow must not park.
    #[inline]
    fn note_stalled(&mut self, index: usize, did: usize) -> usize {
        let node = &self.nodes[index];
        if !node.spec.watches_inputs {
            return 0;
        }
        let mut news = 0;
        for &edge in &node.spec.inputs {
            let queue = &mut self.edges.list[usize::from(edge)].queue;
            let stalled = did == 0 && !queue.is_empty();
            news += usize::from(queue.note_stalled(stalled) && stalled);
        }
        news
    }

    /// The earliest time at which a parked flow has something to do by itself.
    fn due(&self) -> Option<u64> {
        let time = |at_ns: u64| (at_ns != NEVER).then_some(at_ns);
        let nodes = self.nodes.iter().enumerate().filter(|(_, node)| node.phase != Phase::Finished);
        nodes
            .flat_map(|(index, node)| {
                let stage = match &node.worker {
                    // A full queue wakes the node when it has room again.
                    Worker::Inline(stage)
                        if self.edges.free_slots(node) > 0 && !self.is_cut(index) && !node.is_held =>
                    {
                        stage.due()
                    }
                    _ => None,
                };
                let pending = node.pending.due().filter(|_| !self.is_cut(index));
                [stage, pending, node.unfinished.retry.as_ref().map(|retry| retry.at_ns)]
            })
            .chain([
                time(self.deadline_ns),
                time(self.drain_until_ns),
                self.checkpoint_due(),
                self.swap_due(),
            ])
            .flatten()
            .min()
    }

    pub(super) fn record(&mut self, index: usize, sequence: u64, start_ns: u64, outcome: CallOutcome) {
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
