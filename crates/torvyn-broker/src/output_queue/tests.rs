use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn queue(by_release: bool) -> OutputQueue {
    let names = EdgeNames { prefix: "p".into(), partitions: 1 };
    let text = |text: &str| text.to_owned();
    let identity = Identity { writer: 0, series: text("s"), generation: text("g1"), run: text("r") };
    OutputQueue::new(names, identity, BTreeMap::new(), by_release)
}

fn message(subject: &str, first: u64) -> Message {
    Message { subject: subject.into(), id: format!("0.s.g1.0.{first}.1"), body: Bytes::from_static(b"x") }
}

fn full() -> Refusal {
    Refusal { code: 10077, text: "full".into() }
}

/// The ids of what is due.
fn due(queue: &mut OutputQueue, now: Instant) -> Vec<(u64, String)> {
    queue.due(now).into_iter().map(|(number, message)| (number, message.id)).collect()
}

#[test]
fn one_batch_per_subject_is_on_its_way() {
    let mut queue = queue(false);
    let now = Instant::now();
    for (subject, first) in [("a", 0), ("a", 1), ("b", 2)] {
        queue.add_owed(message(subject, first));
    }
    let sent: Vec<u64> = due(&mut queue, now).into_iter().map(|(number, _)| number).collect();
    assert_eq!(sent, [0, 2]);
    assert!(due(&mut queue, now).is_empty());
    queue.confirm(0, now);
    assert_eq!(due(&mut queue, now)[0].0, 1);
}

#[test]
fn a_full_subject_waits_longer_each_time_and_holds_up_no_other() {
    let mut queue = queue(false);
    let now = Instant::now();
    for (subject, first) in [("a", 0), ("b", 1), ("b", 2)] {
        queue.add_owed(message(subject, first));
    }
    due(&mut queue, now);
    queue.refuse(0, &full(), now);
    queue.confirm(1, now);
    assert_eq!(due(&mut queue, now), [(2, "0.s.g1.0.2.1".to_owned())]);
    queue.confirm(2, now);
    assert!(queue.is_blocked());
    assert_eq!(queue.retry_at(), Some(now + FIRST_RETRY));
    let later = now + FIRST_RETRY;
    assert_eq!(due(&mut queue, later)[0].0, 0);
    assert!(!queue.is_blocked());
    queue.refuse(0, &full(), later);
    assert_eq!(queue.retry_at(), Some(later + 2 * FIRST_RETRY));
    assert_eq!(queue.refusals, 2);
    queue.forget_sent();
    due(&mut queue, later + LONGEST_RETRY);
    queue.confirm(0, later);
    assert!(queue.is_empty());
}

#[test]
fn an_end_comes_behind_everything_before_it() {
    let mut queue = queue(false);
    let now = Instant::now();
    queue.add_owed(message("a", 0));
    queue.add_owed(message("b", 1));
    queue.add_end();
    queue.add_owed(message("a", 2));
    assert_eq!(due(&mut queue, now).len(), 2);
    queue.confirm(1, now);
    assert!(due(&mut queue, now).is_empty());
    queue.confirm(0, now);
    let end = due(&mut queue, now);
    assert_eq!(end, [(2, "0.s.r.0.0.end".to_owned())]);
    queue.confirm(2, now);
    assert_eq!(due(&mut queue, now)[0].0, 3);
}

#[test]
fn nothing_is_sent_before_its_release() {
    let mut queue = queue(true);
    let now = Instant::now();
    queue.add_owed(message("a", 0));
    assert!(due(&mut queue, now).is_empty());
    assert!(!queue.is_sending());
    queue.release();
    queue.add_owed(message("a", 1));
    assert!(queue.is_sending());
    assert_eq!(due(&mut queue, now)[0].0, 0);
    queue.confirm(0, now);
    assert!(due(&mut queue, now).is_empty());
    assert!(!queue.is_sending());
    queue.release();
    assert_eq!(due(&mut queue, now)[0].0, 1);
}

#[test]
fn another_refusal_is_a_failure_until_a_batch_is_confirmed() {
    let mut queue = queue(false);
    let now = Instant::now();
    queue.add_owed(message("a", 0));
    due(&mut queue, now);
    queue.refuse(0, &Refusal { code: 503, text: "no stream".into() }, now);
    assert_eq!((queue.failure.as_deref(), queue.refusals), (Some("no stream"), 0));
    let later = now + REFUSED_RETRY;
    due(&mut queue, later);
    queue.confirm(0, later);
    assert_eq!(queue.failure, None);
}

