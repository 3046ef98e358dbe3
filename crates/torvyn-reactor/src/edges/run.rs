//! Several elements at once, for sources and stages that work in batches: the same moves, counted together.

use torvyn_stream::Emission;

use crate::edges::{Accepts, Edges};
use crate::node::Node;

impl Edges {
    /// Passes the first elements of `input`, at most `count`, on through port 0. Returns how many a plain move suffices
    /// for.
    pub fn pass_run(&mut self, node: &Node, index: usize, input: usize, count: usize) -> usize {
        let Some([only]) = node.spec.ports.first().map(|edges| &**edges) else { return 0 };
        let Ok([from, to]) = self.list.get_disjoint_mut([input, usize::from(*only)]) else {
            return 0;
        };
        if to.accepts != Accepts::All || node.unfinished.has_backlog() {
            return 0;
        }
        let moved = from.queue.move_run(&mut to.queue, count);
        let counters = &self.shared.nodes[index];
        counters.passed.add(moved as u64);
        counters.emitted.add(moved as u64);
        moved
    }

    /// Releases the first `count` elements of `input`, which have been consumed.
    pub fn release_run(&mut self, input: usize, count: usize) {
        let queue = &mut self.list[input].queue;
        // Neighbours nearly always have the same owner.
        let (mut owner, mut payloads, mut live_bytes, mut bytes) = (0, 0, 0, 0);
        for element in queue.front_batch(count).iter() {
            bytes += element.len as usize;
            if !element.payload.is_last() {
                continue;
            }
            if element.owner() != owner {
                self.shared.nodes[owner].ledger.release_many(payloads, live_bytes);
                (owner, payloads, live_bytes) = (element.owner(), 0, 0);
            }
            (payloads, live_bytes) = (payloads + 1, live_bytes + u64::from(element.len));
        }
        self.shared.nodes[owner].ledger.release_many(payloads, live_bytes);
        queue.drop_run(count, bytes);
    }

    /// Sends all outputs of a source through port 0 if nothing is special about them. False: none was sent.
    pub fn send_run(&mut self, node: &mut Node, index: usize, made: &mut Vec<Emission>, now_ns: u64) -> bool {
        let Some([only]) = node.spec.ports.first().map(|edges| &**edges) else { return false };
        let edge = &mut self.list[usize::from(*only)];
        let bytes = made.iter().map(|emission| u64::from(emission.len)).sum();
        let counters = &self.shared.nodes[index];
        let is_plain = edge.accepts == Accepts::All
            && !node.unfinished.has_backlog()
            && !node.spec.is_carrier
            && !self.tracks
            && counters.ledger.used_bytes() + bytes <= node.spec.budget_bytes
            && made.iter().all(|emission| emission.delivery.port() == 0);
        let count = made.len() as u64;
        if !is_plain || !edge.queue.emplace_run(made, index as u16, node.next_sequence, now_ns) {
            return false;
        }
        node.next_sequence += count;
        counters.ledger.allocate_many(count, bytes);
        counters.emitted.add(count);
        true
    }
}
