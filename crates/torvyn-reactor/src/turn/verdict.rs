//! What a call returned becomes what happens next: pass, drop, replace, block, sequence numbers. The same for inline and
//! offloaded stages.

use torvyn_stream::{Element, Emission, End, StageError, Step};

use crate::blueprint::Role;
use crate::core::Core;
use crate::edges::{Edges, over_budget};
use crate::ends;
use crate::node::{Node, Phase};
use crate::shared_state::{Failure, FailureKind};
use crate::turn::acknowledgement::send_tracked;

impl Core {
    /// Concludes one call. `element` is its input; its outputs are in the outbox.
    #[inline]
    pub(crate) fn conclude(
        &mut self,
        index: usize,
        element: Option<Element>,
        outcome: Result<Step, StageError>,
        attempt: u32,
    ) -> Result<(), Failure> {
        let step = match outcome {
            Ok(step) => step,
            Err(error) => return self.recover(index, element, error, attempt),
        };
        match (step, element) {
            (Step::Forward, Some(element)) => {
                let released = self.let_held_go(index);
                self.edges.shared.nodes[index].passed.add(1);
                if self.nodes[index].role == Role::Processor {
                    note_stamp(&mut self.nodes[index], &element, false);
                }
                let sent = self.edges.send(&mut self.nodes[index], index, 0, element);
                released.and(sent)
            }
            (Step::Done, element) => {
                if element.is_some() {
                    self.drop_held(index);
                }
                self.send_made(index, element)
            }
            (Step::Drop, Some(element)) => {
                self.drop_held(index);
                self.edges.shared.nodes[index].rare.count().filtered.add(1);
                self.edges.release(element);
                Ok(())
            }
            (step, element) => self.conclude_rare(index, element, step),
        }
    }

    fn conclude_rare(&mut self, index: usize, element: Option<Element>, step: Step) -> Result<(), Failure> {
        match (step, element) {
            (Step::Pause, element) => {
                self.nodes[index].paused = true;
                self.send_made(index, element)
            }
            (Step::More, element) => {
                let node = &mut self.nodes[index];
                if let Some(element) = &element {
                    note_stamp(node, element, false);
                }
                if element.is_some() {
                    node.unfinished.fill().current = element.map(Box::new);
                }
                node.more = true;
                self.send_made(index, None)
            }
            (Step::Route, Some(element)) => self.route(index, element),
            (Step::Hold, Some(element)) => self.hold(index, element),
            (Step::Replace(emission), Some(element)) => self.replace(index, element, emission),
            (Step::Block(reason), element) => self.block(index, element, reason),
            (_, element) => {
                if let Some(element) = element {
                    self.edges.release(element);
                }
                Ok(())
            }
        }
    }

    /// Ends the stream here. The stage's outputs are still sent.
    fn block(&mut self, index: usize, element: Option<Element>, reason: String) -> Result<(), Failure> {
        self.drop_held(index);
        let mut end = End::because("content_filter");
        end.detail = Some(reason);
        let end = ends::shared(end);
        if self.outbox.made.is_empty() {
            if let Some(element) = element {
                self.edges.shared.nodes[index].rare.count().filtered.add(1);
                self.edges.release(element);
            }
            self.finish_node(index, end);
            return Ok(());
        }
        self.send_made(index, element)?;
        if !self.nodes[index].unfinished.has_backlog() {
            self.finish_node(index, end);
        } else {
            self.nodes[index].phase = Phase::Flushing;
            self.nodes[index].end = Some(end);
            self.stop_listening(index);
        }
        Ok(())
    }

    /// Sends the outbox, numbered by the node's role, and releases the element it was made from.
    #[inline]
    pub(super) fn send_made(&mut self, index: usize, element: Option<Element>) -> Result<(), Failure> {
        let made_nothing = self.outbox.made.is_empty();
        let node = &mut self.nodes[index];
        if let Some(element) = &element {
            note_stamp(node, element, made_nothing);
        }
        let result = if self.edges.tracks {
            self.send_outbox_tracked(index, element.as_ref())
        } else {
            let mut made = self.outbox.made.iter_mut();
            made.try_for_each(|emission| send_untracked(&mut self.edges, node, index, emission, self.now_ns))
        };
        self.outbox.made.clear();
        if let Some(element) = element {
            if is_over_budget(&result) {
                self.edges.shared.nodes[index].rare.count().failed.add(1);
                self.edges.release_unread(element);
            } else {
                self.count_done(index, made_nothing, 1);
                self.edges.release(element);
            }
        }
        result?;
        self.charge_held(index)
    }

