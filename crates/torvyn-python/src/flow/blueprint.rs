//! A linked Plan -> the reactor's blueprint: attributes of the Plan are read here, and nowhere else in native code.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use torvyn_reactor::{Backoff, EdgeSpec, Flow, Node, NodeSpec, Recovery, Replacement, Role, Timing, Worker};
use torvyn_stream::Policy;

use crate::component::native_stage::NativeStage;
use crate::component::stage::PyStage;
use crate::element::convert::NodeContext;
use crate::element::port_ids::port_id;
use crate::enums::{Priority, from_python};
use crate::flow::port::Port;
use crate::lock::lock;

/// `torvyn._link.plan.Plan`, as far as the reactor needs it.
#[derive(FromPyObject)]
pub struct Plan {
    nodes: Vec<NodePlan>,
    #[pyo3(from_py_with = quarter_weight, attribute("priority"))]
    pub quarter_weight: u32,
    pub runtime: RuntimePlan,
    #[pyo3(from_py_with = from_python, attribute("observability"))]
    pub timing: Timing,
}

#[derive(FromPyObject)]
pub struct RuntimePlan {
    pub turn_elements: u32,
    #[pyo3(from_py_with = nanoseconds, attribute("turn_time_s"))]
    pub turn_time_ns: u64,
    #[pyo3(from_py_with = nanoseconds, attribute("drain_timeout_s"))]
    pub drain_timeout_ns: u64,
}

#[derive(FromPyObject)]
pub struct NodePlan {
    name: String,
    #[pyo3(from_py_with = from_python)]
    role: Role,
    ports: Vec<String>,
    inputs: Vec<String>,
    on_error: ErrorPolicy,
    max_memory_bytes: u64,
}

#[derive(FromPyObject)]
struct ErrorPolicy {
    retries: u32,
    #[pyo3(from_py_with = nanoseconds, attribute("backoff_s"))]
    backoff_ns: u64,
    #[pyo3(from_py_with = nanoseconds, attribute("max_backoff_s"))]
    max_backoff_ns: u64,
    #[pyo3(from_py_with = from_python)]
    recovery: Recovery,
}

impl ErrorPolicy {
    fn backoff(&self) -> Backoff {
        Backoff { first_ns: self.backoff_ns, max_ns: self.max_backoff_ns }
    }
}

impl NodePlan {
    /// The worker with the node's policy and budget, for a flow that runs.
    pub fn replacement(&self, worker: Worker, flow: &Arc<Flow>) -> Replacement {
        if let Worker::Offloaded(state) = &worker {
            flow.connect(&state.exchange);
        }
        Replacement {
            worker,
            recovery: self.on_error.recovery,
            retries: self.on_error.retries,
            backoff: self.on_error.backoff(),
            budget_bytes: self.max_memory_bytes,
        }
    }
}

/// An edge of the Plan, or one from or to the caller, whose name is empty.
#[derive(FromPyObject)]
pub struct EdgePlan {
    source: String,
    port: String,
    target: String,
    input: String,
    depth: usize,
    bytes: usize,
    #[pyo3(from_py_with = from_python)]
    backpressure: Policy,
    low_watermark: f64,
    max_age_s: Option<f64>,
}

/// The nodes of a flow, and whether its turns must run attached to Python.
pub struct Nodes {
    pub nodes: Vec<Node>,
    pub needs_python: bool,
}

