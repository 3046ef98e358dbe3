//! The handle of a flow: wakes it, runs its turns, reads its state. Threads may share it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use torvyn_stream::{AckLog, Element, Emission, End, ErrorKind, StageError};

use crate::blueprint::Blueprint;
use crate::clock::Clock;
use crate::core::Core;
use crate::node::Worker;
use crate::offload::{Notify, Offload};
use crate::run_state::RunState;
use crate::shared_state::{Failure, FailureKind, SharedState, node_request, request};
use crate::stay_on_exit::StayOnExit;
use crate::swap::Swap;
use crate::trace::Tracer;
use crate::wake_pipe::WakePipe;
use crate::workers::pool::Pool;

pub use crate::core::Turn as Status;

/// Who runs the flow's turns, and so who is notified when there is work.
#[derive(Default, Clone)]
pub enum Driver {
    #[default]
    Nobody,
    Caller(Arc<WakePipe>),
    Notify(Arc<dyn Notify>),
    Pool(Arc<Pool>),
}

type Hook = Box<dyn FnOnce() + Send>;
type TurnHook = Box<dyn Fn() + Send + Sync>;

pub struct Flow {
    pub shared: Arc<SharedState>,
    pub hosted: bool,
    /// Empty while a thread runs a turn: taking the core is the lock, so nothing is locked while components run.
    core: Mutex<Option<Box<Core>>>,
    run_state: RunState,
    driver: Mutex<Driver>,
    end_hook: Mutex<Option<Hook>>,
    turn_hook: OnceLock<TurnHook>,
    clock: Clock,
    /// The earliest alarm the pool has set for this flow; 0 for none.
    pub(crate) alarm_ns: AtomicU64,
}

/// Wakes a flow without keeping it alive.
struct WakeFlow(std::sync::Weak<Flow>);

