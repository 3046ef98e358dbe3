use std::collections::HashMap;

use proptest::prelude::*;
use torvyn_log::decode;
use torvyn_stream::{ContentName, Delivery, Element, Emission, Foreign, Ledger, Outbox, Payload, Stage};

use super::*;
use crate::seen_batches::SeenBatches;

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

/// The host has no attributes, and the first byte of an element is its key.
struct Host;

impl torvyn_log::Attributes for Host {
    fn encode(&self, _: &Foreign, _: &mut Vec<u8>) -> Result<(), torvyn_stream::StageError> {
        Ok(())
    }

    fn decode(&self, _: &[u8]) -> Option<Foreign> {
        None
    }

    fn mark(&self, _: Option<Foreign>, _: torvyn_log::Marks) -> Option<Foreign> {
        None
    }
}

impl torvyn_log::Keys for Host {
    fn key_of(&self, _: &Element, payload: &[u8]) -> Result<Arc<str>, torvyn_stream::StageError> {
        Ok(char::from(payload[0]).to_string().into())
    }
}

fn log(batch_bytes: usize) -> Arc<EdgeLog> {
    let limits = torvyn_log::Limits {
        buffer_bytes: 1 << 20,
        pauses: true,
        max_element_bytes: 100,
        batch_bytes: Some(batch_bytes),
    };
    Arc::new(EdgeLog::new(Arc::default(), Box::new(Host), 0, limits, Some(Box::new(Host))))
}

fn write(log: &Arc<EdgeLog>, payload: &[u8]) {
    let (inner, content_type) = Payload::from_slice(payload).named(ContentName::BINARY);
    let len = payload.len() as u32;
    let emission =
        Emission { payload: inner, len, content_type, companion: None, delivery: Delivery::default() };
    let ledger = Ledger::default();
    let call = torvyn_stream::Call { ledger: &ledger, now_ns: 0 };
    let mut writer = torvyn_log::LogWriter::new(log.clone());
    let accepted = writer.accept(&mut Element::made(emission, 0, 0, 0), call, &mut Outbox::default());
    assert!(accepted.is_ok());
}

/// Keys `a` to `g`, in two partitions.
fn keyed_queue(by_release: bool, next: BTreeMap<u32, u64>) -> OutputQueue {
    let names = EdgeNames { prefix: "p".into(), partitions: 2 };
    let text = |text: &str| text.to_owned();
    let identity = Identity { writer: 0, series: text("s"), generation: text("g1"), run: text("r") };
    OutputQueue::new(names, identity, next, by_release)
}

#[test]
fn batches_of_many_keys_leave_in_one_message() {
    let (mut queue, log, now) = (keyed_queue(false, BTreeMap::new()), log(1 << 16), Instant::now());
    queue.names.partitions = 1;
    for payload in [b"a0", b"b0", b"a1", b"c0"] {
        write(&log, payload);
    }
    assert!(queue.take_all(&log));
    let sent = queue.due(now);
    assert_eq!(sent.len(), 1);
    assert_eq!((&*sent[0].1.subject, &*sent[0].1.id), ("p.0._", "0.s.g1.0.0.4"));
    let texts = |body: &Bytes| decode(body).map(|all| all.iter().map(|one| one.payload.to_vec()).collect());
    let expected = [b"a0", b"a1", b"b0", b"c0"].map(|each| each.to_vec()).to_vec();
    assert_eq!(texts(&sent[0].1.body), Ok(expected));
    // What comes meanwhile waits for the answer, and is then one message as well.
    for payload in [b"c1", b"a2"] {
        write(&log, payload);
    }
    assert!(!queue.wants(&log));
    queue.confirm(sent[0].0, now);
    assert_eq!(queue.confirmed, 4);
    assert!(queue.wants(&log) && queue.take_all(&log));
    assert_eq!(due(&mut queue, now), [(3, "0.s.g1.0.4.2".to_owned())]);
}

#[test]
fn batches_go_apart_for_a_while_after_they_were_refused_together() {
    let (mut queue, log, now) = (keyed_queue(false, BTreeMap::new()), log(1 << 16), Instant::now());
    queue.names.partitions = 1;
    let send = |queue: &mut OutputQueue, payloads: &[&[u8]], now: Instant| {
        payloads.iter().for_each(|payload| write(&log, payload));
        queue.take_all(&log);
        let subjects: Vec<String> =
            queue.due(now).into_iter().map(|(_, message)| message.subject.to_string()).collect();
        subjects
    };
    assert_eq!(send(&mut queue, &[b"a0", b"b0"], now), ["p.0._"]);
    queue.refuse(0, &full(), now);
    assert_eq!(send(&mut queue, &[b"c0"], now), ["p.0.a", "p.0.b", "p.0.c"]);
    (0..3).for_each(|number| _ = queue.confirm(number, now));
    // The pause has passed, and the next one is longer.
    let later = now + FIRST_APART;
    assert!(queue.due(later).is_empty());
    assert_eq!(send(&mut queue, &[b"a1", b"b1"], later), ["p.0._"]);
    queue.refuse(3, &full(), later);
    assert_eq!(queue.apart[&0].1, 2 * FIRST_APART);
}

