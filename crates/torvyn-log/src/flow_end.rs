//! What a carrier tells the node of the flow at its end of an edge.

pub trait FlowEnd: Send + Sync {
    /// There are elements to read, or acknowledgements to take.
    fn wake(&self);
    /// A writer that has paused may go on.
    fn resume(&self);
}
