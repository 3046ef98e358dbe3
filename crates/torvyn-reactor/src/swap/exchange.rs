//! Exchanges the stage of a node between two elements.

use torvyn_stream::{Call, Element, ErrorKind, StageError};

use crate::blueprint::{Recovery, Role};
use crate::core::Core;
use crate::node::{Node, Phase, Retry, Worker};
use crate::shared_state::request;
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
    /// Exchanges the stage of the pending swap if it is between two elements.
    #[cold]
    pub(crate) fn try_swap(&mut self) {
        let Some(mut swap) = self.swap.take() else { return };
        let index = swap.node;
        let until_ns = *swap.until_ns.get_or_insert(self.now_ns.saturating_add(swap.timeout_ns));
        self.collect_results(index);
        let what = match self.stand(&swap) {
            Stand::Ready => return self.exchange(*swap),
            Stand::Ended => return self.refuse(*swap, Refusal::Ended),
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
            return self.refuse(*swap, Refusal::Busy(what));
        }
        self.swap = Some(swap);
    }

    /// When a pending swap is looked at again.
    pub(crate) fn swap_due(&self) -> Option<u64> {
        let until_ns = self.swap.as_ref()?.until_ns.unwrap_or(self.now_ns);
        Some(self.now_ns.saturating_add(POLL_NS).min(until_ns.max(self.now_ns)))
    }

    fn stand(&self, swap: &Swap) -> Stand {
        let node = &self.nodes[swap.node];
        if node.phase != Phase::Running {
            return Stand::Ended;
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
            Worker::Offloaded(state) => {
                let has_elements = !state.in_flight.is_empty() && !swap.is_return;
                let has_answers = !state.results.is_empty() || node.unfinished.has_answers();
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
        let now_ns = self.now_ns;
        if let Some(retry) = self.nodes[swap.node].unfinished.retry_mut() {
            retry.at_ns = if retry.at_ns == NEVER_NS { now_ns } else { retry.at_ns };
        }
        self.hold_input(swap.node, false);
        (swap.done)(Err(refusal));
        self.look_for_more();
    }

    fn exchange(&mut self, mut swap: Swap) {
        let index = swap.node;
        let held_ns = swap.held_ns.unwrap_or_else(|| self.clock.now_ns());
        let prepare = std::mem::replace(&mut swap.prepare, Box::new(|_| Err(unprepared())));
        let new = match self.save_state(&swap).and_then(prepare) {
            Ok(new) => new,
            Err(error) => return self.refuse(swap, Refusal::State(error)),
        };
        if swap.discards_state {
            self.drop_absorbed(index, true);
        }
        let old = self.put_in_place(index, new, swap.keeps_hold);
        self.now_ns = self.clock.now_ns();
        let back = {
            let pause_ns = self.now_ns.saturating_sub(held_ns);
            (swap.done)(Ok(Exchanged { old, pause_ns, failure: swap.failure }))
        };
        let (until_ns, received) =
            (self.now_ns.saturating_add(swap.trial_ns), self.edges.shared.nodes[index].received.get());
        let node = &mut self.nodes[index];
        node.unfinished.take_trial();
        if let Some(back) = back {
            node.unfinished.fill().trial = Some(Box::new(Trial { until_ns, errors: 0, received, back }));
        }
        self.look_for_more();
    }

    /// Another swap may have been requested while this one waited.
    fn look_for_more(&self) {
        self.edges.shared.request(request::SWAP);
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
        let mut old = node.replacement(worker);
        node.respecify(|spec| {
            (spec.recovery, spec.retries) = (new.recovery, new.retries);
            (spec.backoff, spec.budget_bytes) = (new.backoff, new.budget_bytes);
        });
        node.take_over(&mut old.worker);
        if node.role == Role::Source {
            node.unfinished.take_retry();
        } else if let Some(retry) = node.unfinished.retry_mut() {
            retry.at_ns = if keeps_hold { NEVER_NS } else { now_ns };
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
        let is_retried = error.may_be_retried() && attempt < node.spec.retries;
        let recovery = node.spec.recovery_from(&error, element.is_some());
        let ends_the_flow = !is_retried && recovery == Recovery::FailFast;
        let can_return = element.is_some() || node.role == Role::Source;
        let ends = |trial: &mut Box<Trial>| {
            self.swap.is_none()
                && can_return
                && error.kind != ErrorKind::Interrupted
                && trial.until_ns > self.now_ns
                && trial.count_error(received, ends_the_flow)
        };
        let trial = node.unfinished.used().and_then(|unfinished| unfinished.trial.take_if(ends));
        let Some(trial) = trial else { return Some((element, error)) };
        // Not before the old stage is back.
        node.unfinished.fill().retry = Some(Box::new(Retry { element, attempt: 0, at_ns: NEVER_NS }));
        let mut back = trial.back;
        back.held_ns = Some(self.now_ns);
        back.failure = Some(error);
        self.hold_input(index, true);
        self.swap = Some(back);
        None
    }
}

fn unprepared() -> StageError {
    StageError::new(ErrorKind::Internal, "the new stage was taken already")
}

/// Whether its stage is called for each element and nothing is tracked.
pub(crate) fn is_plain(node: &Node, tracks: bool) -> bool {
    let spec = &node.spec;
    !node.takes_batches && !spec.tells_input && !spec.drops_stale() && !tracks && !node.is_held
}
