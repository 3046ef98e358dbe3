//! A small flow for tests: a source, an edge and a sink.

use std::sync::Arc;

use torvyn_stream::{Policy, Stage};

use crate::blueprint::{Blueprint, EdgeSpec, Role, Timing};
use crate::clock::Clock;
use crate::flow::Flow;
use crate::node::{Node, Worker};
use crate::node_spec::NodeSpec;
use crate::shared_state::SharedState;

pub fn node(role: Role, stage: impl Stage + 'static, ports: usize) -> Node {
    Node::new(NodeSpec::new(role, ports), Worker::Inline(Box::new(stage)))
}

/// From the only port of a node to another node.
pub fn edge(source: usize, target: usize) -> EdgeSpec {
    EdgeSpec {
        source: Some((source, 0)),
        target: Some(target),
        input: 0,
        depth: 4,
        bytes: 1 << 20,
        policy: Policy::Block,
        low_watermark: 0.5,
        max_age_ns: 0,
    }
}

pub fn blueprint(source: impl Stage + 'static, sink: impl Stage + 'static) -> Blueprint {
    Blueprint {
        nodes: vec![node(Role::Source, source, 1), node(Role::Sink, sink, 0)],
        edges: vec![edge(0, 1)],
        quarter_weight: 4,
        turn_elements: 8,
        turn_time_ns: 1_000_000,
        drain_timeout_ns: 1_000_000_000,
        deadline_ns: None,
        hosted: false,
        annotate: None,
        timing: Timing::Off,
        on_error: None,
        store_refused: None,
        checkpoints: None,
    }
}

pub fn flow(blueprint: Blueprint) -> Arc<Flow> {
    let shared = SharedState::new(blueprint.nodes.len(), blueprint.edges.len());
    Flow::new(blueprint, Arc::new(shared), Clock::monotonic(1))
}