impl Notify for WakeFlow {
    fn notify(&self) {
        if let Some(flow) = self.0.upgrade() {
            flow.wake();
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Flow {
    /// `shared` has the same number of nodes and edges; stages may need it before the flow exists.
    pub fn new(blueprint: Blueprint, shared: Arc<SharedState>, clock: Clock) -> Arc<Self> {
        let offloads: Vec<Arc<Offload>> = blueprint
            .nodes
            .iter()
            .filter_map(|node| match &node.worker {
                Worker::Offloaded(state) => Some(state.exchange.clone()),
                Worker::Inline(_) => None,
            })
            .collect();
        let hosted = blueprint.hosted;
        shared.note_acks(&blueprint.nodes);
        let core = Core::new(blueprint, shared.clone(), clock.clone());
        let flow = Arc::new(Self {
            shared,
            hosted,
            core: Mutex::new(Some(Box::new(core))),
            run_state: RunState::default(),
            driver: Mutex::default(),
            end_hook: Mutex::default(),
            turn_hook: OnceLock::new(),
            clock,
            alarm_ns: AtomicU64::new(0),
        });
        for offload in offloads {
            flow.connect(&offload);
        }
        flow
    }

    pub fn set_driver(&self, driver: Driver) {
        *locked(&self.driver) = driver;
    }

    /// Passes the flow to the workers. It is scheduled even if a wake-up came before there was a driver, because that
    /// wake-up already changed the run state. A second entry in the run queue does no harm: the run state admits one
    /// turn.
    pub fn start(self: &Arc<Self>, pool: Arc<Pool>) {
        self.set_driver(Driver::Pool(pool));
        self.run_state.wake();
        self.schedule();
    }

    /// Called once when the flow is over, by the thread that ran the last turn.
    pub fn set_end_hook(&self, hook: Hook) {
        *locked(&self.end_hook) = Some(hook);
    }

    /// Called before each turn on a worker, attached to the host.
    pub fn set_turn_hook(&self, hook: TurnHook) {
        let _ = self.turn_hook.set(hook);
    }

    pub fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Ensures that a turn follows. Any thread may call it at any time.
    pub fn wake(self: &Arc<Self>) {
        if self.run_state.wake() {
            self.schedule();
        }
    }

    /// Like `wake`, for a caller that schedules the flow itself. True when it must.
    pub(crate) fn claim(&self) -> bool {
        self.run_state.wake()
    }

    fn schedule(self: &Arc<Self>) {
        // Cloned, so that nothing is notified under the lock.
        let driver = locked(&self.driver).clone();
        match driver {
            Driver::Nobody => {}
            Driver::Caller(signal) => signal.notify(),
            Driver::Notify(notify) => notify.notify(),
            Driver::Pool(pool) => pool.schedule(self.clone()),
        }
    }

    pub fn cancel(self: &Arc<Self>) {
        self.shared.request(request::CANCEL);
        self.wake();
    }

    pub fn drain(self: &Arc<Self>) {
        self.shared.request(request::DRAIN);
        self.wake();
    }

    pub fn interrupt(self: &Arc<Self>) {
        self.shared.request(request::INTERRUPT);
        self.wake();
    }

    /// Exchanges the stage of a node between two elements.
    pub fn swap(self: &Arc<Self>, swap: Swap) {
        self.shared.request_swap(swap);
        self.wake();
    }

    /// The new stage of a node is no longer on trial.
    pub fn end_trial(self: &Arc<Self>, node: usize) {
        self.shared.request_node(node, node_request::END_TRIAL);
        self.wake();
    }

    /// The new stage of a node does not return from a call: the old one takes its place again.
    pub fn fail_trial(self: &Arc<Self>, node: usize) {
        self.shared.request_node(node, node_request::FAIL_TRIAL);
        self.wake();
    }

    /// A node that was held for a swap goes on with the stage that it has.
    pub fn let_go(self: &Arc<Self>, node: usize) {
        self.shared.request_node(node, node_request::LET_GO);
        self.wake();
    }

    /// The exchange of a worker that belongs to the flow from now on.
    pub fn connect(self: &Arc<Self>, offload: &Offload) {
        offload.set_flow(Arc::new(WakeFlow(Arc::downgrade(self))));
    }

    pub fn wake_node(self: &Arc<Self>, node: usize) {
        self.shared.request_node(node, node_request::WAKE);
        self.wake();
    }

    pub fn resume_node(self: &Arc<Self>, node: usize) {
        self.shared.request_node(node, node_request::RESUME);
        self.wake();
    }

    pub fn interrupt_after(self: &Arc<Self>, node: usize) {
        self.shared.request_node(node, node_request::INTERRUPT);
        self.wake();
    }

    /// Runs a turn on this thread. `None`: another thread is running one. After `Again` another turn must follow: a
    /// worker puts the flow back into the run queue, a caller continues instead of waiting.
    pub fn run_turn(self: &Arc<Self>, paced: bool, until_output: bool) -> Option<Status> {
        if self.shared.state().is_over() {
            return Some(Status::Over);
        }
        if !self.run_state.enter() {
            return None;
        }
        let mut core = locked(&self.core).take()?;
        if let Some(hook) = self.turn_hook.get().filter(|_| paced) {
            hook();
        }
        let status = catch_unwind(AssertUnwindSafe(|| StayOnExit::around(|| core.turn(paced, until_output))))
            .unwrap_or_else(|panic| {
                core.fail(panic_failure(&*panic));
                Status::Over
            });
        self.shared.set_running_node(None);
        *locked(&self.core) = Some(core);
        if status == Status::Over {
            self.run_state.close();
            let hook = locked(&self.end_hook).take();
            if let Some(hook) = hook {
                hook();
            }
            return Some(status);
        }
        let is_woken = self.run_state.leave(paced && status == Status::Again);
        // Woken during the turn. A caller takes its output first; a worker has no reader to pass it to.
        let goes_on = is_woken && (paced || matches!(status, Status::Parked(_)));
        Some(if goes_on { Status::Again } else { status })
    }

    fn with_core<T>(&self, act: impl FnOnce(&mut Core) -> T) -> Option<T> {
        locked(&self.core).as_deref_mut().map(act)
    }

    /// Visits the host's objects that the stages keep, if this is the only reference to the flow and no turn is
    /// running: a host that collects cycles may then count them as its own. False when they cannot be visited now.
    pub fn visit(self: &Arc<Self>, visit: &mut dyn FnMut(NonNull<()>)) -> bool {
        let Ok(core) = self.core.try_lock() else { return false };
        match core.as_deref() {
            Some(core) if Arc::strong_count(self) == 1 => {
                core.nodes.iter().for_each(|node| node.visit(visit));
                true
            }
            _ => false,
        }
    }

    /// Moves the outputs at the exit into `into`.
    pub fn take_output(&self, into: &mut VecDeque<Element>, most: usize) {
        self.with_core(|core| core.take_output(into, most));
    }

    /// How many elements may be fed now.
    pub fn feed_capacity(&self) -> usize {
        self.with_core(|core| core.feed_capacity()).unwrap_or(0)
    }

    /// Feeds an element into the entry; it is returned when the queue is full or a turn is running.
    pub fn feed(&self, emission: Emission) -> Result<Option<Emission>, Failure> {
        match locked(&self.core).as_deref_mut() {
            Some(core) => core.feed(emission),
            None => Ok(Some(emission)),
        }
    }

    /// Ends the input: nothing more will be fed.
    pub fn finish(self: &Arc<Self>, end: End) {
        self.with_core(|core| core.close_entry(end));
        self.wake();
    }

    pub fn trace(&self, limit: usize) {
        self.with_core(|core| core.tracer = Some(Box::new(Tracer::new(limit))));
    }

    pub fn take_trace(&self) -> Option<Box<Tracer>> {
        self.with_core(|core| core.tracer.take()).flatten()
    }

    /// Bytes of reactor state, and of the queues and whatever else elements wait in.
    pub fn memory(&self) -> (usize, usize) {
        let (state, queues) = self.with_core(|core| core.memory()).unwrap_or_default();
        let hook = locked(&self.end_hook).as_ref().map_or(0, |hook| size_of_val(&**hook));
        (2 * size_of::<usize>() + size_of::<Self>() + hook + state, queues)
    }

    /// Counts the results of offloaded stages that arrived after the last turn. Call it when their workers have ended.
    pub fn count_late_results(&self) {
        if self.shared.state().is_over() {
            self.with_core(Core::count_late_results);
        }
    }

    /// How many settled elements the source at `node` has not been told about.
    pub fn take_acknowledgements(&self, node: usize) -> u64 {
        self.with_core(|core| core.take_acknowledgements(node)).unwrap_or(0)
    }

    /// The acknowledgements of the source at `node`, if it asks for them.
    pub fn acks(&self, node: usize) -> Option<&Arc<AckLog>> {
        self.shared.acks().iter().find(|(of, _)| *of == node).map(|(_, acks)| acks)
    }

    /// Counts outputs that were taken from the exit and not read.
    pub fn count_unread_output(&self, count: u64) {
        self.with_core(|core| core.count_unread_output(count));
    }

    /// Releases stages and queues. Later questions are answered from the shared state.
    pub fn close(&self) {
        let core = locked(&self.core).take();
        drop(core);
    }
}

fn panic_failure(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
        .unwrap_or_else(|| "panic".to_owned());
    Failure {
        kind: FailureKind::Panic,
        node: None,
        edge: None,
        sequence: None,
        method: "turn",
        error: StageError::new(ErrorKind::Fatal, text),
    }
}
