use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;

fn element(sequence: u64, len: usize) -> Element {
    Element::made(Emission::text(&"x".repeat(len)), 0, sequence, 0)
}

fn policies() -> impl Strategy<Value = Policy> {
    prop_oneof![Just(Policy::Block), Just(Policy::DropOldest), Just(Policy::DropNewest), Just(Policy::Error)]
}

proptest! {
    /// Whatever is offered and popped: order holds, limits hold, and every element is somewhere.
    #[test]
    fn nothing_is_lost_without_being_counted(
        policy in policies(),
        depth in 1usize..20,
        bytes in 1usize..200,
        steps in prop::collection::vec(prop::option::of(0usize..60), 1..300),
    ) {
        let mut queue = Queue::new(depth, bytes, policy, 0.5);
        queue.note_stalled(true);
        let counters = QueueCounters::default();
        let (mut inside, mut came_back, mut popped) = (VecDeque::new(), 0u64, 0u64);
        let mut offered = 0u64;
        for len in steps {
            match len {
                None => {
                    let got = queue.pop().map(|element| element.sequence);
                    popped += u64::from(got.is_some());
                    prop_assert_eq!(got, inside.pop_front().map(|(sequence, _)| sequence));
                }
                Some(len) => {
                    offered += 1;
                    match queue.offer(element(offered, len)) {
                        Offer::Taken => inside.push_back((offered, len)),
                        Offer::Full(back) => {
                            prop_assert_eq!(back.sequence, offered);
                            came_back += 1;
                        }
                        Offer::Dropped(gone) => {
                            for lost in gone {
                                let oldest = inside.front().map(|(sequence, _)| *sequence);
                                if Some(lost.sequence) == oldest {
                                    inside.pop_front();
                                } else {
                                    prop_assert_eq!(lost.sequence, offered);
                                }
                            }
                            if policy == Policy::DropOldest {
                                inside.push_back((offered, len));
                            }
                        }
                    }
                }
            }
            queue.publish(&counters);
            let held: usize = inside.iter().map(|(_, len)| len).sum();
            prop_assert_eq!(queue.len(), inside.len());
            prop_assert_eq!(counters.bytes.get() as usize, held);
            prop_assert!(inside.len() <= depth);
            prop_assert!(held <= bytes || inside.len() == 1);
            prop_assert!(counters.peak.get() as usize <= depth);
            prop_assert_eq!(counters.taken.get(), popped);
            prop_assert_eq!(counters.unread.get(), inside.len() as u64);
            prop_assert_eq!(offered, counters.entered() + came_back);
        }
    }

    /// A move between queues is a pop and an offer.
    #[test]
    fn moving_is_popping_and_offering(depth in 1usize..6, lens in prop::collection::vec(0usize..30, 0..20)) {
        let mut from = Queue::new(100, 1 << 20, Policy::Block, 0.5);
        let mut to = Queue::new(depth, 60, Policy::Block, 0.5);
        for (sequence, len) in lens.iter().enumerate() {
            let _ = from.offer(element(sequence as u64, *len));
        }
        while from.move_front(&mut to) {}
        let moved: Vec<u64> = std::iter::from_fn(|| to.pop()).map(|e| e.sequence).collect();
        let left: Vec<u64> = std::iter::from_fn(|| from.pop()).map(|e| e.sequence).collect();
        let all: Vec<u64> = moved.iter().chain(&left).copied().collect();
        prop_assert_eq!(all, (0..lens.len() as u64).collect::<Vec<_>>());
        prop_assert!(moved.len() <= depth);
    }
}

#[test]
fn back_pressure_lasts_from_full_to_the_low_watermark() {
    let mut queue = Queue::new(4, 1 << 20, Policy::Block, 0.5);
    let seen: Vec<bool> = (0..4)
        .map(|sequence| {
            let _ = queue.offer(element(sequence, 1));
            queue.is_pressured()
        })
        .collect();
    assert_eq!(seen, [false, false, false, true]);
    let seen: Vec<bool> = (0..3)
        .map(|_| {
            queue.pop();
            queue.is_pressured()
        })
        .collect();
    assert_eq!(seen, [true, false, false]);
}

