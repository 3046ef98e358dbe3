//! What is dropped for its age is told to its source.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use torvyn_stream::{
    AckLog, Call, ContentType, Delivery, Element, Emission, ErrorKind, Outbox, Payload, Policy, Queue, Stage,
    StageError, Step,
};

use super::{Accepts, Edge, EdgeEnd, Edges};
use crate::blueprint::Role;
use crate::clock::Clock;
use crate::flow::{Flow, Status};
use crate::native_stages::Scripted;
use crate::node::{Node, Worker};
use crate::node_spec::NodeSpec;
use crate::shared_state::SharedState;
use crate::swap::test_flow::blueprint;

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

/// Some calls take ten seconds. Notes the ages of its elements in seconds.
struct Slow(Arc<AtomicU64>, Arc<Mutex<Vec<u64>>>);

impl Stage for Slow {
    fn accept(&mut self, element: &mut Element, _: Call<'_>, _: &mut Outbox) -> Result<Step, StageError> {
        let mut ages = self.1.lock().unwrap();
        let took_ns = if ages.len().pow(2) % 101 == 5 { 10_000_000_000 } else { 0 };
        let now_ns = self.0.fetch_add(took_ns, Ordering::AcqRel);
        ages.push((now_ns - element.timestamp_ns) / 1_000_000_000);
        Ok(Step::Done)
    }
}

#[test]
fn no_element_is_handed_over_too_old_although_a_call_takes_long() {
    let (hand, ages) = (Arc::new(AtomicU64::new(1)), Arc::default());
    let sink = Slow(hand.clone(), Arc::clone(&ages));
    let mut blueprint = blueprint(Scripted::new(&["x"], 1000), sink);
    blueprint.edges[0].max_age_ns = 1_000_000_000;
    let shared = SharedState::new(blueprint.nodes.len(), blueprint.edges.len());
    let flow = Flow::new(blueprint, Arc::new(shared), Clock::manual(hand));
    while flow.run_turn(true, false) != Some(Status::Over) {}

    let ages = ages.lock().unwrap();
    assert!(ages.len() < 1000, "none was dropped");
    assert!(!ages.is_empty() && ages.iter().all(|&age| age <= 1), "{ages:?}");
}