impl Plan {
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The native nodes; `work` has the native stage, the port or the bound methods of each.
    pub fn nodes(
        &self,
        work: &[Bound<'_, PyAny>],
        node_context: impl Fn(usize) -> NodeContext,
    ) -> PyResult<Nodes> {
        let mut nodes = Nodes { nodes: Vec::with_capacity(self.nodes.len()), needs_python: false };
        for (index, (plan, object)) in self.nodes.iter().zip(work).enumerate() {
            let (node, is_python) = make_node(object, plan, || node_context(index))?;
            nodes.needs_python |= is_python;
            nodes.nodes.push(node);
        }
        Ok(nodes)
    }

    /// The edges, with positions for names.
    pub fn edges(&self, edges: Vec<EdgePlan>) -> PyResult<Vec<EdgeSpec>> {
        let names = self.nodes.iter().zip(0..).map(|(node, index)| (node.name.as_str(), index));
        let names: HashMap<&str, usize> = names.collect();
        edges.into_iter().map(|edge| self.edge(&names, edge)).collect()
    }

    /// The position of a named input.
    fn input(&self, node: usize, name: &str) -> u16 {
        self.nodes[node].inputs.iter().position(|input| input == name).unwrap_or(0) as u16
    }

    fn edge(&self, names: &HashMap<&str, usize>, edge: EdgePlan) -> PyResult<EdgeSpec> {
        let find = |name: &str| match name {
            "" => Ok(None),
            name => names.get(name).copied().map(Some).ok_or_else(|| unknown("node", name)),
        };
        let source = find(&edge.source)?;
        let target = find(&edge.target)?;
        let port = |index: usize| self.nodes[index].ports.iter().position(|port| *port == edge.port);
        let source = match source {
            None => None,
            Some(index) => Some((index, port(index).ok_or_else(|| unknown("port", &edge.port))?)),
        };
        let input = target.map_or(0, |index| self.input(index, &edge.input));
        Ok(EdgeSpec {
            source,
            target,
            input,
            depth: edge.depth,
            bytes: edge.bytes,
            policy: edge.backpressure,
            low_watermark: edge.low_watermark,
            max_age_ns: edge.max_age_s.map_or(0, |age_s| (age_s * 1e9) as u64),
        })
    }
}

/// The native node for what a runner returned, and whether it needs Python.
fn make_node(
    object: &Bound<'_, PyAny>,
    plan: &NodePlan,
    node_context: impl FnOnce() -> NodeContext,
) -> PyResult<(Node, bool)> {
    let (worker, is_python) = worker_of(object, plan, node_context)?;
    let acknowledges = match &worker {
        Worker::Inline(stage) => stage.wants_acknowledgements(),
        Worker::Offloaded(_) => object.cast::<Port>().is_ok_and(|port| port.get().acknowledges),
    };
    let spec = NodeSpec {
        recovery: plan.on_error.recovery,
        retries: plan.on_error.retries,
        backoff: plan.on_error.backoff(),
        budget_bytes: plan.max_memory_bytes,
        port_ids: plan.ports.iter().map(|name| port_id(name)).collect::<PyResult<_>>()?,
        tells_input: !plan.inputs.is_empty(),
        is_carrier: object.cast::<NativeStage>().is_ok_and(|native| native.get().is_carrier),
        ..NodeSpec::new(plan.role, plan.ports.len())
    };
    let node = Node { acks: acknowledges.then(Arc::default), ..Node::new(spec, worker) };
    // The attributes of dead letters are Python objects.
    Ok((node, is_python || plan.on_error.recovery == Recovery::DeadLetter))
}

/// The worker for what a runner returned, and whether it needs Python.
pub fn worker_of(
    object: &Bound<'_, PyAny>,
    plan: &NodePlan,
    node_context: impl FnOnce() -> NodeContext,
) -> PyResult<(Worker, bool)> {
    if let Ok(port) = object.cast::<Port>() {
        port.get().set_node_context(node_context());
        return Ok((Worker::offloaded(port.get().exchange.clone()), true));
    }
    if let Ok(native) = object.cast::<NativeStage>() {
        let stage = lock(&native.get().stage).take();
        let stage = stage.ok_or_else(|| PyValueError::new_err("a native stage can be used only once"))?;
        return Ok((Worker::Inline(stage), false));
    }
    Ok((
        Worker::Inline(Box::new(PyStage::new(object, plan.role, &plan.ports, &plan.inputs, node_context())?)),
        true,
    ))
}

fn unknown(kind: &str, name: &str) -> PyErr {
    PyValueError::new_err(format!("unknown {kind} `{name}`"))
}

fn quarter_weight(priority: &Bound<'_, PyAny>) -> PyResult<u32> {
    Ok(match from_python(priority)? {
        Priority::Critical => 16,
        Priority::High => 8,
        Priority::Normal => 4,
        Priority::Low => 2,
        Priority::Background => 1,
    })
}

pub fn nanoseconds(seconds: &Bound<'_, PyAny>) -> PyResult<u64> {
    Ok((seconds.extract::<f64>()? * 1e9) as u64)
}
