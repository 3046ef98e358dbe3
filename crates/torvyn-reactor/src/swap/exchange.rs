//! Exchanges the stage of a node between two elements.

use std::collections::VecDeque;

use torvyn_stream::{Call, Element, ErrorKind, StageError};

use crate::blueprint::{Recovery, Role};
use crate::core::Core;
use crate::node::{Answer, Node, Phase, Retry, Worker};
use crate::swap::{Exchanged, Refusal, Replacement, Swap, Trial};

/// How often a stage that is to be exchanged is looked at: its worker tells nobody that it waits.
const POLL_NS: u64 = 500_000;

/// The time of a retry that waits for the exchange of its stage.
const NEVER_NS: u64 = u64::MAX;

/// What a stage that is to be exchanged does.
enum Stand {
    Ready,
    /// It has unfinished work and must get no more.
    Busy(&'static str),
    /// It may go on meanwhile, or can finish only with more elements.
    Waits(&'static str),
    Ended,
}

impl Core {
    /// Exchanges the stages of the pending swaps that are between two elements.
    #[cold]
    pub(crate) fn try_swaps(&mut self) {
        for swap in std::mem::take(&mut self.swaps) {
            self.try_swap(swap);
        }
    }

    fn try_swap(&mut self, mut swap: Swap) {
        let index = swap.node;
        let until_ns = *swap.until_ns.get_or_insert(self.now_ns.saturating_add(swap.timeout_ns));
        self.collect_results(index);
        let what = match self.stand(&swap) {
            Stand::Ready => return self.exchange(swap),
            Stand::Ended => return self.refuse(swap, Refusal::Ended),
            Stand::Busy(what) => {
                if swap.held_ns.is_none() {
                    swap.held_ns = Some(self.now_ns);
                    self.hold_input(index, true);
                }
                what
            }
            Stand::Waits(what) => what,
        };
        if self.now_ns >= until_ns {
            return self.refuse(swap, Refusal::Busy(what));
        }
        self.swaps.push(swap);
    }

    /// When a pending swap is looked at again.
    pub(crate) fn swap_due(&self) -> Option<u64> {
        let until_ns = self.swaps.iter().map(|swap| swap.until_ns.unwrap_or(self.now_ns)).min()?;
        Some(self.now_ns.saturating_add(POLL_NS).min(until_ns.max(self.now_ns)))
    }

    fn stand(&self, swap: &Swap) -> Stand {
        let node = &self.nodes[swap.node];
        if node.phase != Phase::Running {
            return Stand::Ended;
        }
        if node.unfinished.is_returning && !swap.is_return {
            return Stand::Waits("the component of before takes its place again");
        }
        if self.is_cut(swap.node) {
            return Stand::Waits("its state is being saved");
        }
        if node.acks.as_ref().is_some_and(|acks| acks.outstanding() > 0) {
            return Stand::Busy("elements that it has sent are not settled");
        }
        match &node.worker {
            Worker::Inline(_) if node.more || node.unfinished.current.is_some() => {
                Stand::Busy("it still emits the outputs of an element")
            }
            Worker::Inline(stage) if stage.held_bytes() > 0 && !swap.moves_state && !swap.discards_state => {
                Stand::Waits("it holds text of an element and cannot save it")
            }
            Worker::Inline(_) => Stand::Ready,
            Worker::Offloaded(state) if state.closing => Stand::Ended,
            Worker::Offloaded(_) if swap.is_forced => Stand::Ready,
            Worker::Offloaded(state) => {
                let has_elements = !state.in_flight.is_empty() && !swap.is_return;
                let has_answers =
                    !state.results.is_empty() || (node.unfinished.has_answers() && !swap.is_return);
                if has_elements || has_answers || state.exchange.has_acknowledgements() || !(swap.is_idle)() {
                    Stand::Busy("a call has not returned")
                } else {
                    Stand::Ready
                }
            }
        }
    }

    /// The node takes no more elements, or takes them again. What it has begun goes on.
    fn hold_input(&mut self, index: usize, is_held: bool) {
        let node = &mut self.nodes[index];
        node.is_held = is_held;
        node.is_plain = is_plain(node, self.edges.tracks);
    }

    /// The old stage goes on.
    fn refuse(&mut self, swap: Swap, refusal: Refusal) {
        if swap.is_return {
            self.end_return(swap.node);
        }
        self.let_go(swap.node);
        (swap.done)(Err(refusal));
    }

    /// A node that was held for a swap goes on with the stage that it has, unless that one has failed on trial.
    pub(crate) fn let_go(&mut self, index: usize) {
        let now_ns = self.now_ns;
        let node = &mut self.nodes[index];
        if !node.is_held || node.unfinished.is_returning {
            return;
        }
        if let Some(retry) = node.unfinished.retry_mut()
            && retry.at_ns == NEVER_NS
        {
            retry.at_ns = now_ns;
        }
        self.hold_input(index, false);
    }

    fn end_return(&mut self, index: usize) {
        if let Some(unfinished) = self.nodes[index].unfinished.used() {
            unfinished.is_returning = false;
        }
    }

    fn exchange(&mut self, mut swap: Swap) {
        let index = swap.node;
        let held_ns = swap.held_ns.unwrap_or_else(|| self.clock.now_ns());
        let prepare = std::mem::replace(&mut swap.prepare, Box::new(|_| Err(unprepared())));
        if swap.is_return {
            // What was handed to the worker goes to the stage that follows.
            self.reclaim(index, swap.is_forced);
            let is_answered = |answer: &Answer| matches!(answer.outcome, Some(Ok(_)));
            swap.was_unused &= !self.nodes[index].unfinished.answers.iter().any(is_answered);
        }
        let saved = match self.save_state(&swap) {
            // A stage that has failed may have nothing to save any more, and has to leave nevertheless.
            Err(_) if swap.is_return => Ok(None),
            saved => saved,
        };
        let new = match saved.and_then(prepare) {
            Ok(new) => new,
            Err(error) => return self.refuse(swap, Refusal::State(error)),
        };
        let is_exchanged = new.is_some();
        if swap.discards_state {
            self.drop_absorbed(index, true);
        }
        let old = match new {
            Some(new) => {
                if swap.is_return {
                    self.end_return(index);
                }
                Some(self.put_in_place(index, new, swap.keeps_hold))
            }
            None => {
                if let Some(retry) = self.nodes[index].unfinished.retry_mut() {
                    retry.at_ns = NEVER_NS;
                }
                self.hold_input(index, true);
                None
            }
        };
        self.now_ns = self.clock.now_ns();
        let back = {
            let pause_ns = self.now_ns.saturating_sub(held_ns);
            (swap.done)(Ok(Exchanged { old, pause_ns, failure: swap.failure, was_unused: swap.was_unused }))
        };
        if is_exchanged {
            let until_ns = self.now_ns.saturating_add(swap.trial_ns);
            let received = self.edges.shared.nodes[index].received.get();
            let node = &mut self.nodes[index];
            let finished = received.saturating_sub(node.unread());
            node.unfinished.take_trial();
            if let Some(back) = back {
                let trial = Trial { until_ns, errors: 0, received, finished, back };
                node.unfinished.fill().trial = Some(Box::new(trial));
            }
        }
    }

    /// Takes back what the stage of a node has failed on, and what was handed to its worker. The element of a call that
    /// `is_stuck` waits like one that has failed.
    fn reclaim(&mut self, index: usize, is_stuck: bool) {
        if is_stuck && let Some(element) = self.take_front(index) {
            let retry = Retry { element: Some(element), attempt: 0, at_ns: NEVER_NS };
            self.nodes[index].unfinished.fill().retry = Some(Box::new(retry));
        }
        let mut rest = VecDeque::new();
        while let Some(element) = self.take_front(index) {
            rest.push_back(Answer { element, made: Vec::new(), outcome: None });
        }
        if !rest.is_empty() {
            let answers = &mut self.nodes[index].unfinished.fill().answers;
            // They came after those that have answers already.
            answers.append(&mut rest);
        }
        self.settle_loan(index);
        let Some(unfinished) = self.nodes[index].unfinished.used() else { return };
        for answer in unfinished.answers.iter_mut().filter(|answer| matches!(answer.outcome, Some(Err(_)))) {
            answer.made.clear();
            answer.outcome = None;
        }
        if is_stuck && let Some(state) = self.offload(index) {
            // What it returns after all reaches no consumer.
            state.exchange.stop_after(&mut VecDeque::new());
        }
    }

    /// The state of a native stage.
    fn save_state(&mut self, swap: &Swap) -> Result<Option<Vec<u8>>, StageError> {
        match &mut self.nodes[swap.node].worker {
            Worker::Inline(stage) if swap.moves_state => {
                let ledger = &self.edges.shared.nodes[swap.node].ledger;
                stage.snapshot(Call { ledger, now_ns: self.now_ns })
            }
            _ => Ok(None),
        }
    }

    /// Exchanges the stages. What waits, and what is to be tried again, is given to the new one.
    fn put_in_place(&mut self, index: usize, new: Replacement, keeps_hold: bool) -> Replacement {
        let now_ns = self.now_ns;
        let node = &mut self.nodes[index];
        let worker = std::mem::replace(&mut node.worker, new.worker);
        let old = node.replacement(worker);
        node.respecify(|spec| {
            (spec.recovery, spec.retries) = (new.recovery, new.retries);
            (spec.backoff, spec.budget_bytes) = (new.backoff, new.budget_bytes);
        });
        node.take_over();
        if node.role == Role::Source {
            node.unfinished.take_retry();
        } else if let Some(retry) = node.unfinished.retry_mut() {
            retry.at_ns = now_ns;
        }
        self.hold_input(index, keeps_hold);
        self.limit_batch();
        old
    }

    /// Counts an error of a stage on trial. `None`: the trial has failed, and the element waits for the old stage.
    #[cold]
    pub(crate) fn judge_trial(
        &mut self,
        index: usize,
        element: Option<Element>,
        error: StageError,
        attempt: u32,
    ) -> Option<(Option<Element>, StageError)> {
        let received = self.edges.shared.nodes[index].received.get();
        let node = &mut self.nodes[index];
        // The element of this error is in nobody's hands, and not finished either.
        let finished = received.saturating_sub(node.unread() + u64::from(element.is_some()));
        let is_retried = error.may_be_retried() && attempt < node.spec.retries;
        let recovery = node.spec.recovery_from(&error, element.is_some());
        let ends_the_flow = !is_retried && recovery == Recovery::FailFast;
        let can_return = element.is_some() || node.role == Role::Source;
        let ends = |trial: &mut Box<Trial>| {
            can_return
                && error.kind != ErrorKind::Interrupted
                && trial.until_ns > self.now_ns
                && trial.count_error(received, ends_the_flow)
        };
        let trial = node.unfinished.used().and_then(|unfinished| unfinished.trial.take_if(ends));
        let Some(trial) = trial else { return Some((element, error)) };
        // Not before the old stage is back.
        node.unfinished.fill().retry = Some(Box::new(Retry { element, attempt: 0, at_ns: NEVER_NS }));
        self.begin_return(index, *trial, error, finished, false);
        None
    }

    /// A stage on trial does not return from a call, which nothing can end: the old stage gets the element.
    pub(crate) fn fail_trial(&mut self, index: usize) {
        self.collect_results(index);
        let received = self.edges.shared.nodes[index].received.get();
        let node = &mut self.nodes[index];
        let is_stuck = node.phase == Phase::Running
            && matches!(&node.worker, Worker::Offloaded(state)
                if !state.closing && state.results.is_empty() && !state.in_flight.is_empty());
        let finished = received.saturating_sub(node.unread());
        if is_stuck && let Some(trial) = node.unfinished.take_trial() {
            let error = StageError::new(ErrorKind::DeadlineExceeded, "a call has not returned");
            self.begin_return(index, *trial, error, finished, true);
        }
    }

    fn begin_return(
        &mut self,
        index: usize,
        trial: Trial,
        error: StageError,
        finished: u64,
        is_forced: bool,
    ) {
        let mut back = trial.back;
        back.held_ns = Some(self.now_ns);
        (back.is_return, back.failure) = (true, Some(error));
        back.was_unused = finished <= trial.finished;
        back.is_forced = is_forced;
        self.nodes[index].unfinished.fill().is_returning = true;
        self.hold_input(index, true);
        self.swaps.push(*back);
    }
}

fn unprepared() -> StageError {
    StageError::new(ErrorKind::Internal, "the new stage was taken already")
}

/// Whether its stage is called for each element and nothing is tracked.
pub(crate) fn is_plain(node: &Node, tracks: bool) -> bool {
    let spec = &node.spec;
    !node.takes_batches
        && !spec.tells_input
        && !spec.drops_stale()
        && !tracks
        && !node.is_held
        && !node.unfinished.has_answers()
}
