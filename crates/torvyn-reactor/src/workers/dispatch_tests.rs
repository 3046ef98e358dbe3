//! Which worker is woken when: counted on one thread, with a clock that the test moves.

use std::cell::Cell;
use std::time::Duration;

use super::{Dispatch, Next, TurnEnd};
use crate::workers::run_queue::Job;

thread_local!(static NOW_NS: Cell<u64> = const { Cell::new(0) });

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flow {
    Native(u8),
    Hosted(u8),
}

impl Job for Flow {
    type Handle = Flow;

    fn is_hosted(&self) -> bool {
        matches!(self, Flow::Hosted(_))
    }
    fn set_alarm(_: &Flow, _: u64) -> bool {
        true
    }
    fn time_left(_: &Flow, due_ns: u64) -> Option<Duration> {
        let left_ns = due_ns.saturating_sub(NOW_NS.get());
        (left_ns > 0).then(|| Duration::from_nanos(left_ns))
    }
    fn ring(handle: &Flow, _: u64) -> Option<Flow> {
        Some(*handle)
    }
}

/// A pool with `asleep` sleeping workers and no threads.
fn sleeping(asleep: usize) -> Dispatch<Flow> {
    NOW_NS.set(0);
    let dispatch = Dispatch::new(asleep + 1);
    {
        let mut state = dispatch.lock();
        state.asleep = asleep;
        state.workers = asleep + 1;
    }
    dispatch
}

fn is_waking(dispatch: &Dispatch<Flow>) -> bool {
    std::mem::take(&mut dispatch.lock().is_waking)
}

fn turn_of(flow: Flow, next: Next<Flow>) -> Option<TurnEnd<Flow>> {
    Some(TurnEnd { is_hosted: flow.is_hosted(), is_lent: false, next })
}

const A: Flow = Flow::Native(1);
const B: Flow = Flow::Native(2);
const HOSTED: Flow = Flow::Hosted(3);
const OTHER_HOSTED: Flow = Flow::Hosted(4);

#[test]
fn a_worker_takes_its_own_flow_again_and_wakes_nobody() {
    let dispatch = sleeping(1);
    dispatch.put(A);
    assert!(is_waking(&dispatch));
    assert_eq!(dispatch.next(None), Some(A));
    for _ in 0..1000 {
        assert_eq!(dispatch.next(turn_of(A, Next::Again(A))), Some(A));
        assert!(!is_waking(&dispatch));
    }
}

#[test]
fn a_worker_that_leaves_work_behind_wakes_another() {
    let dispatch = sleeping(1);
    dispatch.put(A);
    dispatch.put(B);
    assert!(is_waking(&dispatch));
    assert_eq!(dispatch.next(None), Some(A));
    assert!(is_waking(&dispatch));
}

#[test]
fn one_wake_up_at_a_time_is_under_way() {
    let dispatch = sleeping(3);
    dispatch.put(A);
    dispatch.put(B);
    // The active worker wakes the next one when it finds more than it can take.
    assert!(dispatch.lock().is_waking);
    assert!(!dispatch.lock().wake_one());
}

#[test]
fn nobody_is_woken_for_a_hosted_flow_that_may_not_run() {
    let dispatch = sleeping(1);
    dispatch.put(HOSTED);
    assert!(is_waking(&dispatch));
    assert_eq!(dispatch.next(None), Some(HOSTED));
    dispatch.put(OTHER_HOSTED);
    assert!(!is_waking(&dispatch));
    // A spare worker can take it.
    dispatch.lend(true);
    assert!(is_waking(&dispatch));
}

#[test]
fn a_new_first_timer_wakes_a_worker_to_keep_it() {
    let dispatch = sleeping(1);
    dispatch.put(A);
    dispatch.put(B);
    assert_eq!(dispatch.next(None), Some(A));
    dispatch.lock().is_waking = false;
    // This worker continues with B for an unknown time: another must watch A's timer.
    assert_eq!(dispatch.next(turn_of(A, Next::Until(500, A))), Some(B));
    assert!(is_waking(&dispatch));
    let keeper = dispatch.lock().keep_time();
    assert!(keeper.is_some_and(|keeper| keeper.until_ns == 500));
    assert_eq!(dispatch.next(turn_of(B, Next::Again(B))), Some(B));
    assert!(!is_waking(&dispatch));
}

#[test]
fn a_worker_that_takes_its_own_flow_for_ever_fires_timers_in_time() {
    let dispatch = sleeping(0);
    dispatch.put(A);
    dispatch.put(B);
    assert_eq!(dispatch.next(None), Some(A));
    assert_eq!(dispatch.next(turn_of(A, Next::Until(500, A))), Some(B));
    NOW_NS.set(499);
    assert_eq!(dispatch.next(turn_of(B, Next::Again(B))), Some(B));
    NOW_NS.set(500);
    // B was put back first and goes first; A follows after one turn.
    assert_eq!(dispatch.next(turn_of(B, Next::Again(B))), Some(B));
    assert_eq!(dispatch.next(turn_of(B, Next::Again(B))), Some(A));
}

#[test]
fn a_worker_that_goes_away_passes_on_what_it_was_woken_for() {
    let dispatch = sleeping(1);
    dispatch.put(A);
    assert!(is_waking(&dispatch));
    dispatch.lock().wanted = 1;
    assert_eq!(dispatch.next(None), None);
    assert!(is_waking(&dispatch));
    assert_eq!(dispatch.workers(), 1);
}
