//! A new graph for segments of a running flow, from Python.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use torvyn_reactor::{Flow, GraphChange, NumberedEdge, Refusal, Replacement, Worker};

use crate::element::convert::NodeContext;
use crate::flow::blueprint::{EdgePlan, NodePlan, make_node};
use crate::flow::swap::RetiredStage;

/// An edge with numbers for names: its own, those of its source and port, of its target and input.
#[derive(FromPyObject)]
struct NumberedPlan {
    number: u16,
    source: usize,
    port: usize,
    target: usize,
    input: u16,
    plan: EdgePlan,
}

/// A node that joins the flow.
#[derive(FromPyObject)]
struct Joining {
    plan: NodePlan,
    /// Its native stage, port or bound methods.
    work: Py<PyAny>,
    context: Py<PyAny>,
    /// Whether its elements are settled by checkpoints.
    by_checkpoint: bool,
}

/// `torvyn.reactor.swap.graph_order.GraphOrder`.
#[derive(FromPyObject)]
pub struct GraphOrder {
    joining: Vec<Joining>,
    leaving: Vec<usize>,
    saved: Vec<usize>,
    successors: Vec<(usize, usize)>,
    staying: Vec<usize>,
    by_checkpoint: Vec<usize>,
    edges: Vec<NumberedPlan>,
    order: Vec<u16>,
    segment_of: Vec<usize>,
    segments: usize,
    /// `exchanged(stages)`, with those of the nodes that have left.
    exchanged: Py<PyAny>,
    /// `refused(reason, what)`.
    refused: Py<PyAny>,
}

impl NumberedPlan {
    fn into_edge(self) -> NumberedEdge {
        let ends = (Some((self.source, self.port)), Some(self.target), self.input);
        NumberedEdge { number: self.number, spec: self.plan.between(ends) }
    }
}

impl GraphOrder {
    /// Raises if the flow runs without Python, and a new component needs it.
    pub fn into_change(self, py: Python<'_>, flow: &Arc<Flow>) -> PyResult<GraphChange> {
        let first = flow.shared.nodes.len();
        let mut joining = Vec::with_capacity(self.joining.len());
        for (index, each) in (first..).zip(self.joining) {
            let node_context = || NodeContext {
                context: each.context.clone_ref(py),
                shared: flow.shared.clone(),
                node: index as u16,
            };
            let (node, is_python) = make_node(each.work.bind(py), &each.plan, node_context)?;
            if is_python && !flow.hosted {
                return Err(PyValueError::new_err("the flow runs without Python"));
            }
            if let (Some(acks), true) = (&node.acks, each.by_checkpoint) {
                acks.settle_by_checkpoint();
            }
            if let Worker::Offloaded(state) = &node.worker {
                flow.connect(&state.exchange);
            }
            joining.push(node);
        }
        let (exchanged, refused) = (self.exchanged, self.refused);
        Ok(GraphChange {
            joining,
            leaving: self.leaving,
            saved: self.saved,
            successors: self.successors,
            staying: self.staying,
            by_checkpoint: self.by_checkpoint,
            edges: self.edges.into_iter().map(NumberedPlan::into_edge).collect(),
            order: self.order.into(),
            segment_of: self.segment_of,
            segments: self.segments,
            obstacle: "no turn has run",
            done: Box::new(move |outcome| Python::attach(|py| tell(py, outcome, &exchanged, &refused))),
        })
    }
}

fn tell(
    py: Python<'_>,
    outcome: Result<Vec<Replacement>, Refusal>,
    exchanged: &Py<PyAny>,
    refused: &Py<PyAny>,
) {
    let told = match outcome {
        Ok(stages) => {
            let stages: Vec<_> = stages.into_iter().map(RetiredStage::new).collect();
            exchanged.call1(py, (stages,))
        }
        Err(Refusal::Ended) => refused.call1(py, ("ended", "it has ended")),
        Err(refusal) => refused.call1(py, ("state", format!("{refusal:?}"))),
    };
    if let Err(error) = told {
        error.write_unraisable(py, Some(exchanged.bind(py)));
    }
}
