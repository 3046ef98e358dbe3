//! What is dropped for its age is told to its source.

use std::sync::{Arc, Mutex};

use torvyn_stream::{
    AckLog, Call, ContentType, Delivery, Element, Emission, ErrorKind, Outbox, Payload, Policy, Queue, Stage,
    StageError, Step,
};

use super::{Accepts, Edge, EdgeEnd, Edges};
use crate::blueprint::Role;
use crate::node::{Node, Worker};
use crate::node_spec::NodeSpec;
use crate::shared_state::SharedState;

/// Notes what it is told, with how many elements are not settled then.
struct Source(Arc<AckLog>, Arc<Mutex<Vec<(u64, u64)>>>);

impl Stage for Source {
    fn accept(&mut self, _: &mut Element, _: Call<'_>, _: &mut Outbox) -> Result<Step, StageError> {
        Err(StageError::new(ErrorKind::Internal, "a source takes no elements"))
    }

    fn note_expired(&mut self, sequence: u64) {
        self.1.lock().unwrap().push((sequence, self.0.unsettled()));
    }
}

/// The times of the elements are their numbers, from 1 on.
fn queue(acks: &Arc<AckLog>, numbers: std::ops::RangeInclusive<u64>) -> Queue {
    let mut queue = Queue::new(8, 1 << 20, Policy::Block, 0.5);
    for number in numbers {
        let payload = Payload::from_slice(b"").tracked(acks.issue().expect("a receipt"));
        let delivery = Delivery::default();
        let content_type = ContentType::BINARY;
        let mut emission = Emission { payload, len: 0, content_type, companion: None, delivery };
        assert!(queue.emplace(&mut emission, 0, number, number));
    }
    queue
}

#[test]
fn a_source_is_told_of_each_expired_element_before_it_is_settled() {
    let (acks, told) = (Arc::<AckLog>::default(), Arc::default());
    let source = Box::new(Source(acks.clone(), Arc::clone(&told)));
    let mut sink = NodeSpec::new(Role::Sink, 0);
    (sink.inputs, sink.max_ages_ns) = ([0].into(), [100].into());
    let idle = Box::new(Source(acks.clone(), Arc::default()));
    let mut nodes = [
        Node::new(NodeSpec::new(Role::Source, 1), Worker::Inline(source)),
        Node::new(sink, Worker::Inline(idle)),
    ];
    let edge = Edge {
        queue: queue(&acks, 1..=5),
        source: EdgeEnd::of(Some(0)),
        target: EdgeEnd::of(Some(1)),
        input: 0,
        closed: None,
        accepts: Accepts::All,
    };
    let mut edges = Edges { list: vec![edge], tracks: true, shared: Arc::new(SharedState::new(2, 1)) };

    assert_eq!(edges.drop_stale(&mut nodes, 1, 50), 0);
    assert_eq!(edges.drop_stale(&mut nodes, 1, 104), 3);

    assert_eq!(*told.lock().unwrap(), [(1, 5), (2, 4), (3, 3)]);
    assert_eq!((acks.take_settled(), edges.list[0].queue.len()), (3, 2));
}
