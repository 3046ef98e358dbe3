//! Stages of a small flow are exchanged by hand, turn by turn.

use std::sync::{Arc, Mutex};

use torvyn_stream::{Call, Element, ErrorKind, Outbox, Stage, StageError, Step};

use super::{Exchanged, Refusal, Replacement, Swap};
use crate::backoff::Backoff;
use crate::blueprint::{Blueprint, Recovery};
use crate::flow::{Flow, Status};
use crate::native_stages::Scripted;
use crate::node::Worker;
use crate::swap::test_flow::{self, blueprint};

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
    let sink = Version('a', log.clone(), Vec::new());
    test_flow::flow(Blueprint { turn_elements: 3, ..blueprint(Scripted::new(&["x"], elements), sink) })
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
        let old = outcome.ok()?.old?;
        is_on_trial.then(|| Box::new(swap(Box::new(|| Ok(old)), &back, false)))
    };
    Swap {
        node: 1,
        timeout_ns: 1_000_000_000,
        trial_ns: 60_000_000_000,
        moves_state: false,
        discards_state: false,
        is_idle: Box::new(|| true),
        prepare: Box::new(|_| made().map(Some)),
        done: Box::new(done),
        keeps_hold: false,
        is_return: false,
        is_forced: false,
        failure: None,
        was_unused: false,
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
    flow.swap(swap(Box::new(|| Ok(replacement(next))), &told, false));
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
fn a_node_that_is_held_takes_nothing_until_it_is_let_go() {
    let (log, told) = (Log::default(), Told::default());
    let flow = flow(&log, 20);
    flow.swap(Swap { prepare: Box::new(|_| Ok(None)), ..swap(Box::new(|| unreachable!()), &told, false) });
    while flow.run_turn(true, false) == Some(Status::Again) {}
    assert_eq!((log.lock().unwrap().len(), told.lock().unwrap().len()), (0, 1));
    flow.let_go(1);
    run(&flow);
    assert_eq!(log.lock().unwrap().len(), 20);
}

#[test]
fn a_swap_that_waits_does_not_keep_a_failed_stage_in_its_place() {
    let (log, told) = (Log::default(), Told::default());
    let flow = flow(&log, 20);
    let next = Version('b', log.clone(), vec![7]);
    flow.swap(swap(Box::new(|| Ok(replacement(next))), &told, true));
    flow.run_turn(true, false);
    let waits = swap(Box::new(|| unreachable!()), &told, false);
    flow.swap(Swap { node: 0, timeout_ns: u64::MAX, prepare: Box::new(|_| Ok(None)), ..waits });
    flow.run_turn(true, false);
    flow.let_go(0);
    run(&flow);
    let expected: Vec<_> = (0..20).map(|number| (if number < 7 { 'b' } else { 'a' }, number)).collect();
    assert_eq!(*log.lock().unwrap(), expected);
}
