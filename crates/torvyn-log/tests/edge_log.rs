//! The two ends of an edge, with a host that has attributes.

use std::ptr::NonNull;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use torvyn_log::{Attributes, Bell, EdgeLog, Keys, Lane, Limits, LogReader, LogWriter, Marks, Restore};
use torvyn_stream::{
    Call, ContentName, Delivery, Element, Emission, Foreign, ForeignTable, Ledger, Outbox, Payload, Pull,
    Stage, StageError, Step,
};

static TABLE: ForeignTable = ForeignTable {
    retain: |_| {},
    release: |_| {},
    view: |_| (std::ptr::null(), 0, false),
    inherit: |_| None,
    bare: |_| None,
    stream: |_| Ok((std::ptr::null(), 0, 0)),
};

fn companion() -> Foreign {
    // SAFETY: the table never uses the pointer.
    unsafe { Foreign::from_owned(NonNull::dangling(), &TABLE) }
}

/// While it encodes, another thread looks at the log.
#[derive(Default)]
struct Host {
    log: Arc<OnceLock<Weak<EdgeLog>>>,
}

impl Attributes for Host {
    fn encode(&self, _: &Foreign, out: &mut Vec<u8>) -> Result<(), StageError> {
        if let Some(log) = self.log.get().and_then(Weak::upgrade) {
            let (tell, told) = channel();
            thread::spawn(move || tell.send(log.pending()));
            let seen = told.recv_timeout(Duration::from_secs(10));
            assert_ne!(seen, Err(RecvTimeoutError::Timeout), "the log is locked while the host encodes");
        }
        out.extend_from_slice(b"{}");
        Ok(())
    }

    fn decode(&self, _: &[u8]) -> Option<Foreign> {
        Some(companion())
    }

    fn mark(&self, _: Option<Foreign>, marks: Marks) -> Option<Foreign> {
        marks.is_historical.then(companion)
    }
}

fn limits(buffer_bytes: usize, pauses: bool) -> Limits {
    Limits { buffer_bytes, pauses, max_element_bytes: 100, batch_bytes: None }
}

fn new_log(host: Host) -> Arc<EdgeLog> {
    Arc::new(EdgeLog::new(Arc::new(Bell::default()), Box::new(host), 0, limits(200, true), None))
}

/// The first byte of an element is its key.
struct FirstByte;

impl Keys for FirstByte {
    fn key_of(&self, _: &Element, payload: &[u8]) -> Result<Arc<str>, StageError> {
        Ok(char::from(payload[0]).to_string().into())
    }
}

/// The keys and the elements of all batches that wait.
fn take_all(log: &EdgeLog) -> Vec<(Option<String>, u32)> {
    let batches = std::iter::from_fn(|| log.take());
    batches.map(|batch| (batch.key.as_deref().map(str::to_owned), batch.count)).collect()
}

fn element(payload: &[u8], companion: Option<Foreign>) -> Element {
    let (inner, content_type) = Payload::from_slice(payload).named(ContentName::BINARY);
    let len = payload.len() as u32;
    let emission = Emission { payload: inner, len, content_type, companion, delivery: Delivery::default() };
    Element::made(emission, 0, 0, 0)
}

fn write(writer: &mut LogWriter, payload: &[u8], companion: Option<Foreign>) -> Result<Step, StageError> {
    let ledger = Ledger::default();
    let call = Call { ledger: &ledger, now_ns: 0 };
    writer.accept(&mut element(payload, companion), call, &mut Outbox::default())
}

fn pull(reader: &mut LogReader, now_ns: u64) -> Pull {
    let ledger = Ledger::default();
    reader.pull(Call { ledger: &ledger, now_ns }).unwrap_or_else(|error| panic!("{}", error.message))
}

/// Emits until nothing is ready; returns how many, and until when it waits.
fn pull_all(reader: &mut LogReader, now_ns: u64) -> (usize, Option<u64>) {
    let mut count = 0;
    loop {
        match pull(reader, now_ns) {
            Pull::Ready(_) => count += 1,
            Pull::Pending(until) => return (count, until),
            _ => panic!("the log has not ended"),
        }
    }
}

/// A log whose reader has `count` elements of the time 0.
fn supplied(count: usize, how: Restore) -> Arc<EdgeLog> {
    let log =
        Arc::new(EdgeLog::new(Arc::default(), Box::new(Host::default()), 0, limits(1 << 20, false), None));
    let mut writer = LogWriter::new(log.clone());
    for _ in 0..count {
        assert!(write(&mut writer, b"x", None).is_ok());
    }
    let batch = log.take().unwrap_or_else(|| panic!("nothing was written"));
    assert_eq!(log.supply(&batch.body, batch.first, 0..u64::MAX, how), Ok(count));
    log
}

