//! The tuples of a linked plan -> what the reactor needs: names become numbers, components become stages.

use std::sync::PoisonError;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use torvyn_reactor::{EdgeSpec, NodeSpec, Recovery, Role, Timing, Work};
use torvyn_stream::Policy;

use crate::component::native_stage::NativeStage;
use crate::component::stage::PyStage;
use crate::element::convert::NodeContext;
use crate::flow::port::{Port, role_of};

/// `(role, work, ports, retries, backoff_ns, recovery, budget_bytes)`
pub type NodeTuple<'py> = (String, Bound<'py, PyAny>, Vec<String>, u32, u64, String, u64);
/// `(source, port, target, depth, bytes, policy, low_watermark)`; -1 for the flow's entry or exit
pub type EdgeTuple = (i64, usize, i64, usize, usize, String, f64);

/// The nodes of a flow, and whether its turns must run attached to Python.
pub struct Made {
    pub specs: Vec<NodeSpec>,
    pub needs_python: bool,
}

pub fn make_nodes(nodes: Vec<NodeTuple<'_>>, node_context: impl Fn(usize) -> NodeContext) -> PyResult<Made> {
    let mut made = Made { specs: Vec::with_capacity(nodes.len()), needs_python: false };
    for (index, node) in nodes.into_iter().enumerate() {
        let (role, object, ports, retries, backoff_ns, recovery, budget_bytes) = node;
        let role = role_of(&role)?;
        let recovery = recovery_of(&recovery)?;
        let (work, is_python) = work_of(&object, role, &ports, || node_context(index))?;
        // Dead letters get their attributes as Python objects.
        made.needs_python |= is_python || recovery == Recovery::DeadLetter;
        let ports = ports.len();
        made.specs.push(NodeSpec { role, work, ports, retries, backoff_ns, recovery, budget_bytes });
    }
    Ok(made)
}

fn work_of(
    object: &Bound<'_, PyAny>,
    role: Role,
    ports: &[String],
    node_context: impl FnOnce() -> NodeContext,
) -> PyResult<(Work, bool)> {
    if let Ok(port) = object.cast::<Port>() {
        port.get().set_node_context(node_context());
        return Ok((Work::Offloaded(port.get().exchange.clone()), true));
    }
    if let Ok(native) = object.cast::<NativeStage>() {
        let stage = native.get().0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stage = stage.ok_or_else(|| PyValueError::new_err("a native stage is used once"))?;
        return Ok((Work::Inline(stage), false));
    }
    Ok((Work::Inline(Box::new(PyStage::new(object, role, ports, node_context())?)), true))
}

fn policy_of(name: &str) -> PyResult<Policy> {
    Ok(match name {
        "block" => Policy::Block,
        "drop-oldest" => Policy::DropOldest,
        "drop-newest" => Policy::DropNewest,
        "error" => Policy::Error,
        other => return Err(PyValueError::new_err(format!("unknown policy `{other}`"))),
    })
}

fn recovery_of(name: &str) -> PyResult<Recovery> {
    Ok(match name {
        "fail-fast" => Recovery::FailFast,
        "skip" => Recovery::Skip,
        "dead-letter" => Recovery::DeadLetter,
        other => return Err(PyValueError::new_err(format!("no recovery `{other}`"))),
    })
}

pub fn timing_of(level: &str) -> PyResult<Timing> {
    Ok(match level {
        "off" => Timing::Off,
        "production" => Timing::Sampled,
        "diagnostic" => Timing::Every,
        other => return Err(PyValueError::new_err(format!("no level `{other}`"))),
    })
}

pub fn edge_of(edge: EdgeTuple) -> PyResult<EdgeSpec> {
    let (source, port, target, depth, bytes, policy, low_watermark) = edge;
    Ok(EdgeSpec {
        source: usize::try_from(source).ok().map(|source| (source, port)),
        target: usize::try_from(target).ok(),
        depth,
        bytes,
        policy: policy_of(&policy)?,
        low_watermark,
    })
}
