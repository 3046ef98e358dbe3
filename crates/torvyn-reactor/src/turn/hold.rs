//! Elements that a filter holds until a later verdict.

use torvyn_stream::{Element, Emission, Receipt};

use crate::blueprint::Role;
use crate::core::Core;
use crate::node::Worker;
use crate::shared_state::Failure;
use crate::turn::acknowledgement::tracked;
use crate::turn::verdict::{is_over_budget, within_budget};

impl Core {
    /// What an aggregator or a guard buffers counts against its node's budget.
    #[inline]
    pub(crate) fn charge_held(&mut self, index: usize) -> Result<(), Failure> {
        let node = &self.nodes[index];
        if !matches!(node.role, Role::Aggregator | Role::Filter) {
            return Ok(());
        }
        let Worker::Inline(stage) = &node.worker else { return Ok(()) };
        let ledger = &self.edges.shared.nodes[index].ledger;
        let held_bytes = stage.held_bytes() as u64;
        if held_bytes == 0 && ledger.held_bytes() == 0 {
            return Ok(());
        }
        ledger.hold(held_bytes);
        within_budget(node, index, ledger.live_bytes.get() + held_bytes)
    }

    pub(super) fn hold(&mut self, index: usize, element: Element) -> Result<(), Failure> {
        let node = &mut self.nodes[index];
        let counters = &self.edges.shared.nodes[index];
        let before = counters.ledger.held_bytes();
        counters.ledger.hold(before + u64::from(element.len));
        if let Err(failure) = within_budget(node, index, counters.ledger.used_bytes()) {
            counters.ledger.hold(before);
            counters.rare.count().failed.add(1);
            let sequence = Some(element.sequence);
            self.edges.release_unread(element);
            return Err(Failure { sequence, ..failure });
        }
        node.unfinished.fill().held.push_back(element);
        Ok(())
    }

    pub(super) fn replace(
        &mut self,
        index: usize,
        element: Element,
        emission: Emission,
    ) -> Result<(), Failure> {
        let mut replaced = 1;
        let mut receipts = Vec::new();
        for held in self.take_held(index) {
            replaced += 1;
            receipts.extend(held.receipt());
            self.edges.release(held);
        }
        if emission.len == 0 {
            self.edges.shared.nodes[index].rare.count().filtered.add(replaced);
            self.edges.release(element);
            return Ok(());
        }
        let mut emission = emission;
        if emission.companion.is_none() {
            // The attributes of single tokens do not apply to replaced text.
            emission.companion = element.companion.as_ref().and_then(|companion| companion.bare());
        }
        let (sequence, timestamp_ns) = (element.sequence, element.timestamp_ns);
        receipts.extend(element.receipt());
        emission = tracked(emission, Receipt::group(receipts));
        self.edges.release(element);
        let node = &mut self.nodes[index];
        let sent = self.edges.send_made(node, index, &mut emission, sequence, timestamp_ns);
        let counters = &self.edges.shared.nodes[index];
        let outcome = if is_over_budget(&sent) { &counters.rare.count().failed } else { &counters.passed };
        outcome.add(replaced);
        sent
    }

    pub(super) fn take_held(&mut self, index: usize) -> std::collections::VecDeque<Element> {
        if self.nodes[index].unfinished.holds_elements() {
            self.edges.shared.nodes[index].ledger.hold(0);
        }
        self.nodes[index]
            .unfinished
            .used()
            .map(|unfinished| std::mem::take(&mut unfinished.held))
            .unwrap_or_default()
    }

    pub(crate) fn let_held_go(&mut self, index: usize) -> Result<(), Failure> {
        if !self.nodes[index].unfinished.holds_elements() {
            return Ok(());
        }
        let mut result = Ok(());
        for element in self.take_held(index) {
            self.edges.shared.nodes[index].passed.add(1);
            let sent = self.edges.send(&mut self.nodes[index], index, 0, element);
            result = result.and(sent);
        }
        result
    }

    pub(crate) fn drop_held(&mut self, index: usize) {
        if !self.nodes[index].unfinished.holds_elements() {
            return;
        }
        for element in self.take_held(index) {
            self.edges.shared.nodes[index].rare.count().filtered.add(1);
            self.edges.release(element);
        }
    }
}
