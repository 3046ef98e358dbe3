//! Checkpoints: which parts of a flow are saved together, and who is told when one of them is at rest.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use torvyn_stream::StageError;

/// A segment at rest: everything that its sources have emitted is settled or inside the state of a component.
#[derive(Debug)]
pub struct Rest {
    pub segment: usize,
    /// The states of its native stages, by node.
    pub states: Vec<(usize, Vec<u8>)>,
    /// The nodes whose input has ended, and which have flushed their states.
    pub finished: Vec<usize>,
}

/// Called inside the turn when a segment is at rest.
pub type OnCut = Box<dyn Fn(Rest) -> Result<(), StageError> + Send>;

const IDLE: u8 = 0;
const WANTED: u8 = 1;
const HELD: u8 = 2;

/// The requests for checkpoints of every segment, shared with other threads.
#[derive(Debug)]
pub struct CutRequests(Box<[AtomicU8]>);

impl Checkpoints {
    /// Its size with the heap.
    pub(crate) fn size_bytes(&self) -> usize {
        size_of::<Self>()
            + self.segment_of.capacity() * size_of::<usize>()
            + 2 * size_of::<usize>()
            + size_of::<CutRequests>()
            + size_of_val(&*self.requests.0)
            + size_of_val(&*self.on_cut)
    }
}

impl CutRequests {
    pub fn new(segments: usize) -> Arc<Self> {
        Arc::new(Self((0..segments).map(|_| AtomicU8::new(IDLE)).collect()))
    }

    /// The segment's sources emit nothing until it has been cut and released.
    pub fn request(&self, segment: usize) {
        self.0[segment].store(WANTED, Ordering::Release);
    }

    /// The segment's sources go on.
    pub fn release(&self, segment: usize) {
        self.0[segment].store(IDLE, Ordering::Release);
    }

    pub(crate) fn note_cut(&self, segment: usize) {
        self.0[segment].store(HELD, Ordering::Release);
    }

    pub(crate) fn is_held(&self, segment: usize) -> bool {
        self.0[segment].load(Ordering::Acquire) != IDLE
    }

    pub(crate) fn is_cut(&self, segment: usize) -> bool {
        self.0[segment].load(Ordering::Acquire) == HELD
    }

    pub(crate) fn is_wanted(&self, segment: usize) -> bool {
        self.0[segment].load(Ordering::Acquire) == WANTED
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

pub struct Checkpoints {
    /// The segment of every node.
    pub segment_of: Vec<usize>,
    pub requests: Arc<CutRequests>,
    pub on_cut: OnCut,
}

impl Checkpoints {
    pub(crate) fn is_wanted(&self) -> bool {
        (0..self.requests.len()).any(|segment| self.requests.is_wanted(segment))
    }
}