#[test]
fn the_oldest_batch_on_its_way_is_the_one_that_is_missed() {
    let mut queue = queue(false);
    let now = Instant::now();
    for (subject, first) in [("a", 0), ("b", 1)] {
        queue.add_owed(message(subject, first));
    }
    due(&mut queue, now);
    assert_eq!(queue.unanswered_since(), Some(now));
    let later = now + Duration::from_secs(3);
    queue.confirm(1, later);
    queue.add_owed(message("b", 2));
    due(&mut queue, later);
    assert_eq!(queue.unanswered_since(), Some(now));
    queue.confirm(0, later);
    assert_eq!(queue.unanswered_since(), Some(later));
    queue.forget_sent();
    assert_eq!(queue.unanswered_since(), None);
}

#[test]
fn an_answer_to_an_earlier_copy_leaves_nothing_behind() {
    let mut queue = queue(false);
    let now = Instant::now();
    queue.add_owed(message("a", 0));
    due(&mut queue, now);
    queue.forget_sent();
    // It is ready to be sent again, and the first copy was stored.
    queue.confirm(0, now);
    queue.add_owed(message("a", 1));
    assert_eq!(due(&mut queue, now).len(), 1);
    queue.confirm(1, now);
    assert_eq!(queue.unanswered_since(), None);
    assert!(queue.is_empty());
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Add(u8),
    End,
    Release,
    /// The answer to one of those that are on their way.
    Confirm(u8),
    Refuse(u8),
    /// A connection is lost after the broker has stored this many of those on their way.
    Lose(u8),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let one = prop_oneof![
        6 => (0..5u8).prop_map(Event::Add),
        1 => Just(Event::End),
        2 => Just(Event::Release),
        6 => any::<u8>().prop_map(Event::Confirm),
        3 => any::<u8>().prop_map(Event::Refuse),
        1 => any::<u8>().prop_map(Event::Lose),
    ];
    prop::collection::vec(one, 0..120)
}

proptest! {
    /// Whatever the broker answers: each subject's batches are stored in their order, an end behind everything before
    /// it, and in the end nothing is left.
    #[test]
    fn every_batch_is_stored_in_order(events in events(), by_release in any::<bool>()) {
        let mut queue = queue(by_release);
        let mut now = Instant::now();
        let mut on_way: Vec<(u64, Message)> = Vec::new();
        // What the broker has stored, without what it has recognized as a duplicate.
        let mut stored: Vec<(u64, Arc<str>)> = Vec::new();
        let mut added = 0;
        let mut store = |number: u64, message: &Message| {
            if stored.iter().all(|(known, _)| *known != number) {
                stored.push((number, message.subject.clone()));
            }
        };
        let all_confirmed = std::iter::repeat_n([Event::Release, Event::Confirm(0)], 400).flatten();
        for event in events.into_iter().chain(all_confirmed) {
            now += Duration::from_millis(7);
            match event {
                Event::Add(subject) => {
                    queue.add_owed(message(&format!("s{subject}"), added));
                    added += 1;
                }
                Event::End => queue.add_end(),
                Event::Release => queue.release(),
                Event::Confirm(at) if !on_way.is_empty() => {
                    let (number, sent) = on_way.remove(usize::from(at) % on_way.len());
                    store(number, &sent);
                    queue.confirm(number, now);
                }
                Event::Refuse(at) if !on_way.is_empty() => {
                    let (number, _) = on_way.remove(usize::from(at) % on_way.len());
                    queue.refuse(number, &full(), now);
                }
                Event::Lose(count) => {
                    let kept = usize::from(count) % (on_way.len() + 1);
                    on_way.drain(..).take(kept).for_each(|(number, sent)| store(number, &sent));
                    queue.forget_sent();
                }
                Event::Confirm(_) | Event::Refuse(_) => {}
            }
            on_way.extend(queue.due(now + LONGEST_RETRY));
        }
        prop_assert!(queue.is_empty());
        prop_assert_eq!(stored.len() as u64, queue.number);
        let mut last: HashMap<Arc<str>, u64> = HashMap::new();
        for (at, (number, subject)) in stored.iter().enumerate() {
            prop_assert!(last.insert(subject.clone(), *number).is_none_or(|before| before < *number));
            if subject.contains("$end") {
                prop_assert!(stored[..at].iter().all(|(before, _)| before < number));
                prop_assert!(stored[at..].iter().all(|(behind, _)| behind >= number));
            }
        }
    }
}
