//! The edges of a flow and the one way elements move along them, with every allocation and release accounted for.

use std::sync::Arc;

use torvyn_stream::{Element, Emission, End, ErrorKind, Offer, Queue, StageError};

use crate::blueprint::Role;
use crate::node::Node;
use crate::shared_state::{Failure, FailureKind, SharedState};

/// What becomes of elements that are sent to an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Accepts {
    All,
    /// An interrupt passes: those marked to be kept enter, the others are dropped.
    Kept,
    /// Nobody reads here any more: they stay unread.
    Nothing,
}

pub struct Edge {
    pub queue: Queue,
    pub source: Option<u16>,
    pub target: Option<u16>,
    /// How the stream on it ended, once nothing more will be put in.
    pub closed: Option<Box<End>>,
    pub accepts: Accepts,
}

pub struct Edges {
    pub list: Box<[Edge]>,
    pub shared: Arc<SharedState>,
}

impl Edge {
    #[inline]
    pub fn is_dead(&self) -> bool {
        self.accepts == Accepts::Nothing
    }
}

impl Edges {
    /// How many elements `node` may surely make now.
    #[inline]
    pub fn free_slots(&self, node: &Node) -> usize {
        if !node.backlog.is_empty() {
            return 0;
        }
        // A router's ports are not known before the call: what does not fit waits in its backlog.
        if node.role == Role::Router || node.ports.is_empty() {
            return usize::MAX;
        }
        if let [only] = *node.ports[0] {
            let edge = &self.list[usize::from(only)];
            return if edge.is_dead() { usize::MAX } else { edge.queue.free_slots() };
        }
        let edges = node.ports[0].iter().map(|&edge| &self.list[usize::from(edge)]);
        edges.filter(|edge| !edge.is_dead()).map(|edge| edge.queue.free_slots()).min().unwrap_or(usize::MAX)
    }

    /// How many bytes may be made before a queue that blocks is full.
    pub fn free_bytes(&self, node: &Node) -> usize {
        if node.role == Role::Router {
            return usize::MAX;
        }
        let edges = node.ports.first().into_iter().flatten().map(|&edge| &self.list[usize::from(edge)]);
        edges.filter(|edge| !edge.is_dead()).map(|edge| edge.queue.free_bytes()).min().unwrap_or(usize::MAX)
    }

    pub fn is_pressured(&self, node: &Node) -> bool {
        node.ports.iter().flatten().any(|&edge| {
            let edge = &self.list[usize::from(edge)];
            !edge.is_dead() && edge.queue.is_pressured()
        })
    }

    /// Charges a node for what it made.
    #[inline(always)]
    fn charge(&self, index: usize, node: &Node, len: u32) -> Result<(), Failure> {
        let ledger = &self.shared.nodes[index].ledger;
        ledger.allocate(u64::from(len));
        if ledger.used_bytes() > node.budget_bytes {
            let used = ledger.used_bytes();
            ledger.release(u64::from(len));
            return Err(over_budget(index, node, used, "emit"));
        }
        Ok(())
    }

    /// Sends what a component made through port 0, as an element that its node pays for.
    #[inline(always)]
    pub fn send_made(
        &mut self,
        node: &mut Node,
        index: usize,
        emission: Emission,
        sequence: u64,
        timestamp_ns: u64,
    ) -> Result<(), Failure> {
        self.charge(index, node, emission.len)?;
        let mut emission = emission;
        if let Some([only]) = node.ports.first().map(|edges| &**edges)
            && node.backlog.is_empty()
        {
            let edge = &mut self.list[usize::from(*only)];
            if edge.accepts == Accepts::All {
                match edge.queue.emplace(emission, index as u16, sequence, timestamp_ns) {
                    Ok(()) => {
                        self.shared.nodes[index].emitted.add(1);
                        return Ok(());
                    }
                    Err(back) => emission = back,
                }
            }
        }
        let element = Element::made(emission, index as u16, sequence, timestamp_ns);
        self.send(node, index, 0, element)
    }

    /// Puts what the caller feeds into the entry; the node behind it pays. What does not fit now comes back.
    pub fn feed(
        &mut self,
        entry: usize,
        node: &Node,
        emission: Emission,
        sequence: u64,
        now_ns: u64,
    ) -> Result<Option<Emission>, Failure> {
        if !self.list[entry].queue.fits(emission.len as usize) {
            return Ok(Some(emission));
        }
        let owner = self.list[entry].target.map_or(0, usize::from);
        self.charge(owner, node, emission.len)?;
        let element = Element::made(emission, owner as u16, sequence, now_ns);
        match self.list[entry].queue.offer(element) {
            Offer::Taken => {}
            Offer::Full(element) => self.release(element),
            Offer::Dropped(gone) => gone.into_iter().for_each(|old| self.release(old)),
        }
        Ok(None)
    }

    /// The element's last use in this flow.
    #[inline]
    pub fn release(&self, element: Element) {
        if element.payload.is_last() {
            self.shared.nodes[element.owner()].ledger.release(u64::from(element.len));
        }
    }

