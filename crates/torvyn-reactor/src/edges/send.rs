//! Sending elements along edges: charge, count, offer to the queue, or keep in the backlog.

use torvyn_stream::{Element, Emission, ErrorKind, Offer, StageError};

use crate::edges::{Accepts, Edges, over_budget};
use crate::node::Node;
use crate::shared_state::{Failure, FailureKind};
use crate::turn::verdict::method_name;

impl Edges {
    /// Charges a node for its output.
    #[inline(always)]
    fn charge(&self, index: usize, node: &Node, len: u32) -> Result<(), Failure> {
        let ledger = &self.shared.nodes[index].ledger;
        ledger.allocate(u64::from(len));
        if ledger.used_bytes() > node.spec.budget_bytes {
            let used = ledger.used_bytes();
            ledger.release(u64::from(len));
            return Err(over_budget(index, node, used, "emit"));
        }
        Ok(())
    }

    /// Sends a component's output through port 0, as an element that its node pays for. Leaves the emission empty.
    #[inline(always)]
    pub fn send_made(
        &mut self,
        node: &mut Node,
        index: usize,
        emission: &mut Emission,
        sequence: u64,
        timestamp_ns: u64,
    ) -> Result<(), Failure> {
        self.charge(index, node, emission.len)?;
        if let Some(only) = node.only_output.edge()
            && !node.unfinished.has_backlog()
        {
            let edge = &mut self.list[only];
            if edge.accepts == Accepts::All
                && edge.queue.emplace(emission, index as u16, sequence, timestamp_ns)
            {
                self.shared.nodes[index].emitted.add(1);
                return Ok(());
            }
        }
        self.send_whole(node, index, 0, emission, sequence, timestamp_ns)
    }

    /// The same for an output that does not simply enter one queue, and is paid for.
    #[inline(never)]
    fn send_whole(
        &mut self,
        node: &mut Node,
        index: usize,
        port: u16,
        emission: &mut Emission,
        sequence: u64,
        timestamp_ns: u64,
    ) -> Result<(), Failure> {
        let element = Element::made(emission.take(), index as u16, sequence, timestamp_ns);
        self.send(node, index, port, element)
    }

    /// Sends a component's output through the port that it names.
    #[cold]
    pub fn send_to_port(
        &mut self,
        node: &mut Node,
        index: usize,
        emission: &mut Emission,
        sequence: u64,
        timestamp_ns: u64,
    ) -> Result<(), Failure> {
        let Some(port) = node.spec.port_ids.iter().position(|id| *id == emission.delivery.port()) else {
            if let Some(receipt) = emission.payload.receipt() {
                receipt.abandon();
            }
            return Err(unknown_port(index, node));
        };
        self.charge(index, node, emission.len)?;
        self.send_whole(node, index, port as u16, emission, sequence, timestamp_ns)
    }

    /// Feeds the caller's emission into the entry; the first node pays. What does not fit is returned.
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
        let owner = self.list[entry].target.node().unwrap_or(0);
        self.charge(owner, node, emission.len)?;
        let element = Element::made(emission, owner as u16, sequence, now_ns);
        match self.list[entry].queue.offer(element) {
            Offer::Taken => {}
            Offer::Full(element) => self.release(element),
            Offer::Dropped(gone) => gone.into_iter().for_each(|old| self.release(old)),
        }
        Ok(None)
    }

    /// Sends to every edge of a port; what does not fit goes to the node's backlog.
    #[inline(always)]
    pub fn send(
        &mut self,
        node: &mut Node,
        index: usize,
        port: u16,
        element: Element,
    ) -> Result<(), Failure> {
        let counters = &self.shared.nodes[index];
        if node.spec.ports[usize::from(port)].is_empty() {
            counters.rare.count().ignored.add(1);
            self.release(element);
            return Ok(());
        }
        counters.emitted.add(1);
        self.send_uncounted(node, port, element)
    }

    /// The same for elements that do not count as the node's output: dead letters.
    #[inline(always)]
    pub fn send_uncounted(&mut self, node: &mut Node, port: u16, element: Element) -> Result<(), Failure> {
        if let [edge] = *node.spec.ports[usize::from(port)] {
            if node.unfinished.has_backlog() {
                node.unfinished.fill().backlog.push_back((edge, element));
                return Ok(());
            }
            return self.offer(node, edge, element);
        }
        self.send_shared(node, port, element)
    }

    fn send_shared(&mut self, node: &mut Node, port: u16, mut element: Element) -> Result<(), Failure> {
        let edges = node.spec.ports[usize::from(port)].clone();
        element.payload = element.payload.into_fanned();
        let mut result = Ok(());
        for &edge in edges.iter() {
            let copy = element.clone();
            if !node.unfinished.has_backlog() {
                // One full queue does not keep the element from the other edges.
                let offered = self.offer(node, edge, copy);
                result = result.and(offered);
            } else {
                node.unfinished.fill().backlog.push_back((edge, copy));
            }
        }
        self.release(element);
        result
    }

    #[inline(always)]
    fn offer(&mut self, node: &mut Node, index: u16, element: Element) -> Result<(), Failure> {
        let edge = &mut self.list[usize::from(index)];
        if edge.accepts != Accepts::All && self.turn_away(index, &element) {
            if self.list[usize::from(index)].is_dead() {
                self.release_unread(element);
            } else {
                self.release(element);
            }
            return Ok(());
        }
        let edge = &mut self.list[usize::from(index)];
        match edge.queue.offer(element) {
            Offer::Taken => Ok(()),
            Offer::Full(element) if !edge.queue.acts_when_full() => {
                node.unfinished.fill().backlog.push_front((index, element));
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

    /// Counts an element that an edge does not accept. False if the edge accepts it.
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
        self.release_unread(element);
    }

    #[cold]
    fn queue_full(&mut self, index: u16, element: Element) -> Failure {
        let sequence = element.sequence;
        self.list[usize::from(index)].queue.note_dropped();
        self.release_unread(element);
        Failure {
            kind: FailureKind::QueueFull,
            node: None,
            edge: Some(usize::from(index)),
            sequence: Some(sequence),
            method: "push",
            error: StageError::new(ErrorKind::Unavailable, "the queue is full"),
        }
    }

    /// Moves a node's backlog as far as the queues have capacity. True when it is empty.
    pub fn drain_backlog(&mut self, node: &mut Node) -> Result<bool, Failure> {
        while let Some((edge, element)) =
            node.unfinished.used().and_then(|unfinished| unfinished.backlog.pop_front())
        {
            let waiting = node.unfinished.backlog.len();
            self.offer(node, edge, element)?;
            if node.unfinished.backlog.len() > waiting {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn unknown_port(index: usize, node: &Node) -> Failure {
    let message = "an output names a port that the component does not declare in `ports`";
    Failure {
        kind: FailureKind::Component,
        node: Some(index),
        edge: None,
        sequence: None,
        method: method_name(node.role),
        error: StageError::new(ErrorKind::Contract, message),
    }
}