/// What the broker has stored, and what its reader makes of it.
#[derive(Default)]
struct Broker {
    seen: SeenBatches,
    read: Vec<Vec<u8>>,
}

impl Broker {
    fn store(&mut self, message: &Message) {
        let id = BatchId::parse(&message.id).expect("an id");
        if !id.is_end() && self.seen.add(&id) {
            let elements = decode(&message.body).expect("a batch");
            assert_eq!(elements.len() as u32, id.elements);
            self.read.extend(elements.iter().map(|one| one.payload.to_vec()));
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum KeyedEvent {
    /// So many elements of a key.
    Write(u8, u8),
    Take,
    Queue(Event),
    /// The process dies after the broker has stored this many of those on their way; the next one owes the rest.
    Restart(u8),
}

fn keyed_events() -> impl Strategy<Value = Vec<KeyedEvent>> {
    let queue = prop_oneof![
        1 => Just(Event::End),
        2 => Just(Event::Release),
        6 => any::<u8>().prop_map(Event::Confirm),
        4 => any::<u8>().prop_map(Event::Refuse),
        1 => any::<u8>().prop_map(Event::Lose),
    ];
    let one = prop_oneof![
        8 => (0..7u8, 1..6u8).prop_map(|(key, count)| KeyedEvent::Write(key, count)),
        5 => Just(KeyedEvent::Take),
        14 => queue.prop_map(KeyedEvent::Queue),
        1 => any::<u8>().prop_map(KeyedEvent::Restart),
    ];
    prop::collection::vec(one, 0..160)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Whatever the broker answers, and whichever answers are lost: the reader gets every element once, and those of a
    /// key in their order, whether they went together or apart.
    #[test]
    fn every_element_is_read_once_and_in_the_order_of_its_key(
        events in keyed_events(),
        by_release in any::<bool>(),
        batch_bytes in prop_oneof![Just(60usize), Just(200), Just(1 << 16)],
    ) {
        let (mut queue, log) = (keyed_queue(by_release, BTreeMap::new()), log(batch_bytes));
        let (mut broker, mut now) = (Broker::default(), Instant::now());
        let mut on_way: Vec<(u64, Message)> = Vec::new();
        let mut written: HashMap<u8, Vec<Vec<u8>>> = HashMap::new();
        let mut total = 0u32;
        let finish = [
            KeyedEvent::Take,
            KeyedEvent::Queue(Event::Release),
            KeyedEvent::Queue(Event::Confirm(0)),
        ];
        let finish = std::iter::repeat_n(finish, 600).flatten();
        for event in events.into_iter().chain(finish) {
            now += Duration::from_millis(7);
            match event {
                KeyedEvent::Write(key, count) => {
                    for _ in 0..count {
                        total += 1;
                        let payload = format!("{}{total}", char::from(b'a' + key)).into_bytes();
                        write(&log, &payload);
                        written.entry(key).or_default().push(payload);
                    }
                }
                KeyedEvent::Take => _ = queue.take_all(&log),
                KeyedEvent::Queue(Event::End) => queue.add_end(),
                KeyedEvent::Queue(Event::Release) => queue.release(),
                KeyedEvent::Queue(Event::Confirm(at)) if !on_way.is_empty() => {
                    let (number, sent) = on_way.remove(usize::from(at) % on_way.len());
                    broker.store(&sent);
                    queue.confirm(number, now);
                }
                KeyedEvent::Queue(Event::Refuse(at)) if !on_way.is_empty() => {
                    let (number, _) = on_way.remove(usize::from(at) % on_way.len());
                    queue.refuse(number, &full(), now);
                }
                KeyedEvent::Queue(Event::Lose(count)) => {
                    let kept = usize::from(count) % (on_way.len() + 1);
                    on_way.drain(..).take(kept).for_each(|(_, sent)| broker.store(&sent));
                    queue.forget_sent();
                }
                KeyedEvent::Restart(count) if by_release => {
                    let kept = usize::from(count) % (on_way.len() + 1);
                    on_way.drain(..).take(kept).for_each(|(_, sent)| broker.store(&sent));
                    let (owed, next) = (queue.owed(false), queue.next.clone());
                    queue = keyed_queue(by_release, next);
                    owed.into_iter().for_each(|message| queue.add_owed(message));
                }
                KeyedEvent::Queue(_) | KeyedEvent::Restart(_) => {}
            }
            prop_assert!(queue.waiting_bytes > 0 || queue.batches.values().all(|batch| batch.count == 0));
            on_way.extend(queue.due(now + LONGEST_RETRY));
        }
        prop_assert!(queue.is_empty() && queue.waiting_bytes == 0 && on_way.is_empty());
        prop_assert!(queue.in_flight.is_empty());
        let mut read: HashMap<u8, Vec<Vec<u8>>> = HashMap::new();
        for payload in broker.read {
            read.entry(payload[0] - b'a').or_default().push(payload);
        }
        prop_assert_eq!(read, written);
        prop_assert_eq!(broker.seen.missing(None), 0);
    }
}
