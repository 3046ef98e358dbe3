//! What calls write their outputs into. It is empty between turns, so it belongs to the thread that runs the turn and
//! not to a flow: ten thousand flows that wait need none.

use std::cell::Cell;

use torvyn_stream::{Answers, Outbox};

thread_local! {
    static OUTBOX: Cell<Outbox> = const { Cell::new(Outbox { made: Vec::new(), ports: Vec::new() }) };
    static ANSWERS: Cell<Answers> = const { Cell::new(Answers { settled: Vec::new(), made: Vec::new() }) };
}

/// A buffer that one call has made larger than this is not kept.
const MOST_KEPT: usize = 1024;

/// The outbox of this thread. A flow that a component runs inside another flow gets a new one.
#[inline]
pub fn outbox() -> Outbox {
    OUTBOX.take()
}

#[inline]
pub fn return_outbox(mut outbox: Outbox) {
    outbox.made.clear();
    outbox.ports.clear();
    if outbox.made.capacity().max(outbox.ports.capacity()) <= MOST_KEPT {
        OUTBOX.set(outbox);
    }
}

pub fn answers() -> Answers {
    ANSWERS.take()
}

pub fn return_answers(mut answers: Answers) {
    answers.clear();
    if answers.made.capacity().max(answers.settled.capacity()) <= MOST_KEPT {
        ANSWERS.set(answers);
    }
}
