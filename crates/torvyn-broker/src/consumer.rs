//! Reads a stream in order, from a position on, and as fast as its reader makes room.
//!
//! The server forgets the consumer when the connection ends; the next one continues behind the last message. A consumer
//! that has missed a message is made anew.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use async_nats::header::NATS_MESSAGE_ID;
use async_nats::{Message, Subscriber};
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::answers::read_answer;
use crate::connection::Connection;
use crate::input::{Input, InputOptions, WINDOW_BYTES};

/// How long the server keeps a request for messages.
const EXPIRES: Duration = Duration::from_secs(30);
const MOST_MESSAGES: usize = 1024;
/// The size of messages before any has come.
const LARGE_BYTES: f64 = 256.0 * 1024.0;
/// What a message has besides its body.
const HEAD_BYTES: usize = 256;
/// The longest that a consumer may be silent before it is made anew.
const LONGEST_SILENCE: Duration = Duration::from_secs(15);
/// How many more consumers than one are asked for at once, once nobody has answered; those that are not used are
/// forgotten by the server.
const MOST_TRIES: usize = 3;
const RETRY: Duration = Duration::from_millis(250);
/// How long the server keeps a consumer that nobody uses.
const INACTIVE: Duration = Duration::from_secs(60);
/// A burst is handed over in pieces, so that the reader begins before it has all come.
const MOST_AT_ONCE: usize = 64;

/// Why a consumer is not used any more.
enum Ended {
    /// Its reader has stopped.
    Stopped,
    /// It has missed a message, or is gone.
    Broken,
    /// Nobody answers: its server may be lost.
    Silent,
}

pub(crate) struct Consumer {
    connection: Connection,
    options: InputOptions,
    /// The first message that was not received.
    next: u64,
    size_bytes: f64,
    /// Messages that were requested and have not come.
    requested: usize,
    /// How many messages this consumer has delivered, and how many of the stream it has not.
    delivered: u64,
    pending: u64,
    /// How many requests for a consumer in a row were not answered.
    unanswered: usize,
    heard_at: Instant,
    /// How long it may be silent before it is made anew: twice as long behind one that has delivered nothing, because
    /// the server may be busy.
    silence: Duration,
}

/// What became of a request.
enum Asked<T> {
    Answered(T),
    Unanswered,
    Refused(String),
}

#[derive(Deserialize)]
struct MadeConsumer {
    name: String,
    #[serde(default)]
    num_pending: u64,
}

#[derive(Deserialize)]
struct FoundStream {
    created: String,
}

impl Consumer {
    pub fn new(connection: Connection, options: InputOptions, start: u64) -> Self {
        let silence = connection.patience.silence();
        Self {
            connection,
            options,
            next: start.max(1),
            size_bytes: LARGE_BYTES,
            requested: 0,
            delivered: 0,
            pending: 0,
            unanswered: 0,
            heard_at: Instant::now(),
            silence,
        }
    }

    pub async fn run(mut self, input: Arc<Input>) {
        loop {
            let mut state = self.connection.state.clone();
            let connected = state.wait_for(|state| state.is_connected);
            let epoch = tokio::select! {
                found = connected => match found {
                    Ok(found) => found.epoch,
                    Err(_) => return,
                },
                () = input.stop.notified() => return,
            };
            let ended = self.consume(&input, epoch).await;
            input.note_caught_up(false);
            match ended {
                Ended::Stopped => return,
                // It has waited already.
                Ended::Silent => continue,
                Ended::Broken => {}
            }
            let is_same = *self.connection.state.borrow();
            if is_same.is_connected && is_same.epoch == epoch {
                tokio::select! {
                    () = tokio::time::sleep(RETRY) => {}
                    () = input.stop.notified() => return,
                }
            }
        }
    }

