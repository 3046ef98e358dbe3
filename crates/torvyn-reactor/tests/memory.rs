//! What a flow says it takes is what the allocator was asked for: random graphs are built, run until they wait, and
//! compared byte by byte.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use torvyn_reactor::{
    Backoff, Blueprint, Clock, EdgeSpec, Flow, Node, NodeSpec, Recovery, Role, SharedState, Status, Timing,
    Worker,
};
use torvyn_stream::{
    Call, CopyReason, Element, Emission, ErrorKind, Outbox, Policy, Pull, Stage, StageError, Step,
};

/// Counts the bytes that this thread has asked for and not given back.
struct Counting;

thread_local! {
    static LIVE_BYTES: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    // A thread that ends frees its own storage last.
    let _ = LIVE_BYTES.try_with(|live| live.set(live.get() + bytes));
}

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn live_bytes() -> isize {
    LIVE_BYTES.with(Cell::get)
}

/// What a component does with its elements. It keeps nothing, so all memory is the reactor's.
#[derive(Debug, Clone, Copy)]
enum Habit {
    Forward,
    Make,
    Drop,
    Copy,
    Fail,
    Hold,
    Pause,
}

/// A stage without fields: boxing it takes no memory.
macro_rules! stages {
    ($($habit:ident)*) => {
        fn stage(habit: Habit) -> Box<dyn Stage> {
            match habit {
                $(Habit::$habit => {
                    struct Component;
                    impl Stage for Component {
                        fn accept(&mut self, element: &mut Element, call: Call<'_>, out: &mut Outbox)
                        -> Result<Step, StageError> {
                            act(Habit::$habit, element, call, out)
                        }
                    }
                    Box::new(Component)
                })*
            }
        }
    };
}
stages!(Forward Make Drop Copy Fail Hold Pause);

fn act(habit: Habit, element: &Element, call: Call<'_>, out: &mut Outbox) -> Result<Step, StageError> {
    match habit {
        Habit::Forward => Ok(Step::Forward),
        Habit::Drop => Ok(Step::Drop),
        Habit::Hold => Ok(Step::Hold),
        Habit::Pause => Ok(Step::Pause),
        Habit::Fail if element.sequence.is_multiple_of(2) => Err(StageError::new(ErrorKind::Unavailable, "")),
        Habit::Make | Habit::Fail => {
            out.emit(Emission::text("made"));
            Ok(Step::Done)
        }
        Habit::Copy => {
            call.ledger.copy(CopyReason::HostToGuest, 4);
            Ok(Step::Forward)
        }
    }
}

/// Sends a few elements and waits.
struct Source {
    left: u32,
}

impl Stage for Source {
    fn pull(&mut self, _call: Call<'_>) -> Result<Pull, StageError> {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => return Ok(Pull::Pending(None)),
        }
        Ok(Pull::Ready(Emission::text("element")))
    }
    fn accept(&mut self, _: &mut Element, _: Call<'_>, _: &mut Outbox) -> Result<Step, StageError> {
        Ok(Step::Done)
    }
}

/// A node of a graph: what it is, what it does, and which node before it its input comes from.
#[derive(Debug, Clone)]
struct Part {
    role: Role,
    habit: Habit,
    recovery: Recovery,
    retries: u32,
    before: usize,
    policy: Policy,
    depth: usize,
}

#[derive(Debug, Clone)]
struct Graph {
    elements: u32,
    parts: Vec<Part>,
    timing: Timing,
}

fn part() -> impl Strategy<Value = Part> {
    use Habit::{Copy, Drop, Fail, Forward, Hold, Make, Pause};
    use Role::{Aggregator, Filter, Processor, Sink};

    let habit = select(vec![Forward, Forward, Forward, Make, Make, Drop, Copy, Fail, Hold, Pause]);
    let role = select(vec![Processor, Processor, Processor, Filter, Aggregator, Sink]);
    let recovery = select(vec![Recovery::Skip, Recovery::DeadLetter]);
    let policy = select(vec![Policy::Block, Policy::Block, Policy::DropOldest, Policy::DropNewest]);
    (role, habit, recovery, 0u32..2, any::<prop::sample::Index>(), policy, 1usize..20).prop_map(
        |(role, habit, recovery, retries, before, policy, depth)| {
            // Only a filter holds elements, and only a sink consumes what it could pass on.
            let habit = match (habit, role) {
                (Habit::Hold | Habit::Drop, Role::Processor | Role::Aggregator | Role::Sink) => Habit::Make,
                (Habit::Forward | Habit::Copy, Role::Aggregator) => Habit::Make,
                (Habit::Forward | Habit::Copy | Habit::Make, Role::Sink) => Habit::Pause,
                (habit, _) => habit,
            };
            Part { role, habit, recovery, retries, before: before.index(64), policy, depth }
        },
    )
}

