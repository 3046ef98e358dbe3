//! Hot swap: the stage of a node is exchanged for another one while its flow runs. Queues, numbers, acknowledgements
//! and counters belong to the node and stay as they are.

mod exchange;

use torvyn_stream::StageError;

use crate::backoff::Backoff;
use crate::blueprint::Recovery;
use crate::node::Worker;

pub(crate) use exchange::is_plain;

/// What takes the place of a node's stage, with the error policy and the budget that belong to it.
pub struct Replacement {
    pub worker: Worker,
    pub recovery: Recovery,
    pub retries: u32,
    pub backoff: Backoff,
    pub budget_bytes: u64,
}

impl Replacement {
    /// Closes a stage that was exchanged for another one, or stops its worker.
    pub fn release(mut self) {
        match &mut self.worker {
            Worker::Inline(stage) => stage.close(),
            Worker::Offloaded(state) => state.exchange.stop_after(&mut state.results),
        }
    }
}

/// Why a stage was not exchanged. It goes on as if nothing had happened.
#[derive(Debug)]
pub enum Refusal {
    /// The node's input has ended, or the node has.
    Ended,
    /// What the stage was doing when the time for the swap was over.
    Busy(&'static str),
    /// The state was not handed over.
    State(StageError),
}

/// A stage that was exchanged, or whose node is held.
pub struct Exchanged {
    /// The stage that ran before; None if it is still there, and its node is held.
    pub old: Option<Replacement>,
    /// For how long the node took no elements.
    pub pause_ns: u64,
    /// Why the stages are exchanged back.
    pub failure: Option<StageError>,
    /// The stage that failed on trial had not finished an element.
    pub was_unused: bool,
}

/// Gives the new stage the state of the old one, which native code has saved, and returns it. With None the old stage
/// stays, and the node takes no elements until the next swap or until it is let go. Called inside the turn.
pub type Prepare = Box<dyn FnOnce(Option<Vec<u8>>) -> Result<Option<Replacement>, StageError> + Send>;

/// Called inside the turn. The swap that it returns exchanges the stages back if the new one fails on trial.
pub type Done = Box<dyn FnOnce(Result<Exchanged, Refusal>) -> Option<Box<Swap>> + Send>;

pub struct Swap {
    pub node: usize,
    /// How long it waits for the stage to finish what it has begun.
    pub timeout_ns: u64,
    /// How long the new stage is on trial; 0 for no trial.
    pub trial_ns: u64,
    /// What the old stage holds goes to the new one; if not, the swap waits until a native stage buffers nothing.
    pub moves_state: bool,
    /// What the old stage holds is dropped.
    pub discards_state: bool,
    /// Whether the worker of an offloaded stage waits, as its runner sees it.
    pub is_idle: Box<dyn Fn() -> bool + Send>,
    pub prepare: Prepare,
    pub done: Done,
    /// The node takes no elements afterwards either, until the next swap.
    pub keeps_hold: bool,
    /// The stage that ran before takes its place again, and what was handed to the worker goes back to it.
    pub is_return: bool,
    /// The stage that leaves is inside a call that does not return.
    pub is_forced: bool,
    /// The error of the new stage for which it is exchanged back.
    pub failure: Option<StageError>,
    pub was_unused: bool,
    /// When it is given up; set when the flow learns of it.
    pub until_ns: Option<u64>,
    /// Since when the node takes no elements.
    pub held_ns: Option<u64>,
}

impl std::fmt::Debug for Swap {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Swap").field("node", &self.node).finish_non_exhaustive()
    }
}

/// A new stage that is watched: if it fails, the old one takes its place again and gets the failed element.
pub struct Trial {
    pub until_ns: u64,
    pub errors: u64,
    /// How many elements the node had received when the trial began, and how many it had finished.
    pub received: u64,
    pub finished: u64,
    pub back: Box<Swap>,
}

/// With fewer errors than this a trial goes on, unless an error would end the flow.
const FEWEST_ERRORS: u64 = 3;
/// One failed call in so many fails the trial.
const ERROR_SHARE: u64 = 10;

impl Trial {
    /// Counts an error; true when the trial has failed.
    pub fn count_error(&mut self, received: u64, ends_the_flow: bool) -> bool {
        self.errors += 1;
        let calls = received.saturating_sub(self.received).max(self.errors);
        ends_the_flow || (self.errors >= FEWEST_ERRORS && self.errors * ERROR_SHARE >= calls)
    }
}

#[cfg(test)]
pub(crate) mod test_flow;
#[cfg(test)]
mod tests;
