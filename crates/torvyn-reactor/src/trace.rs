//! Traces: the time and outcome of every call, for `trace` and `bench`. Off by default.

/// One call of one component.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    pub node: u16,
    pub outcome: &'static str,
    pub made: u32,
    /// Payload bytes the node has copied so far.
    pub copied_bytes: u64,
    pub sequence: u64,
    pub start_ns: u64,
    pub nanos: u64,
}

#[derive(Debug)]
pub struct Tracer {
    pub events: Vec<Event>,
    limit: usize,
    pub missed: u64,
}

impl Tracer {
    pub fn new(limit: usize) -> Self {
        Self { events: Vec::new(), limit, missed: 0 }
    }

    pub fn record(&mut self, event: Event) {
        if self.events.len() < self.limit {
            self.events.push(event);
        } else {
            self.missed += 1;
        }
    }
}