const BACKLOG: Restore = Restore { lane: Lane::Ordered, is_backlog: true, is_historical: true };
const LIVE: Restore = Restore { lane: Lane::Live, is_backlog: false, is_historical: false };
const SECOND: u64 = 1_000_000_000;

#[test]
fn the_log_is_free_while_the_host_encodes_attributes() {
    let host = Host::default();
    let slot = host.log.clone();
    let log = new_log(host);
    assert!(slot.set(Arc::downgrade(&log)).is_ok());

    assert!(write(&mut LogWriter::new(log.clone()), b"x", Some(companion())).is_ok());

    assert_eq!(log.pending().0, 1);
}

#[test]
fn a_writer_pauses_when_its_buffer_is_full() {
    let log = new_log(Host::default());
    let mut writer = LogWriter::new(log.clone());

    let steps: Vec<bool> =
        (0..3).map(|_| matches!(write(&mut writer, &[0; 60], None), Ok(Step::Pause))).collect();

    assert_eq!(steps, [false, false, true]);
    assert_eq!(log.take().map(|batch| batch.count), Some(3));
}

#[test]
fn an_element_that_is_too_large_is_refused_and_leaves_nothing() {
    let log = new_log(Host::default());

    assert!(write(&mut LogWriter::new(log.clone()), &[0; 101], None).is_err());

    assert_eq!(log.pending(), (0, 0));
}

#[test]
fn a_limited_reader_emits_the_elements_of_five_milliseconds_at_once() {
    let mut reader = LogReader::new(supplied(100, BACKLOG), 1000.0, false);
    let mut now_ns = SECOND;
    let mut counts = Vec::new();
    for _ in 0..5 {
        let (count, until) = pull_all(&mut reader, now_ns);
        counts.push(count);
        now_ns = until.unwrap_or(now_ns);
    }

    // The first begins the account; each of the others makes up for the five milliseconds before it.
    assert_eq!(counts, [1, 6, 6, 6, 6]);
}

#[test]
fn a_limited_reader_keeps_its_rate_when_turns_come_late() {
    let mut reader = LogReader::new(supplied(10_000, BACKLOG), 1000.0, false);
    let (mut now_ns, mut emitted) = (SECOND, 0);
    for late_ns in [0, 3_000_000, 50_000_000, 7_000_000].repeat(25) {
        let (count, until) = pull_all(&mut reader, now_ns);
        emitted += count;
        now_ns = until.unwrap_or(now_ns) + late_ns;
    }

    let seconds = (now_ns - SECOND) as f64 / 1e9;
    let rate = emitted as f64 / seconds;
    assert!((950.0..=1050.0).contains(&rate), "{rate} per second");
}

#[test]
fn what_waited_in_the_live_lane_through_an_outage_is_historical() {
    let mut reader = LogReader::new(supplied(2, LIVE), 0.0, false);
    let is_marked = |pulled: Pull| matches!(pulled, Pull::Ready(emission) if emission.companion.is_some());

    assert!(!is_marked(pull(&mut reader, SECOND / 2)));
    assert!(is_marked(pull(&mut reader, 2 * SECOND)));
}

fn timestamps(reader: &mut LogReader, count: usize) -> Vec<u64> {
    let each = |_| match pull(reader, SECOND) {
        Pull::Ready(_) => reader.restored_stamp().1,
        _ => panic!("an element is missing"),
    };
    (0..count).map(each).collect()
}

#[test]
fn elements_keep_their_time_in_the_flow_when_the_wall_clock_is_set() {
    const YEARS_NS: i64 = 56 * 365 * 86_400 * SECOND as i64;
    let log =
        Arc::new(EdgeLog::new(Arc::default(), Box::new(Host::default()), 5, limits(1 << 20, false), None));
    let mut writer = LogWriter::new(log.clone());
    log.set_offset_ns(100);
    assert!(write(&mut writer, b"a", None).is_ok());
    log.step_offset_ns(YEARS_NS);
    assert!(write(&mut writer, b"b", None).is_ok());
    let batch = log.take().unwrap_or_else(|| panic!("nothing was written"));

    assert_eq!(batch.newest_ns, YEARS_NS);
    assert_eq!(log.supply(&batch.body, batch.first, 0..u64::MAX, LIVE), Ok(2));
    assert_eq!(timestamps(&mut LogReader::new(log, 0.0, false), 2), [0, 0]);
}