#[test]
fn a_policy_acts_only_while_the_consumer_stalls() {
    for policy in [Policy::DropOldest, Policy::DropNewest, Policy::Error] {
        let mut queue = Queue::new(1, 1 << 20, policy, 0.5);
        assert!(matches!(queue.offer(element(0, 1)), Offer::Taken));
        assert!(matches!(queue.offer(element(1, 1)), Offer::Full(_)));
        assert_eq!(queue.free_slots(), 0);
        assert!(queue.note_stalled(true));
        assert_eq!(queue.free_slots(), usize::MAX);
        let refused = queue.offer(element(1, 1));
        assert_eq!(matches!(refused, Offer::Dropped(_)), policy != Policy::Error);
    }
}

#[test]
fn what_is_lent_still_occupies_the_queue() {
    let mut queue = Queue::new(3, 1 << 20, Policy::Block, 0.5);
    for sequence in 0..3 {
        let _ = queue.offer(element(sequence, 1));
    }
    for _ in 0..3 {
        queue.pop();
    }
    queue.lend(2, 2);
    assert_eq!(queue.free_slots(), 1);
    queue.lend(0, 0);
    assert_eq!(queue.free_slots(), 3);
}

proptest! {
    /// Runs of elements are accepted, moved, dropped and counted like single ones.
    #[test]
    fn a_run_is_what_its_single_moves_are(
        depth in 1usize..12,
        bytes in 1usize..120,
        lengths in prop::collection::vec(0usize..30, 1..12),
        count in 0usize..14,
    ) {
        let queues = || {
            let mut from = Queue::new(64, 10_000, Policy::Block, 0.5);
            (0..).zip(&lengths).for_each(|(sequence, len)| assert!(matches!(from.offer(element(sequence, *len)), Offer::Taken)));
            (from, Queue::new(depth, bytes, Policy::Block, 0.5))
        };
        let ((mut a, mut b), (mut x, mut y)) = (queues(), queues());
        let moved = a.move_run(&mut b, count);
        let singly = (0..count).take_while(|_| x.move_front(&mut y)).count();
        let dropped = (a.len(), a.bytes);
        a.drop_run(dropped.0, dropped.1);
        while !x.is_empty() {
            x.drop_front();
        }
        let shown = |queue: &Queue| {
            let counters = QueueCounters::default();
            queue.publish(&counters);
            format!("{counters:?} {}", queue.is_pressured())
        };
        prop_assert_eq!(moved, singly);
        prop_assert_eq!([shown(&a), shown(&b)], [shown(&x), shown(&y)]);
    }

    #[test]
    fn a_run_of_emissions_is_accepted_as_a_whole_or_not_at_all(
        depth in 1usize..12,
        lengths in prop::collection::vec(0usize..30, 1..14),
    ) {
        let mut queue = Queue::new(depth, 100, Policy::Block, 0.5);
        let mut made: Vec<_> = lengths.iter().map(|len| Emission::text(&"x".repeat(*len))).collect();
        let fits = lengths.len() <= depth && (lengths.len() == 1 || lengths.iter().sum::<usize>() <= 100);
        prop_assert_eq!(queue.emplace_run(&mut made, 3, 7, 9), fits);
        let sequences: Vec<u64> = std::iter::from_fn(|| queue.pop()).map(|element| element.sequence).collect();
        prop_assert_eq!(made.len() + sequences.len(), lengths.len());
        prop_assert_eq!(sequences.clone(), (7..).take(sequences.len()).collect::<Vec<u64>>());
    }
}

proptest! {
    #[test]
    fn what_is_too_old_is_dropped_from_the_front_and_counted(
        times in prop::collection::vec(0u64..10, 0..30),
        before in 0u64..10,
    ) {
        let mut queue = Queue::new(100, 1 << 20, Policy::Block, 0.5);
        for (sequence, time_ns) in (0..).zip(&times) {
            queue.offer(Element::made(Emission::text("x"), 0, sequence, *time_ns));
        }
        let gone = std::iter::from_fn(|| queue.drop_older(before)).count();

        let expected = times.iter().take_while(|&&time_ns| time_ns > 0 && time_ns < before).count();
        let counters = QueueCounters::default();
        queue.publish(&counters);
        prop_assert_eq!(gone, expected);
        prop_assert_eq!((counters.dropped.get(), queue.len()), (gone as u64, times.len() - gone));
        prop_assert_eq!(queue.pop().map(|element| element.sequence), (gone < times.len()).then_some(gone as u64));
    }
}
