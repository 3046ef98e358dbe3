//! The end of an edge that publishes. Its task takes batches from the log, sends them and reads the answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::{HeaderMap, HeaderValue, Subscriber};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::Notify;
use torvyn_log::{Bell, EdgeLog, FlowEnd};

use crate::answers::{Refusal, read_answer};
use crate::attached::Attached;
use crate::connection::{ANSWER_TIMEOUT, Connection};
use crate::output_queue::{Message, OutputQueue};

/// A loop that has nothing to wait for looks again after this time.
const IDLE: Duration = Duration::from_secs(60);

/// How far the broker is.
#[derive(Debug, PartialEq, Eq)]
pub enum Published {
    Done,
    /// A subject is full: its reader must make room.
    Full,
    Away,
    /// The server refuses a batch although there is room.
    Refused(String),
}

pub struct Output {
    queue: Mutex<OutputQueue>,
    /// Somebody who waits for the broker looks again.
    changed: Condvar,
    log: Arc<EdgeLog>,
    /// Rung when its owner has something to do.
    owner: Arc<Bell>,
    notify: Notify,
    end: Attached,
    /// Whether its task takes what waits in the log; otherwise its owner does.
    takes: bool,
    connection: Connection,
    stop: Notify,
    /// Its owner has waited in vain, and wants to know when everything is confirmed.
    is_awaited: AtomicBool,
}

impl Output {
    pub fn new(
        queue: OutputQueue,
        log: Arc<EdgeLog>,
        owner: Arc<Bell>,
        takes: bool,
        connection: Connection,
    ) -> Arc<Self> {
        let output = Arc::new(Self {
            queue: Mutex::new(queue),
            changed: Condvar::new(),
            log,
            owner,
            notify: Notify::new(),
            end: Attached::default(),
            takes,
            connection,
            stop: Notify::new(),
            is_awaited: AtomicBool::new(false),
        });
        if takes {
            let listener = Arc::downgrade(&output);
            output.log.bell.listen(move || {
                if let Some(output) = listener.upgrade() {
                    output.notify.notify_one();
                }
            });
        }
        output.connection.runtime.spawn(output.clone().run());
        output
    }

    pub fn attach(&self, end: Box<dyn FlowEnd>) {
        self.end.set(end);
        self.notify.notify_one();
    }

    pub fn queue(&self) -> MutexGuard<'_, OutputQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends its task; what waits stays.
    pub fn stop(&self) {
        self.stop.notify_one();
    }

    /// Takes all batches that wait in the log.
    pub fn take_all(&self) {
        self.queue().take_all(&self.log);
        self.end.resume();
        self.notify.notify_one();
    }

    /// Says that the stream has ended, behind everything that waits.
    pub fn add_end(&self) {
        self.queue().add_end();
        self.notify.notify_one();
    }

    /// Everything that waits now may be sent.
    pub fn release(&self) {
        self.queue().release();
        self.notify.notify_one();
    }

    /// Waits until everything that may be sent is confirmed, or there is a reason why it is not. Then the owner is told
    /// when it is.
    pub fn wait(&self, timeout: Duration) -> Published {
        let published = self.wait_for_answers(timeout);
        self.is_awaited.store(published != Published::Done, Ordering::Release);
        published
    }