#[test]
fn batches_keep_keys_apart_in_the_order_of_their_first_elements() {
    let keys = Some(Box::new(FirstByte) as Box<dyn Keys>);
    let limits = Limits { batch_bytes: Some(1 << 20), ..limits(1 << 20, true) };
    let log = Arc::new(EdgeLog::new(Arc::default(), Box::new(Host::default()), 0, limits, keys));
    let mut writer = LogWriter::new(log.clone());
    for payload in [b"b1", b"a1", b"b2", b"c1", b"b3"] {
        assert!(write(&mut writer, payload, None).is_ok());
    }
    assert_eq!(log.pending().0, 5);
    let expected = [("b", 3), ("a", 1), ("c", 1)].map(|(key, count)| (Some(key.to_owned()), count));
    assert_eq!(take_all(&log), expected);
    assert_eq!(log.pending(), (0, 0));
    assert!(write(&mut writer, b"a2", None).is_ok());
    assert_eq!(take_all(&log), [(Some("a".to_owned()), 1)]);
}

#[test]
fn a_batch_that_would_become_too_large_is_followed_by_another() {
    let limits = Limits { batch_bytes: Some(300), ..limits(1 << 20, true) };
    let log = Arc::new(EdgeLog::new(Arc::default(), Box::new(Host::default()), 0, limits, None));
    let mut writer = LogWriter::new(log.clone());
    for _ in 0..5 {
        assert!(write(&mut writer, &[7; 90], None).is_ok());
    }
    let batches: Vec<_> = std::iter::from_fn(|| log.take()).collect();
    assert_eq!(batches.iter().map(|batch| batch.count).sum::<u32>(), 5);
    assert!(batches.len() > 1 && batches.iter().all(|batch| batch.body.len() <= 300));
    assert_eq!(log.pending(), (0, 0));
}

#[test]
fn what_waits_for_the_reader_counts_with_its_attributes() {
    let log =
        Arc::new(EdgeLog::new(Arc::default(), Box::new(Host::default()), 0, limits(1 << 20, false), None));
    let mut writer = LogWriter::new(log.clone());
    for number in 0..10 {
        assert!(write(&mut writer, b"x", (number < 5).then(companion)).is_ok());
    }
    let batch = log.take().unwrap_or_else(|| panic!("nothing was written"));
    assert_eq!(log.supply(&batch.body, 0, 0..5, BACKLOG), Ok(5));
    let with_attributes = log.waiting().1;
    assert_eq!(log.supply(&batch.body, 0, 5..10, BACKLOG), Ok(5));
    let without = log.waiting().1 - with_attributes;

    assert_eq!(with_attributes - without, 5 * b"{}".len());
    let mut reader = LogReader::new(log.clone(), 0.0, false);
    assert_eq!(pull_all(&mut reader, SECOND).0, 10);
    assert_eq!(log.waiting(), (0, 0));
}

#[test]
fn a_range_is_taken_back_only_if_none_of_it_was_emitted() {
    for lane in [BACKLOG, LIVE] {
        let log = supplied(10, lane);
        let mut reader = LogReader::new(log.clone(), 0.0, false);
        assert!(matches!(pull(&mut reader, SECOND / 2), Pull::Ready(_)));

        assert!(!log.withdraw(0..4, 4));
        assert!(log.withdraw(4..6, 2));
        assert!(!log.withdraw(4..6, 2), "it does not wait any more");
        assert_eq!(log.waiting().0, 7);
        assert_eq!(log.withdraw_all(), [(1, 3), (6, 9)]);
        assert_eq!(log.waiting(), (0, 0));
        assert_eq!(log.live_bytes(), 0);
    }
}

#[test]
fn what_became_too_old_behind_the_reader_is_taken_once_and_in_runs() {
    let log = supplied(10, BACKLOG);
    let mut reader = LogReader::new(log.clone(), 0.0, false);
    assert_eq!(pull_all(&mut reader, SECOND).0, 10);
    [2, 3, 4, 7].into_iter().for_each(|sequence| reader.note_expired(sequence));
    reader.acknowledge(5);

    assert_eq!(log.take_expired(), [(2, 4), (7, 7)]);
    assert_eq!(log.take_expired(), []);
    assert_eq!(log.take_settled(), [(0, 4)]);
}
