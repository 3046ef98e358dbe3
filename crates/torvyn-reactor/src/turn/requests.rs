//! Requests to a running flow: cancel, drain, interrupt, wake, resume, swap.

use crate::core::Core;
use crate::node::Pending;
use crate::shared_state::{Failure, node_request, request};

impl Core {
    /// Carries out the pending requests.
    pub(crate) fn obey(&mut self) -> Result<(), Failure> {
        let requests = self.edges.shared.take_requests();
        if requests & request::CANCEL != 0 {
            self.give_up();
            return Ok(());
        }
        if requests & request::NODE != 0 {
            for index in 0..self.nodes.len() {
                self.obey_node(index)?;
            }
        }
        if requests & request::SWAP != 0 {
            self.swaps.append(&mut self.edges.shared.take_swaps());
        }
        if requests & request::INTERRUPT != 0 {
            self.interrupt(|_| true)?;
        }
        if requests & (request::DRAIN | request::FINISH) != 0 {
            if requests & request::DRAIN != 0 {
                // A repeated request does not extend the first one's time.
                let until = self.now_ns.saturating_add(self.drain_timeout_ns);
                self.drain_until_ns = self.drain_until_ns.min(until);
            }
            self.stop_sources();
        }
        Ok(())
    }

    pub(super) fn obey_node(&mut self, index: usize) -> Result<(), Failure> {
        let requests = self.edges.shared.nodes[index].take_requests();
        let node = &mut self.nodes[index];
        if requests & node_request::WAKE != 0 {
            node.pending = Pending::NO;
        }
        if requests & node_request::RESUME != 0 {
            node.paused = false;
        }
        if requests & node_request::END_TRIAL != 0 {
            node.unfinished.take_trial();
        }
        if requests & node_request::FAIL_TRIAL != 0 {
            self.fail_trial(index);
        }
        if requests & node_request::LET_GO != 0 {
            self.let_go(index);
        }
        if requests & node_request::INTERRUPT != 0 {
            self.interrupt_after(index)?;
        }
        Ok(())
    }

    /// An interrupt that a source requests inside `pull` applies to what it sent before.
    pub(crate) fn obey_source(&mut self, index: usize) -> Result<(), Failure> {
        let requests = self.edges.shared.nodes[index].take_requests();
        let rest = requests & !node_request::INTERRUPT;
        if rest != 0 {
            self.edges.shared.request_node(index, rest);
        }
        if requests & node_request::INTERRUPT != 0 { self.interrupt_after(index) } else { Ok(()) }
    }
}
