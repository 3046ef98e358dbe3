//! The end of an edge that reads: messages of the broker become elements of the flow.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::sync::Notify;
use torvyn_log::{Bell, EdgeLog, FlowEnd, Lane, Restore};

use crate::attached::Attached;
use crate::batch_id::BatchId;
use crate::connection::Connection;
use crate::consumer::Consumer;
use crate::read_messages::{Judged, ReadMessages};

/// What may wait in memory for the reader.
pub(crate) const WINDOW_BYTES: usize = 1024 * 1024;

/// Called when a writer has ended, and when a message is damaged.
pub trait OnEnd: Send + Sync {
    /// Returns whether the run is over: then nothing more is read.
    fn ended(&self, batch: &BatchId) -> bool;
    fn damaged(&self, sequence: u64, reason: String);
    /// The server lets nobody read.
    fn refused(&self, reason: String);
}

/// What is read: all subjects of the stream if there are none.
pub struct InputOptions {
    pub stream: String,
    /// When the stream was made: another one of the name is not read.
    pub created: String,
    pub subjects: Vec<String>,
}

pub struct Input {
    read: Mutex<ReadMessages>,
    log: Arc<EdgeLog>,
    pub(crate) notify: Notify,
    pub(crate) stop: Notify,
    end: Attached,
    /// What is added to the numbers of elements: which of the edges into the segment it is.
    lane: u64,
    on_end: Box<dyn OnEnd>,
    is_over: AtomicBool,
    /// Whether more would be asked for if there were more room: only then the reader tells that it has made some.
    pub(crate) is_short: AtomicBool,
    is_caught_up: AtomicBool,
}

impl Input {
    /// `owner` is rung when there may be something to save.
    pub fn new(
        read: ReadMessages,
        log: Arc<EdgeLog>,
        owner: Arc<Bell>,
        lane: u64,
        on_end: Box<dyn OnEnd>,
    ) -> Arc<Self> {
        let input = Arc::new(Self {
            read: Mutex::new(read),
            log,
            notify: Notify::new(),
            stop: Notify::new(),
            end: Attached::default(),
            lane,
            on_end,
            is_over: false.into(),
            is_short: false.into(),
            is_caught_up: false.into(),
        });
        let listener = Arc::downgrade(&input);
        input.log.bell.listen(move || {
            owner.ring();
            if let Some(input) = listener.upgrade().filter(|input| input.is_short.load(Ordering::Acquire)) {
                input.notify.notify_one();
            }
        });
        input
    }

    pub fn attach(&self, end: Box<dyn FlowEnd>) {
        self.end.set(end);
    }

    /// Begins to read.
    pub fn start(self: &Arc<Self>, connection: Connection, options: InputOptions) {
        let start = self.read().start();
        let runtime = connection.runtime.clone();
        runtime.spawn(Consumer::new(connection, options, start).run(self.clone()));
    }

    /// Ends reading.
    pub fn stop(&self) {
        self.stop.notify_one();
    }

    pub fn read(&self) -> MutexGuard<'_, ReadMessages> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The run is over: nothing more is read, and the reader ends when it has emitted what waits.
    pub fn finish(&self) {
        self.is_over.store(true, Ordering::Release);
        self.log.finish();
        self.end.wake();
    }

    /// Whether everything was read that the stream has.
    pub fn is_caught_up(&self) -> bool {
        self.is_caught_up.load(Ordering::Acquire)
    }

    pub(crate) fn note_caught_up(&self, is_caught_up: bool) {
        self.is_caught_up.store(is_caught_up, Ordering::Release);
    }

    /// A writer has ended, and the message that says so is gone from the stream.
    pub fn note_lost_end(&self, batch: &BatchId) {
        if self.is_over() {
            return;
        }
        self.read().add_lost_end(batch);
        if self.on_end.ended(batch) {
            self.finish();
        }
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    pub(crate) fn wake(&self) {
        self.end.wake();
    }

    pub(crate) fn note_refusal(&self, reason: String) {
        self.on_end.refused(reason);
    }

    pub(crate) fn room_bytes(&self) -> usize {
        // The next run reads what comes behind the end.
        if self.is_over() { 0 } else { WINDOW_BYTES.saturating_sub(self.log.waiting().1) }
    }

    /// Takes a message; returns whether there is something new to read.
    pub(crate) fn receive(&self, sequence: u64, id: &str, body: &Bytes) -> bool {
        if self.is_over() {
            return false;
        }
        // Without the lock in what follows: its owner may hold what a callback or a decoder waits for.
        let judged = self.read().judge(sequence, id);
        match judged {
            Judged::Skip => false,
            Judged::End(batch) => {
                if self.on_end.ended(&batch) {
                    self.finish();
                }
                false
            }
            Judged::Supply { first, start } => self.supply(sequence, body, first, start),
        }
    }

    fn supply(&self, sequence: u64, body: &Bytes, first: u64, start: u64) -> bool {
        let how = Restore { lane: Lane::Ordered, is_backlog: false, is_historical: false };
        let is_own = self.read().is_own();
        match self.log.supply(body, self.lane + first, self.lane + start..u64::MAX, how) {
            Ok(count) => {
                self.read().note_supplied(count as u64, is_own);
                true
            }
            Err(error) => {
                self.read().note_corrupt();
                self.on_end.damaged(sequence, error.to_string());
                false
            }
        }
    }
}