    /// One consumer, until something is wrong with it.
    async fn consume(&mut self, input: &Input, epoch: u64) -> Ended {
        let client = self.connection.client.clone();
        let inbox = client.new_inbox();
        let Ok(mut messages) = client.subscribe(inbox.clone()).await else { return Ended::Broken };
        (self.requested, self.delivered) = (0, 0);
        let made = self.make().await;
        self.unanswered = if matches!(made, Asked::Unanswered) { self.unanswered + 1 } else { 0 };
        let name = match made {
            Asked::Answered(made) => {
                self.pending = made.num_pending;
                made.name
            }
            Asked::Unanswered => return Ended::Silent,
            Asked::Refused(reason) => {
                input.note_refusal(reason);
                return Ended::Broken;
            }
        };
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{name}", self.options.stream);
        self.heard_at = Instant::now();
        let mut state = self.connection.state.clone();
        loop {
            if let Some(request) = self.request(input) {
                let sent = client.publish_with_reply(subject.clone(), inbox.clone(), request.into()).await;
                if sent.is_err() {
                    return Ended::Broken;
                }
            }
            input.note_caught_up(self.pending == 0 && self.requested > 0);
            tokio::select! {
                message = messages.next() => {
                    let Some(message) = message else { return Ended::Broken };
                    if !self.receive_all(input, &inbox, message, &mut messages) {
                        return Ended::Broken;
                    }
                }
                () = input.notify.notified() => {}
                changed = state.changed() => {
                    if changed.is_err() || state.borrow_and_update().epoch != epoch {
                        return Ended::Broken;
                    }
                }
                () = tokio::time::sleep(self.silence_left()) => {
                    if self.requested > 0 && self.heard_at.elapsed() >= self.silence {
                        self.note_silence();
                        return Ended::Silent;
                    }
                }
                () = input.stop.notified() => return Ended::Stopped,
            }
        }
    }

    /// When it is to be looked at again, if nothing happens.
    fn silence_left(&self) -> Duration {
        let left = self.silence.saturating_sub(self.heard_at.elapsed());
        if self.requested > 0 { left } else { left.max(self.connection.patience.heartbeat) }
    }

    fn note_silence(&mut self) {
        let first = self.connection.patience.silence();
        self.silence = if self.delivered > 0 { first } else { (2 * first).min(LONGEST_SILENCE) };
    }

    async fn make(&self) -> Asked<MadeConsumer> {
        let stream = &self.options.stream;
        // Another stream of the name has other numbers: its messages would be skipped.
        match self.ask::<FoundStream>(format!("$JS.API.STREAM.INFO.{stream}"), String::new()).await {
            Asked::Answered(found) if found.created == self.options.created => {}
            Asked::Answered(_) => return Asked::Refused("the stream was deleted, and made again".into()),
            Asked::Unanswered => return Asked::Unanswered,
            Asked::Refused(reason) => return Asked::Refused(reason),
        }
        let mut config = json!({
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self.next,
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": INACTIVE.as_nanos() as u64,
            "num_replicas": 1,
            "mem_storage": true,
        });
        match self.options.subjects.as_slice() {
            [] => {}
            [one] => config["filter_subject"] = json!(one),
            several => config["filter_subjects"] = json!(several),
        }
        let request = json!({ "stream_name": stream, "config": config }).to_string();
        // A cluster may place a consumer on a server that is lost, which it does not know yet: then nobody answers.
        let subject = format!("$JS.API.CONSUMER.CREATE.{stream}");
        let tries = (0..=self.unanswered.min(MOST_TRIES)).map(|_| self.ask(subject.clone(), request.clone()));
        let mut tries: FuturesUnordered<_> = tries.collect();
        let mut asked = Asked::Unanswered;
        while let (Asked::Unanswered, Some(next)) = (&asked, tries.next().await) {
            asked = next;
        }
        asked
    }

    async fn ask<T: DeserializeOwned>(&self, subject: String, request: String) -> Asked<T> {
        let asked = self.connection.client.request(subject, request.into());
        let Ok(Ok(answer)) = tokio::time::timeout(self.connection.patience.answer, asked).await else {
            return Asked::Unanswered;
        };
        if let Err(refusal) = read_answer(&answer.payload) {
            return Asked::Refused(refusal.text);
        }
        match serde_json::from_slice(&answer.payload) {
            Ok(found) => Asked::Answered(found),
            Err(error) => Asked::Refused(error.to_string()),
        }
    }