fn graphs() -> impl Strategy<Value = Graph> {
    let timing = select(vec![Timing::Off, Timing::Sampled, Timing::Every]);
    (0u32..40, prop::collection::vec(part(), 1..12), timing).prop_map(|(elements, parts, timing)| Graph {
        elements,
        parts,
        timing,
    })
}

impl Graph {
    /// Every node but the sinks has two ports: for its output and for what fails.
    fn node(part: &Part) -> Node {
        let ports = if part.role == Role::Sink { 0 } else { 2 };
        let recovery = if ports == 0 { Recovery::Skip } else { part.recovery };
        let backoff = Backoff { first_ns: 1 << 40, max_ns: 1 << 40 };
        let spec = NodeSpec { recovery, retries: part.retries, backoff, ..NodeSpec::new(part.role, ports) };
        Node::new(spec, Worker::Inline(stage(part.habit)))
    }

    /// The nodes and edges. No output is shared by two edges: what a payload takes is not the flow's state.
    fn build(&self) -> (Vec<Node>, Vec<EdgeSpec>) {
        let source = Worker::Inline(Box::new(Source { left: self.elements }));
        let mut nodes = vec![Node::new(NodeSpec::new(Role::Source, 1), source)];
        let (mut edges, mut free) = (Vec::new(), vec![(0, 0)]);
        for part in &self.parts {
            if free.is_empty() {
                break;
            }
            let source = free.swap_remove(part.before % free.len());
            let node = nodes.len();
            edges.push(EdgeSpec {
                source: Some(source),
                target: Some(node),
                input: 0,
                depth: part.depth,
                bytes: 1 << 20,
                policy: part.policy,
                low_watermark: 0.5,
                max_age_ns: 0,
            });
            nodes.push(Self::node(part));
            if part.role != Role::Sink {
                free.extend([(node, 0), (node, 1)]);
            }
        }
        nodes.shrink_to_fit();
        (nodes, edges)
    }

    /// The flow, run until it waits.
    fn parked(&self) -> Arc<Flow> {
        let (nodes, edges) = self.build();
        let shared = Arc::new(SharedState::new(nodes.len(), edges.len()));
        let blueprint = Blueprint {
            nodes,
            edges,
            quarter_weight: 4,
            turn_elements: 8,
            turn_time_ns: 1_000_000_000,
            drain_timeout_ns: 1_000_000_000,
            deadline_ns: None,
            hosted: false,
            annotate: None,
            timing: self.timing,
            on_error: None,
            store_refused: None,
            checkpoints: None,
        };
        let flow = Flow::new(blueprint, shared, Clock::monotonic(1));
        while !matches!(flow.run_turn(false, false), Some(Status::Parked(_) | Status::Over)) {}
        flow
    }
}

/// What the source takes itself.
const SOURCE_BYTES: isize = size_of::<Source>() as isize;

proptest! {
    #[test]
    fn a_flow_takes_what_it_says(graph in graphs()) {
        // The first flow leaves behind what the thread and the process keep: buffers, shared specifications.
        let first = graph.parked();
        let before = live_bytes();
        let flow = graph.parked();
        let taken = live_bytes() - before - SOURCE_BYTES;
        let (state, queues) = flow.memory();
        prop_assert_eq!(taken, (state + queues) as isize, "{} of state, {} of queues", state, queues);
        drop((first, flow));
    }
}

/// A chain whose nodes pass everything on.
fn chain(nodes: usize) -> usize {
    let part = |role| Part {
        role,
        habit: if role == Role::Sink { Habit::Make } else { Habit::Forward },
        recovery: Recovery::DeadLetter,
        retries: 0,
        before: 0,
        policy: Policy::Block,
        depth: 16,
    };
    let mut parts = vec![part(Role::Processor); nodes - 2];
    parts.push(part(Role::Sink));
    let graph = Graph { elements: 0, parts, timing: Timing::Sampled };
    graph.parked().memory().0
}

#[test]
fn a_node_with_its_edge_takes_400_bytes_at_most() {
    let sizes: Vec<usize> = (2..40).map(chain).collect();
    assert!(sizes.windows(2).all(|pair| pair[1] - pair[0] <= 400), "{sizes:?}");
    assert!(sizes[0] <= 1536, "{sizes:?}");
}