    /// The first element of `input` is used up.
    #[inline(always)]
    pub fn release_front(&mut self, input: usize) {
        let queue = &mut self.list[input].queue;
        if let Some(element) = queue.front_mut()
            && element.payload.is_last()
        {
            let ledger = &self.shared.nodes[element.owner()].ledger;
            ledger.release(u64::from(element.len));
        }
        queue.drop_front();
    }

    /// Passes the first element of `input` on through port 0, if that takes no more than a move. False: it does.
    #[inline(always)]
    pub fn pass_front(&mut self, node: &Node, index: usize, input: usize) -> bool {
        let Some([only]) = node.ports.first().map(|edges| &**edges) else { return false };
        let Ok([from, to]) = self.list.get_disjoint_mut([input, usize::from(*only)]) else {
            return false;
        };
        if to.accepts != Accepts::All || !node.backlog.is_empty() || !from.queue.move_front(&mut to.queue) {
            return false;
        }
        let counters = &self.shared.nodes[index];
        counters.passed.add(1);
        counters.emitted.add(1);
        true
    }

    /// Sends to every edge of a port; what does not fit yet goes to the node's backlog.
    #[inline(always)]
    pub fn send(
        &mut self,
        node: &mut Node,
        index: usize,
        port: u16,
        element: Element,
    ) -> Result<(), Failure> {
        let counters = &self.shared.nodes[index];
        if node.ports[usize::from(port)].is_empty() {
            counters.ignored.add(1);
            self.release(element);
            return Ok(());
        }
        counters.emitted.add(1);
        self.send_uncounted(node, port, element)
    }

    /// The same for elements that do not count as the node's output: dead letters.
    #[inline(always)]
    pub fn send_uncounted(&mut self, node: &mut Node, port: u16, element: Element) -> Result<(), Failure> {
        if let [edge] = *node.ports[usize::from(port)] {
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
        let mut result = Ok(());
        for &edge in edges.iter() {
            let copy = element.clone();
            if node.backlog.is_empty() {
                // One full queue does not keep the element from the other edges.
                let offered = self.offer(node, edge, copy);
                result = result.and(offered);
            } else {
                node.backlog.push_back((edge, copy));
            }
        }
        self.release(element);
        result
    }

    #[inline(always)]
    fn offer(&mut self, node: &mut Node, index: u16, element: Element) -> Result<(), Failure> {
        let edge = &mut self.list[usize::from(index)];
        if edge.accepts != Accepts::All && self.turn_away(index, &element) {
            self.release(element);
            return Ok(());
        }
        let edge = &mut self.list[usize::from(index)];
        match edge.queue.offer(element) {
            Offer::Taken => Ok(()),
            Offer::Full(element) if !edge.queue.acts_when_full() => {
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

    /// Counts an element that an edge does not accept. False: it does.
    #[cold]
    fn turn_away(&mut self, index: u16, element: &Element) -> bool {
        let edge = &mut self.list[usize::from(index)];
        match edge.accepts {
            Accepts::Kept if !element.keep() => edge.queue.note_dropped(),
            Accepts::All | Accepts::Kept => return false,
            Accepts::Nothing => edge.queue.note_unread(),
        }
        true
    }

    /// Counts an element that its node can no longer send.
    pub fn leave_unread(&mut self, edge: u16, element: Element) {
        self.list[usize::from(edge)].queue.note_unread();
        self.release(element);
    }

    #[cold]
    fn queue_full(&mut self, index: u16, element: Element) -> Failure {
        let sequence = element.sequence;
        self.list[usize::from(index)].queue.note_dropped();
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
            return (!self.list[only].queue.is_empty()).then_some(only);
        }
        let count = node.inputs.len();
        for step in 0..count {
            let at = (usize::from(node.cursor) + step) % count;
            let index = usize::from(node.inputs[at]);
            if !self.list[index].queue.is_empty() {
                node.cursor = ((at + 1) % count) as u16;
                return Some(index);
            }
        }
        None
    }

    #[inline]
    pub fn has_input(&self, node: &Node) -> bool {
        node.inputs.iter().any(|&edge| !self.list[usize::from(edge)].queue.is_empty())
    }

    /// Makes the facts of this turn visible to others.
    pub fn publish(&self) {
        for (edge, counters) in self.list.iter().zip(&self.shared.edges) {
            edge.queue.publish(counters);
        }
    }

    /// How the node's input ended, once all of it has.
    pub fn input_end(&self, node: &Node) -> Option<&End> {
        let mut end: Option<&End> = None;
        for &edge in &node.inputs {
            let edge = &self.list[usize::from(edge)];
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

#[cold]
pub fn over_budget(index: usize, node: &Node, used: u64, method: &'static str) -> Failure {
    let message = format!("{used} bytes in use, {} allowed", node.budget_bytes);
    Failure {
        kind: FailureKind::MemoryExceeded,
        node: Some(index),
        edge: None,
        sequence: None,
        method,
        error: StageError::new(ErrorKind::Fatal, message),
    }
}