    /// Asks for as many messages as there is room for.
    fn request(&mut self, input: &Input) -> Option<String> {
        // Before the room is looked up: the reader may make some meanwhile.
        input.is_short.store(true, Ordering::Release);
        let room = input.room_bytes();
        // A message that is larger than all of the room comes alone.
        let most_in = |bytes: usize| ((bytes as f64 / self.size_bytes) as usize).clamp(1, MOST_MESSAGES);
        let most = most_in(room);
        if room == 0 || self.requested > most / 2 {
            input.is_short.store(self.requested <= most_in(WINDOW_BYTES) / 2, Ordering::Release);
            return None;
        }
        let count = most - self.requested;
        self.requested += count;
        // Sizes are guessed from those before. The server stops earlier if that is wrong, and any message fits.
        let max_bytes = room.max(self.connection.client.max_payload() + HEAD_BYTES);
        let (expires, heartbeat) =
            (EXPIRES.as_nanos() as u64, self.connection.patience.heartbeat.as_nanos() as u64);
        let request = json!({
            "batch": count, "max_bytes": max_bytes, "expires": expires, "idle_heartbeat": heartbeat,
        });
        Some(request.to_string())
    }

    /// Takes the messages that have come; false if something is wrong.
    fn receive_all(&mut self, input: &Input, inbox: &str, first: Message, messages: &mut Subscriber) -> bool {
        self.heard_at = Instant::now();
        let (mut message, mut has_news, mut is_right) = (first, false, true);
        for left in (0..MOST_AT_ONCE).rev() {
            is_right = if &*message.subject == inbox {
                self.note_status(&message)
            } else {
                self.receive(input, &message, &mut has_news)
            };
            if !is_right || left == 0 {
                break;
            }
            let Some(Some(next)) = messages.next().now_or_never() else { break };
            message = next;
        }
        if has_news {
            input.wake();
        }
        is_right
    }

    fn receive(&mut self, input: &Input, message: &Message, has_news: &mut bool) -> bool {
        let Some((sequence, delivered, pending)) = message.reply.as_deref().and_then(numbers) else {
            return false;
        };
        if delivered != self.delivered + 1 {
            // One was lost on the way, or this comes from an earlier consumer.
            return false;
        }
        (self.delivered, self.pending) = (delivered, pending);
        self.requested = self.requested.saturating_sub(1);
        self.next = sequence + 1;
        self.size_bytes += ((message.payload.len() + HEAD_BYTES) as f64 - self.size_bytes) / 8.0;
        let headers = message.headers.as_ref();
        let id = headers.and_then(|headers| headers.get(NATS_MESSAGE_ID)).map_or("", |id| id.as_str());
        *has_news |= input.receive(sequence, id, &message.payload);
        true
    }

    /// A message of the server itself; false if the consumer is gone.
    fn note_status(&mut self, message: &Message) -> bool {
        let status = message.status.map_or(0, |status| status.as_u16());
        if status == 100 {
            return true;
        }
        let headers = message.headers.as_ref();
        let left = headers.and_then(|headers| headers.get("Nats-Pending-Messages"));
        if status == 408 || left.is_some() {
            let left = left.and_then(|left| left.as_str().parse().ok());
            self.requested = left.map_or(0, |left: usize| self.requested.saturating_sub(left));
            return true;
        }
        false
    }
}

/// The number of the message in its stream, how many the consumer has delivered with it, and how many it has not.
fn numbers(reply: &str) -> Option<(u64, u64, u64)> {
    let parts: Vec<&str> = reply.split('.').collect();
    // Newer servers put the domain and the account before the stream.
    let at = if parts.len() < 11 { 5 } else { 7 };
    let number = |at: usize| parts.get(at)?.parse().ok();
    Some((number(at)?, number(at + 1)?, number(at + 3)?))
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn the_numbers_of_a_message_are_in_its_reply_subject() {
        assert_eq!(numbers("$JS.ACK.S.C.1.17.4.1700000000.0"), Some((17, 4, 0)));
        assert_eq!(numbers("$JS.ACK._.acc.S.C.1.17.4.1700000000.9.x"), Some((17, 4, 9)));
        assert_eq!(numbers("$JS.ACK"), None);
    }
}
