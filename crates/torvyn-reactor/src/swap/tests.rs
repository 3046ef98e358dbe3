//! Stages of a small flow are exchanged by hand, turn by turn.

use std::sync::{Arc, Mutex};

use torvyn_stream::{Call, Element, ErrorKind, Outbox, Policy, Stage, StageError, Step};

use super::{Exchanged, Refusal, Replacement, Swap};
use crate::backoff::Backoff;
use crate::blueprint::{Blueprint, EdgeSpec, Recovery, Role, Timing};
use crate::clock::Clock;
use crate::flow::{Flow, Status};
use crate::native_stages::Scripted;
use crate::node::{Node, Worker};
use crate::shared_state::SharedState;

type Log = Arc<Mutex<Vec<(char, u64)>>>;

/// Notes which version got which element; fails on the numbers that are listed.
struct Version(char, Log, Vec<u64>);

impl Stage for Version {
    fn accept(&mut self, element: &mut Element, _: Call<'_>, _: &mut Outbox) -> Result<Step, StageError> {
        if self.2.contains(&element.sequence) {
            return Err(StageError::new(ErrorKind::Internal, "no"));
        }
        self.1.lock().unwrap().push((self.0, element.sequence));
        Ok(Step::Done)
    }
}

fn flow(log: &Log, elements: u64) -> Arc<Flow> {
    let source = Node::new(Role::Source, Worker::Inline(Box::new(Scripted::new(&["x"], elements))), 1);
    let sink = Node::new(Role::Sink, Worker::Inline(Box::new(Version('a', log.clone(), Vec::new()))), 0);
    let edge = EdgeSpec {
        source: Some((0, 0)),
        target: Some(1),
        input: 0,
        depth: 4,
        bytes: 1 << 20,
        policy: Policy::Block,
        low_watermark: 0.5,
    };
    let blueprint = Blueprint {
        nodes: vec![source, sink],
        edges: vec![edge],
        quarter_weight: 4,
        turn_elements: 3,
        turn_time_ns: 1_000_000,
        drain_timeout_ns: 1_000_000,
        deadline_ns: None,
        hosted: false,
        annotate: None,
        timing: Timing::Off,
        on_error: None,
        checkpoints: None,
    };
    Flow::new(blueprint, Arc::new(SharedState::new(2, 1)), Clock::monotonic(0))
}

fn replacement(stage: impl Stage + 'static) -> Replacement {
    Replacement {
        worker: Worker::Inline(Box::new(stage)),
        recovery: Recovery::FailFast,
        retries: 0,
        backoff: Backoff::default(),
        budget_bytes: u64::MAX,
    }
}

type Made = Box<dyn FnOnce() -> Result<Replacement, StageError> + Send>;
type Told = Arc<Mutex<Vec<&'static str>>>;

fn swap(made: Made, told: &Told, is_on_trial: bool) -> Swap {
    let (noted, back) = (told.clone(), told.clone());
    let done = move |outcome: Result<Exchanged, Refusal>| {
        noted.lock().unwrap().push(if outcome.is_ok() { "exchanged" } else { "refused" });
        let old = outcome.ok()?.old;
        is_on_trial.then(|| Box::new(swap(Box::new(|| Ok(old)), &back, false)))
    };
    Swap {
        node: 1,
        timeout_ns: 1_000_000_000,
        trial_ns: 60_000_000_000,
        moves_state: false,
        discards_state: false,
        is_idle: Box::new(|| true),
        prepare: Box::new(|_| made()),
        done: Box::new(done),
        keeps_hold: false,
        is_return: false,
        failure: None,
        until_ns: None,
        held_ns: None,
    }
}

fn run(flow: &Arc<Flow>) {
    while flow.run_turn(true, false) != Some(Status::Over) {}
}

#[test]
fn each_element_goes_to_one_version_in_order() {
    let (log, told) = (Log::default(), Told::default());
    let flow = flow(&log, 20);
    flow.run_turn(true, false);
    let next = Version('b', log.clone(), Vec::new());
    assert!(flow.swap(swap(Box::new(|| Ok(replacement(next))), &told, false)));
    run(&flow);
    let seen = log.lock().unwrap().clone();
    assert_eq!(seen.iter().map(|(_, number)| *number).collect::<Vec<_>>(), (0..20).collect::<Vec<_>>());
    assert!(seen.is_sorted_by_key(|(version, _)| *version) && seen.first() != seen.last());
    assert_eq!(*told.lock().unwrap(), ["exchanged"]);
}

#[test]
fn a_stage_that_is_not_prepared_leaves_the_old_one() {
    let (log, told) = (Log::default(), Told::default());
    let flow = flow(&log, 20);
    let no = || Err(StageError::new(ErrorKind::Internal, "unknown state"));
    flow.swap(swap(Box::new(no), &told, false));
    run(&flow);
    assert!(log.lock().unwrap().iter().all(|(version, _)| *version == 'a'));
    assert_eq!(*told.lock().unwrap(), ["refused"]);
}

#[test]
fn the_old_stage_gets_the_element_on_which_the_new_one_failed() {
    let (log, told) = (Log::default(), Told::default());
    let flow = flow(&log, 20);
    let next = Version('b', log.clone(), vec![7]);
    flow.swap(swap(Box::new(|| Ok(replacement(next))), &told, true));
    run(&flow);
    let expected: Vec<_> = (0..20).map(|number| (if number < 7 { 'b' } else { 'a' }, number)).collect();
    assert_eq!(*log.lock().unwrap(), expected);
    assert_eq!(*told.lock().unwrap(), ["exchanged", "exchanged"]);
}

#[test]
fn only_one_swap_waits_at_a_time() {
    let (log, told) = (Log::default(), Told::default());
    let flow = flow(&log, 20);
    let order = || swap(Box::new(|| Ok(replacement(Version('b', Log::default(), Vec::new())))), &told, false);
    assert!(flow.swap(order()));
    assert!(!flow.swap(order()));
}