    fn wait_for_answers(&self, timeout: Duration) -> Published {
        let began = Instant::now();
        let mut queue = self.queue();
        loop {
            if !queue.is_sending() {
                return Published::Done;
            }
            if let Some(text) = &queue.failure {
                return Published::Refused(text.clone());
            }
            if queue.is_blocked() {
                return Published::Full;
            }
            // From the last answer on: a slow broker is not away.
            let deadline = queue.heard_at.map_or(began, |heard| heard.max(began)) + timeout;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.connection.is_connected() {
                return Published::Away;
            }
            let waited = self.changed.wait_timeout(queue, left);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    async fn run(self: Arc<Self>) {
        let inbox = self.connection.client.new_inbox();
        let Ok(mut answers) = self.connection.client.subscribe(format!("{inbox}.*")).await else { return };
        let mut state = self.connection.state.clone();
        let mut epoch = state.borrow().epoch;
        loop {
            self.send_due(&inbox).await;
            tokio::select! {
                () = self.notify.notified() => {}
                answer = answers.next() => {
                    let Some(answer) = answer else { return };
                    self.read_answers(answer, &mut answers);
                }
                changed = state.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let now = *state.borrow_and_update();
                    if !now.is_connected || now.epoch != epoch {
                        epoch = now.epoch;
                        self.queue().forget_sent();
                    }
                    self.changed.notify_all();
                }
                () = tokio::time::sleep(self.pause()) => {}
                () = self.stop.notified() => return,
            }
        }
    }

    /// How long there is nothing to do unless something happens.
    fn pause(&self) -> Duration {
        if !self.connection.is_connected() {
            return IDLE;
        }
        let mut queue = self.queue();
        let now = Instant::now();
        let retry = queue.retry_at().map(|at| at.saturating_duration_since(now));
        let within = self.connection.patience.answer;
        let unanswered =
            queue.unanswered_since().map(|since| (since + within).saturating_duration_since(now));
        retry.into_iter().chain(unanswered).min().unwrap_or(IDLE)
    }

    async fn send_due(&self, inbox: &str) {
        while self.connection.is_connected() {
            if self.forget_unanswered() {
                let _ = self.connection.client.force_reconnect().await;
                break;
            }
            let (due, has_taken) = {
                let mut queue = self.queue();
                let now = Instant::now();
                let may_take = self.takes && self.end.is_set() && queue.wants(&self.log);
                let has_taken = may_take && queue.take_all(&self.log);
                (queue.due(now), has_taken)
            };
            if has_taken && self.log.take_pause() {
                self.end.resume();
            }
            if due.is_empty() {
                break;
            }
            for (number, message) in due {
                self.send(inbox, number, message).await;
            }
        }
        if self.takes && self.log.is_closed() && self.log.pending().0 == 0 && self.queue().is_empty() {
            self.owner.ring();
        }
    }

    /// What the server does not confirm is sent again: a stream that has lost its leader does not answer. Returns
    /// whether the connection is to be given up.
    fn forget_unanswered(&self) -> bool {
        let mut queue = self.queue();
        let within = self.connection.patience.answer;
        if queue.unanswered_since().is_none_or(|since| since.elapsed() < within) {
            return false;
        }
        queue.forget_sent();
        queue.repeats += 1;
        let is_lost = within * queue.repeats >= ANSWER_TIMEOUT;
        if is_lost {
            queue.repeats = 0;
            queue.failure = Some("the server does not confirm messages".into());
        }
        is_lost
    }

    async fn send(&self, inbox: &str, number: u64, message: Message) {
        let Message { subject, id, body } = message;
        let mut headers = HeaderMap::new();
        headers.insert(NATS_MESSAGE_ID, HeaderValue::from(id));
        let client = &self.connection.client;
        let reply = format!("{inbox}.{number}");
        let subject = String::from(&*subject);
        if let Err(error) = client.publish_with_reply_and_headers(subject, reply, headers, body).await {
            // It is too large for the server, or the connection was closed: there will be no answer.
            let refusal = Refusal { code: 0, text: error.to_string() };
            self.queue().refuse(number, &refusal, Instant::now());
            self.changed.notify_all();
            self.owner.ring();
        }
    }

    fn read_answers(&self, first: async_nats::Message, answers: &mut Subscriber) {
        let mut is_waited_for = false;
        let mut queue = self.queue();
        let mut next = Some(first);
        while let Some(answer) = next {
            is_waited_for |= read_one(&mut queue, &answer.subject, &answer.payload);
            next = answers.next().now_or_never().flatten();
        }
        let is_failed = queue.failure.is_some();
        let is_done = !queue.is_sending();
        drop(queue);
        self.changed.notify_all();
        if is_waited_for {
            self.end.wake();
        }
        if is_failed || is_done && self.is_awaited.swap(false, Ordering::AcqRel) {
            self.owner.ring();
        }
    }
}

/// Returns whether somebody waited for the batch to become durable.
fn read_one(queue: &mut OutputQueue, subject: &str, body: &Bytes) -> bool {
    let number = subject.rsplit('.').next().and_then(|number| number.parse().ok());
    let Some(number) = number else { return false };
    let now = Instant::now();
    match read_answer(body) {
        Ok(()) => queue.confirm(number, now),
        Err(refusal) => {
            queue.refuse(number, &refusal, now);
            false
        }
    }
}
