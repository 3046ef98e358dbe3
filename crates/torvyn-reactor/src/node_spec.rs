//! What a node was built with: its role, its policy, its budget and its edges. Nodes that agree in all of it share one
//! copy, so the flows of a Plan take its memory once, however many of them live.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use torvyn_stream::{ErrorKind, Policy, StageError};

use crate::backoff::Backoff;
use crate::blueprint::{EdgeSpec, Recovery, Role};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeSpec {
    pub role: Role,
    pub recovery: Recovery,
    pub retries: u32,
    pub backoff: Backoff,
    pub budget_bytes: u64,
    pub inputs: Box<[u16]>,
    pub ports: Box<[Box<[u16]>]>,
    /// The id of each port, as emissions name it; empty if the node sends to its first port only.
    pub port_ids: Box<[u16]>,
    /// Whether the stage is told which input an element comes from.
    pub tells_input: bool,
    /// Some input drops or fails when it is full, so the reactor checks after each run whether the node stalls.
    pub watches_inputs: bool,
    /// How old elements of each input may be when it gets them; 0 for no limit. Empty if no input has one.
    pub max_ages_ns: Box<[u64]>,
    /// One end of an edge that leaves the process. Its elements do not count against a flow's limit.
    pub is_carrier: bool,
}

impl NodeSpec {
    /// Without edges. With `Recovery::DeadLetter` the last of its ports takes failed elements.
    pub fn new(role: Role, ports: usize) -> Self {
        Self {
            role,
            recovery: Recovery::FailFast,
            retries: 0,
            backoff: Backoff::default(),
            budget_bytes: u64::MAX,
            inputs: Box::default(),
            ports: (0..ports).map(|_| Box::default()).collect(),
            port_ids: Box::default(),
            tells_input: false,
            watches_inputs: false,
            max_ages_ns: Box::default(),
            is_carrier: false,
        }
    }

    /// Fills in the edges that lead to the node at `index` and leave its ports.
    pub fn connect<'a>(&mut self, index: usize, numbered: impl Iterator<Item = (u16, &'a EdgeSpec)> + Clone) {
        let inputs = numbered.clone().filter(|(_, edge)| edge.target == Some(index));
        self.watches_inputs = inputs.clone().any(|(_, edge)| edge.policy != Policy::Block);
        let has_limit = inputs.clone().any(|(_, edge)| edge.max_age_ns > 0);
        self.max_ages_ns = inputs.clone().filter(|_| has_limit).map(|(_, edge)| edge.max_age_ns).collect();
        self.inputs = inputs.map(|(number, _)| number).collect();
        for (port, leaving) in self.ports.iter_mut().enumerate() {
            let edges = numbered.clone().filter(|(_, edge)| edge.source == Some((index, port)));
            *leaving = edges.map(|(number, _)| number).collect();
        }
    }

    /// What happens when the last call has failed: to its element, or to what a source could not make one of.
    pub fn recovery_from(&self, error: &StageError, has_element: bool) -> Recovery {
        let is_source = self.role == Role::Source;
        let is_refused = error.kind == ErrorKind::InvalidInput && (has_element || is_source);
        match self.recovery {
            _ if error.stops_the_flow() => Recovery::FailFast,
            Recovery::SetAside if is_refused => Recovery::Store,
            Recovery::SetAside => Recovery::FailFast,
            Recovery::Store if is_source && !is_refused => Recovery::FailFast,
            Recovery::Store if !has_element && !is_source => Recovery::Skip,
            recovery => recovery,
        }
    }

    /// Whether elements are dropped that have waited for too long.
    #[inline]
    pub fn drops_stale(&self) -> bool {
        !self.max_ages_ns.is_empty()
    }

    /// The copy that all nodes with this specification share.
    pub fn shared(self: Arc<Self>) -> Arc<Self> {
        SHARED.lock().unwrap_or_else(PoisonError::into_inner).share(self)
    }
}

static SHARED: LazyLock<Mutex<Pool>> = LazyLock::new(Mutex::default);

/// The pool is searched for what nobody uses any more when it has grown to this size, and then at twice the rest.
const FIRST_SEARCH: usize = 64;

#[derive(Default)]
struct Pool {
    specs: HashSet<Arc<NodeSpec>>,
    search_at: usize,
}

impl Pool {
    fn share(&mut self, spec: Arc<NodeSpec>) -> Arc<NodeSpec> {
        if let Some(known) = self.specs.get(&*spec) {
            return known.clone();
        }
        if self.specs.len() >= self.search_at {
            self.specs.retain(|spec| Arc::strong_count(spec) > 1);
            self.search_at = (self.specs.len() * 2).max(FIRST_SEARCH);
        }
        self.specs.insert(spec.clone());
        spec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(budget_bytes: u64) -> Arc<NodeSpec> {
        Arc::new(NodeSpec { budget_bytes, ..NodeSpec::new(Role::Sink, 0) })
    }

    #[test]
    fn equal_specifications_are_one() {
        let mut pool = Pool::default();
        let first = pool.share(spec(1));
        assert!(Arc::ptr_eq(&first, &pool.share(spec(1))));
        assert!(!Arc::ptr_eq(&first, &pool.share(spec(2))));
    }

    #[test]
    fn what_no_node_has_any_more_is_forgotten() {
        let mut pool = Pool::default();
        let kept = pool.share(spec(0));
        (1..10_000).for_each(|budget| drop(pool.share(spec(budget))));
        assert!(pool.specs.len() <= FIRST_SEARCH);
        assert!(Arc::ptr_eq(&kept, &pool.share(spec(0))));
    }
}
