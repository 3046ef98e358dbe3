//! Real workers under random wake-ups, and the watchdog's reports of components that block.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use torvyn_stream::{Call, Element, Emission, End, Outbox, Pull, Stage, StageError, Step};

use super::{Host, Pool};
use crate::blueprint::Blueprint;
use crate::flow::Flow;
use crate::native_stages::Null;
use crate::shared_state::State;
use crate::swap::test_flow;

const PATIENCE: Duration = Duration::from_secs(60);

struct TestHost {
    lock: Mutex<()>,
    blocked: Mutex<Sender<Option<usize>>>,
}

impl Host for TestHost {
    fn thread(&self, body: &mut (dyn FnMut() + Send)) {
        body();
    }
    fn attached(&self, body: &mut dyn FnMut()) {
        let _held = self.lock.lock().unwrap();
        body();
    }
    fn blocked(&self, _flow: &Arc<Flow>, node: Option<usize>, _thread: u64) {
        self.blocked.lock().unwrap().send(node).unwrap();
    }
}

fn pool(workers: usize) -> (Arc<Pool>, Receiver<Option<usize>>) {
    let (sender, reports) = channel();
    let host = TestHost { lock: Mutex::default(), blocked: Mutex::new(sender) };
    (Pool::start(workers, Arc::new(host)), reports)
}

fn flow(source: impl Stage + 'static, hosted: bool) -> Arc<Flow> {
    test_flow::flow(Blueprint { hosted, turn_time_ns: 100_000, ..test_flow::blueprint(source, Null) })
}

/// Counts down to zero, and lets a test wait for it.
struct Latch(Mutex<usize>, Condvar);

impl Latch {
    fn new(count: usize) -> Arc<Self> {
        Arc::new(Self(Mutex::new(count), Condvar::new()))
    }
    fn down(&self) {
        *self.0.lock().unwrap() -= 1;
        self.1.notify_all();
    }
    fn wait(&self) -> usize {
        let count = self.0.lock().unwrap();
        *self.1.wait_timeout_while(count, PATIENCE, |count| *count > 0).unwrap().0
    }
}

fn start(flow: &Arc<Flow>, pool: &Arc<Pool>, over: &Arc<Latch>) {
    let over = over.clone();
    flow.set_end_hook(Box::new(move || over.down()));
    flow.start(pool.clone());
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

const ELEMENTS: u64 = 200;

/// Sends when it has permits, otherwise waits to be woken, and now and then for a short time.
struct Moody {
    permits: Arc<AtomicU64>,
    sent: u64,
    seed: u64,
}

impl Stage for Moody {
    fn pull(&mut self, call: Call<'_>) -> Result<Pull, StageError> {
        if self.sent == ELEMENTS {
            return Ok(Pull::End(End::because("stop")));
        }
        if random(&mut self.seed).is_multiple_of(16) {
            return Ok(Pull::Pending(Some(call.now_ns + random(&mut self.seed) % 50_000)));
        }
        if self.sent == self.permits.load(Ordering::Acquire) {
            return Ok(Pull::Pending(None));
        }
        self.sent += 1;
        Ok(Pull::Ready(Emission::text("a")))
    }
    fn accept(&mut self, _: &mut Element, _: Call<'_>, _: &mut Outbox) -> Result<Step, StageError> {
        Ok(Step::Done)
    }
}

#[test]
fn many_flows_on_few_workers_all_complete_whoever_wakes_them_when() {
    const FLOWS: usize = 60;
    let (pool, _reports) = pool(3);
    let over = Latch::new(FLOWS);
    let moody = |index: usize| {
        let permits = Arc::new(AtomicU64::new(0));
        let seed = 7 + index as u64;
        let source = Moody { permits: permits.clone(), sent: 0, seed };
        (flow(source, index.is_multiple_of(2)), permits)
    };
    let flows: Vec<_> = (0..FLOWS).map(moody).collect();
    for (flow, _) in &flows {
        start(flow, &pool, &over);
    }
    std::thread::scope(|scope| {
        for half in 0..2 {
            let flows = &flows;
            scope.spawn(move || {
                let mut seed = 99 + half;
                let own: Vec<_> = flows.iter().skip(half as usize).step_by(2).collect();
                let mut left = own.len() as u64 * ELEMENTS;
                while left > 0 {
                    let (flow, permits) = own[random(&mut seed) as usize % own.len()];
                    if permits.load(Ordering::Acquire) < ELEMENTS {
                        permits.fetch_add(1, Ordering::AcqRel);
                        flow.wake_node(0);
                        left -= 1;
                    }
                }
            });
        }
    });

    assert_eq!(over.wait(), 0);
    for (flow, _) in &flows {
        assert_eq!(flow.shared.state(), State::Completed);
        assert_eq!(flow.shared.nodes[1].received.get(), ELEMENTS);
    }
    assert_eq!(pool.stop(PATIENCE), 0);
}

/// Blocks its worker in one call until the test releases it.
struct Holding(Arc<Latch>, AtomicBool);

impl Stage for Holding {
    fn pull(&mut self, _: Call<'_>) -> Result<Pull, StageError> {
        if self.1.swap(true, Ordering::AcqRel) {
            return Ok(Pull::End(End::because("stop")));
        }
        self.0.wait();
        Ok(Pull::Ready(Emission::text("a")))
    }
    fn accept(&mut self, _: &mut Element, _: Call<'_>, _: &mut Outbox) -> Result<Step, StageError> {
        Ok(Step::Done)
    }
}

#[test]
fn a_native_component_that_blocks_is_reported_once_with_its_node_and_replaced() {
    let (pool, reports) = pool(1);
    let (release, over) = (Latch::new(1), Latch::new(2));
    let stuck = flow(Holding(release.clone(), AtomicBool::new(false)), false);
    start(&stuck, &pool, &over);

    assert_eq!(reports.recv_timeout(PATIENCE), Ok(Some(0)));
    // The only worker is blocked: this flow needs the spare.
    let permits = Arc::new(AtomicU64::new(ELEMENTS));
    let other = flow(Moody { permits, sent: 0, seed: 1 }, false);
    start(&other, &pool, &over);
    while other.shared.state() != State::Completed {
        std::thread::yield_now();
    }
    release.down();

    assert_eq!(over.wait(), 0);
    assert_eq!(pool.stop(PATIENCE), 0);
    assert!(reports.try_recv().is_err());
}

/// Takes long in total, in many quick calls.
struct Steady {
    calls: Arc<AtomicUsize>,
}

impl Stage for Steady {
    fn pull(&mut self, _: Call<'_>) -> Result<Pull, StageError> {
        if self.calls.fetch_add(1, Ordering::AcqRel) == 40 {
            return Ok(Pull::End(End::because("stop")));
        }
        // The time matters here: turns of several checks, calls of a fraction of one.
        std::thread::park_timeout(Duration::from_millis(10));
        Ok(Pull::Ready(Emission::text("a")))
    }
    fn accept(&mut self, _: &mut Element, _: Call<'_>, _: &mut Outbox) -> Result<Step, StageError> {
        Ok(Step::Done)
    }
}

#[test]
fn a_component_of_slow_calls_is_not_reported() {
    let (pool, reports) = pool(1);
    let over = Latch::new(1);
    let slow = flow(Steady { calls: Arc::new(AtomicUsize::new(0)) }, true);
    start(&slow, &pool, &over);

    assert_eq!(over.wait(), 0);
    assert_eq!(pool.stop(PATIENCE), 0);
    assert!(reports.try_recv().is_err());
}
