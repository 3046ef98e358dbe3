//! The edges of a flow and the one way elements move along them, with every allocation and release accounted for.

use std::sync::Arc;

use torvyn_stream::{Element, Emission, End, ErrorKind, Offer, Policy, Queue, StageError};

use crate::blueprint::Role;
use crate::node::Node;
use crate::shared::{Failure, FailureKind, Shared};

pub struct Edge {
    pub queue: Queue,
    pub source: Option<u16>,
    pub target: Option<u16>,
    /// How the stream on it ended, once nothing more will be put in.
    pub closed: Option<Box<End>>,
    /// Nobody takes from it any more: what is sent is discarded and counted.
    pub dead: bool,
}

pub struct Wires {
    pub edges: Box<[Edge]>,
    pub shared: Arc<Shared>,
}

impl Wires {
    /// How many elements `node` may surely make now.
    #[inline]
    pub fn room(&self, node: &Node) -> usize {
        if !node.backlog.is_empty() {
            return 0;
        }
        // A router's ports are not known before the call: what does not fit waits in its backlog.
        if node.role == Role::Router || node.ports.is_empty() {
            return usize::MAX;
        }
        if let [only] = *node.ports[0] {
            let edge = &self.edges[usize::from(only)];
            return if edge.dead { usize::MAX } else { edge.queue.room() };
        }
        let edges = node.ports[0].iter().map(|&edge| &self.edges[usize::from(edge)]);
        edges.filter(|edge| !edge.dead).map(|edge| edge.queue.room()).min().unwrap_or(usize::MAX)
    }

    pub fn is_pressured(&self, node: &Node) -> bool {
        node.ports.iter().flatten().any(|&edge| {
            let edge = &self.edges[usize::from(edge)];
            !edge.dead && edge.queue.is_pressured()
        })
    }

    /// Turns what a component made into an element that its node pays for.
    #[inline(always)]
    pub fn admit(&self, index: usize, node: &Node, emission: Emission) -> Result<Element, Failure> {
        let ledger = &self.shared.nodes[index].ledger;
        ledger.allocate(u64::from(emission.len));
        let mut element =
            Element::new(emission.payload, emission.len, emission.content_type, index as u16);
        element.set_keep(emission.keep);
        element.companion = emission.companion;
        if ledger.used_bytes() > node.budget_bytes {
            return Err(self.over_budget(index, node, element));
        }
        Ok(element)
    }

    #[cold]
    fn over_budget(&self, index: usize, node: &Node, element: Element) -> Failure {
        let used = self.shared.nodes[index].ledger.used_bytes();
        self.release(element);
        let message = format!("{used} bytes in use, {} allowed", node.budget_bytes);
        Failure {
            kind: FailureKind::MemoryExceeded,
            node: Some(index),
            edge: None,
            sequence: None,
            method: "emit",
            error: StageError::new(ErrorKind::Fatal, message),
        }
    }

    /// The element's last use in this flow.
    #[inline]
    pub fn release(&self, element: Element) {
        if element.payload.is_last() {
            self.shared.nodes[element.owner()].ledger.release(u64::from(element.len));
        }
    }

    /// Sends to every edge of a port; what does not fit yet goes to the node's backlog.
    #[inline(always)]
    pub fn send(&mut self, node: &mut Node, index: usize, port: u16, element: Element) -> Result<(), Failure> {
        self.shared.nodes[index].emitted.add(1);
        let count = node.ports[usize::from(port)].len();
        if count == 1 {
            let edge = node.ports[usize::from(port)][0];
            if !node.backlog.is_empty() {
                node.backlog.push_back((edge, element));
                return Ok(());
            }
            return self.offer(node, edge, element);
        }
        self.send_shared(node, port, element)
    }

    fn send_shared(&mut self, node: &mut Node, port: u16, mut element: Element) -> Result<(), Failure> {
        let edges = node.ports[usize::from(port)].clone();
        element.payload = element.payload.into_fanned();
        for &edge in edges.iter() {
            let copy = element.clone();
            if node.backlog.is_empty() {
                self.offer(node, edge, copy)?;
            } else {
                node.backlog.push_back((edge, copy));
            }
        }
        self.release(element);
        Ok(())
    }

    #[inline(always)]
    fn offer(&mut self, node: &mut Node, index: u16, element: Element) -> Result<(), Failure> {
        let edge = &mut self.edges[usize::from(index)];
        if edge.dead {
            edge.queue.note_discarded();
            self.release(element);
            return Ok(());
        }
        match edge.queue.offer(element) {
            Offer::Taken => Ok(()),
            Offer::Full(element) if edge.queue.policy() == Policy::Block => {
                node.backlog.push_front((index, element));
                Ok(())
            }
            Offer::Full(element) => Err(self.queue_full(index, element)),
            Offer::Dropped(gone) => {
                for element in gone {
                    self.release(element);
                }
                Ok(())
            }
        }
    }

    #[cold]
    fn queue_full(&self, index: u16, element: Element) -> Failure {
        let sequence = element.sequence;
        self.release(element);
        Failure {
            kind: FailureKind::QueueFull,
            node: None,
            edge: Some(usize::from(index)),
            sequence: Some(sequence),
            method: "push",
            error: StageError::new(ErrorKind::Unavailable, "the queue is full"),
        }
    }

    /// Moves what waits in a node's backlog as far as there is room. True when it is empty.
    pub fn drain_backlog(&mut self, node: &mut Node) -> Result<bool, Failure> {
        while let Some((edge, element)) = node.backlog.pop_front() {
            let waiting = node.backlog.len();
            self.offer(node, edge, element)?;
            if node.backlog.len() > waiting {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The input that is next to give an element, fairly over those that have one.
    #[inline]
    pub fn next_input(&self, node: &mut Node) -> Option<usize> {
        if let [only] = *node.inputs {
            let only = usize::from(only);
            return (!self.edges[only].queue.is_empty()).then_some(only);
        }
        let count = node.inputs.len();
        for step in 0..count {
            let at = (usize::from(node.cursor) + step) % count;
            let index = usize::from(node.inputs[at]);
            if !self.edges[index].queue.is_empty() {
                node.cursor = ((at + 1) % count) as u16;
                return Some(index);
            }
        }
        None
    }

    #[inline]
    pub fn has_input(&self, node: &Node) -> bool {
        node.inputs.iter().any(|&edge| !self.edges[usize::from(edge)].queue.is_empty())
    }

    /// Makes the facts of this turn visible to others.
    pub fn publish(&self) {
        for (edge, counters) in self.edges.iter().zip(&self.shared.edges) {
            edge.queue.publish(counters);
        }
    }

    /// How the node's input ended, once all of it has.
    pub fn input_end(&self, node: &Node) -> Option<&End> {
        let mut end: Option<&End> = None;
        for &edge in &node.inputs {
            let edge = &self.edges[usize::from(edge)];
            let closed = edge.closed.as_deref()?;
            if !edge.queue.is_empty() {
                return None;
            }
            // With several inputs the one that did not end in the ordinary way speaks for all.
            if end.is_none_or(|seen| seen.finish_reason == "stop" && seen.object.is_none()) {
                end = Some(closed);
            }
        }
        end
    }
}
