//! Every interleaving of a few threads: a lost wake-up leaves all of them asleep, which loom reports as a deadlock.

use std::time::Duration;

use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

use super::{Dispatch, Next, TurnEnd};
use crate::workers::run_queue::Job;

#[derive(Clone)]
struct Task {
    is_hosted: bool,
    turns: usize,
}

impl Job for Task {
    type Handle = ();

    fn is_hosted(&self) -> bool {
        self.is_hosted
    }
    fn set_alarm((): &(), _due_ns: u64) -> bool {
        false
    }
    fn time_left((): &(), _due_ns: u64) -> Option<Duration> {
        None
    }
    fn ring((): &(), _due_ns: u64) -> Option<Self> {
        None
    }
}

fn ended(mut task: Task) -> TurnEnd<Task> {
    task.turns -= 1;
    let is_hosted = task.is_hosted;
    let next = if task.turns == 0 { Next::Nothing } else { Next::Again(task) };
    TurnEnd { is_hosted, is_lent: false, next }
}

/// A worker that runs turns until the very last one, after which all stop.
fn work(dispatch: &Dispatch<Task>, left: &AtomicUsize) {
    let mut finished = None;
    while let Some(task) = dispatch.next(finished.take()) {
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            dispatch.stop();
        }
        finished = Some(ended(task));
    }
}

fn start(workers: usize, run: impl Fn(&Dispatch<Task>) + Send + Clone + 'static) -> Started {
    let dispatch = Arc::new(Dispatch::new(workers));
    let start = |_| {
        dispatch.count_worker(true);
        let (dispatch, run) = (dispatch.clone(), run.clone());
        thread::spawn(move || run(&dispatch))
    };
    let threads = (0..workers).map(start).collect();
    Started { dispatch, threads }
}

struct Started {
    dispatch: Arc<Dispatch<Task>>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl Started {
    fn join(self) {
        for thread in self.threads {
            thread.join().unwrap();
        }
        assert_eq!(self.dispatch.workers(), 0);
    }
}

fn all_turns_run(tasks: &'static [Task]) {
    loom::model(move || {
        let left = Arc::new(AtomicUsize::new(tasks.iter().map(|task| task.turns).sum()));
        let pool = start(2, {
            let left = left.clone();
            move |dispatch| work(dispatch, &left)
        });
        for task in tasks {
            pool.dispatch.put(task.clone());
        }
        pool.join();
        assert_eq!(left.load(Ordering::Acquire), 0);
    });
}

#[test]
fn every_turn_of_a_native_job_runs() {
    all_turns_run(&[Task { is_hosted: false, turns: 2 }]);
}

#[test]
fn hosted_jobs_that_wait_for_each_other_all_run() {
    all_turns_run(&[Task { is_hosted: true, turns: 1 }, Task { is_hosted: true, turns: 1 }]);
}

/// Each job waits for the other inside its turn: with one of two workers left asleep, neither would end.
#[test]
fn two_native_jobs_run_side_by_side() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let met = Arc::new((Mutex::new(0), Condvar::new()));
        let pool = start(2, move |dispatch| {
            if dispatch.next(None).is_some() {
                let mut count = met.0.lock().unwrap();
                *count += 1;
                met.1.notify_all();
                while *count < 2 {
                    count = met.1.wait(count).unwrap();
                }
                drop(count);
                dispatch.stop();
                assert!(dispatch.next(Some(ended(Task { is_hosted: false, turns: 1 }))).is_none());
            }
        });
        pool.dispatch.put(Task { is_hosted: false, turns: 1 });
        pool.dispatch.put(Task { is_hosted: false, turns: 1 });
        pool.join();
    });
}

/// The watchdog sleeps without a time limit while there are no turns, and looks as soon as there is one.
#[test]
fn a_turn_wakes_the_watchdog_that_sleeps() {
    loom::model(|| {
        let dispatch: Arc<Dispatch<Task>> = Arc::new(Dispatch::new(1));
        dispatch.count_worker(true);
        let watchdog = {
            let dispatch = dispatch.clone();
            thread::spawn(move || assert!(dispatch.watch(Duration::ZERO)))
        };
        dispatch.put(Task { is_hosted: false, turns: 1 });
        assert!(dispatch.next(None).is_some());
        watchdog.join().unwrap();
    });
}
