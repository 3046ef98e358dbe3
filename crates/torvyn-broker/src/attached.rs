//! The node of the flow at this end of an edge.

use std::sync::OnceLock;

use torvyn_log::FlowEnd;

/// Set when the flow starts. Before that, there is nobody to wake.
#[derive(Default)]
pub(crate) struct Attached(OnceLock<Box<dyn FlowEnd>>);

impl Attached {
    pub fn set(&self, end: Box<dyn FlowEnd>) {
        let _ = self.0.set(end);
    }

    pub fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    pub fn wake(&self) {
        if let Some(end) = self.0.get() {
            end.wake();
        }
    }

    pub fn resume(&self) {
        if let Some(end) = self.0.get() {
            end.resume();
        }
    }
}