    /// Counts elements that their node has consumed.
    #[inline]
    pub(crate) fn count_done(&mut self, index: usize, made_nothing: bool, elements: u64) {
        let counters = &self.edges.shared.nodes[index];
        match self.nodes[index].role {
            Role::Aggregator => counters.rare.count().absorbed.add(elements),
            // A guard that returns nothing buffers the text until it has decided.
            Role::Filter if made_nothing => counters.rare.count().absorbed.add(elements),
            _ => counters.passed.add(elements),
        }
    }

    fn route(&mut self, index: usize, mut element: Element) -> Result<(), Failure> {
        let ports = std::mem::take(&mut self.outbox.ports);
        let node = &mut self.nodes[index];
        let counters = &self.edges.shared.nodes[index];
        let is_wired = |port: &u16| !node.spec.ports[usize::from(*port)].is_empty();
        if ports.iter().any(is_wired) {
            counters.passed.add(1);
        } else {
            counters.rare.count().filtered.add(1);
        }
        let mut result = Ok(());
        match ports.as_slice() {
            [] => self.edges.release(element),
            [port] => result = self.edges.send(node, index, *port, element),
            several => {
                element.payload = element.payload.into_fanned();
                for &port in several {
                    let sent = self.edges.send(node, index, port, element.clone());
                    result = result.and(sent);
                }
                self.edges.release(element);
            }
        }
        self.outbox.ports = ports;
        self.outbox.ports.clear();
        result
    }
}

pub(super) fn is_over_budget(result: &Result<(), Failure>) -> bool {
    matches!(result, Err(failure) if failure.kind == FailureKind::MemoryExceeded)
}

pub(super) fn within_budget(node: &Node, index: usize, used: u64) -> Result<(), Failure> {
    if used <= node.spec.budget_bytes {
        Ok(())
    } else {
        Err(over_budget(index, node, used, method_name(node.role)))
    }
}

#[inline]
pub(crate) fn note_stamp(node: &mut Node, element: &Element, made_nothing: bool) {
    node.stamp.sequence = element.sequence;
    node.stamp.timestamp_ns = element.timestamp_ns;
    if node.role == Role::Processor {
        // Needed only for outputs: those of this call, or of a generator that continues later.
        let attributes = match &element.companion {
            Some(companion) if !made_nothing || node.more => companion.inherit(),
            _ => None,
        };
        node.unfinished.set_attributes(attributes);
    }
}

/// Sends an output of a source.
#[inline(always)]
pub(crate) fn send_one(
    edges: &mut Edges,
    node: &mut Node,
    index: usize,
    emission: &mut Emission,
    now_ns: u64,
) -> Result<(), Failure> {
    if edges.tracks {
        return send_tracked(edges, node, index, emission, None, now_ns);
    }
    send_untracked(edges, node, index, emission, now_ns)
}

/// Sends an output as it is, numbered by the node's role.
#[inline(always)]
pub(crate) fn send_untracked(
    edges: &mut Edges,
    node: &mut Node,
    index: usize,
    emission: &mut Emission,
    now_ns: u64,
) -> Result<(), Failure> {
    if node.spec.ports.is_empty() {
        return Ok(());
    }
    let (sequence, timestamp_ns) = match node.role {
        Role::Source => (node.next_sequence, now_ns),
        Role::Aggregator => (node.next_sequence, node.stamp.timestamp_ns),
        // A guard also sends text of earlier elements, with their own attributes or none.
        Role::Filter => (node.stamp.sequence, node.stamp.timestamp_ns),
        _ => {
            if emission.companion.is_none() {
                emission.companion = node.unfinished.attributes.clone();
            }
            (node.stamp.sequence, node.stamp.timestamp_ns)
        }
    };
    node.next_sequence += 1;
    if emission.delivery.port() != 0 {
        return edges.send_to_port(node, index, emission, sequence, timestamp_ns);
    }
    edges.send_made(node, index, emission, sequence, timestamp_ns)
}

pub fn method_name(role: Role) -> &'static str {
    match role {
        Role::Source => "pull",
        Role::Processor => "process",
        Role::Filter => "evaluate",
        Role::Router => "route",
        Role::Aggregator => "ingest",
        Role::Sink => "push",
    }
}
