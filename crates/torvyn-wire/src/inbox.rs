//! The messages of a client, between the connection that reads them and the program that takes them.
//!
//! The connection asks for room before it reads on, so a program that takes nothing stops the client, and not only the
//! queue. An inbox that is empty has no memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;

use crate::events::{Event, Events};
use crate::reactor::lock;

/// At so many messages, or so many bytes, the connection stops reading. The message that crosses the limit is kept, so
/// the most that waits is this and one message of the largest size.
const MAX_MESSAGES: usize = 32;
const MAX_BYTES: usize = 64 * 1024;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// UTF-8.
    Text(Bytes),
    Data(Bytes),
}

impl Message {
    pub fn len(&self) -> usize {
        match self {
            Self::Text(data) | Self::Data(data) => data.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Why no more messages come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The client has said that it sends no more.
    Complete,
    /// The client has left without a word.
    Left,
    TooLarge,
    Malformed,
    /// A text is not UTF-8.
    BadText,
    /// A message was begun and not completed in time.
    Slow,
}

#[derive(Default)]
struct State {
    messages: VecDeque<Message>,
    bytes: usize,
    end: Option<End>,
    /// Whether the program has found nothing, and waits.
    is_wanted: bool,
    /// Whether the program takes no more.
    is_closed: bool,
    /// The connection, which waits for room.
    reader: Option<Waker>,
}

impl State {
    fn has_room(&self) -> bool {
        self.is_closed || (self.messages.len() < MAX_MESSAGES && self.bytes < MAX_BYTES)
    }

    fn wake_reader(&mut self) {
        if self.has_room()
            && let Some(reader) = self.reader.take()
        {
            reader.wake();
        }
    }
}

struct Queue {
    id: u64,
    state: Mutex<State>,
    events: Arc<Events>,
}

/// The two ends of a queue. Its events have the id of the answer of the same exchange.
pub fn inbox(id: u64, events: Arc<Events>) -> (InboxWriter, Inbox) {
    let queue = Arc::new(Queue { id, state: Mutex::default(), events });
    (InboxWriter(queue.clone()), Inbox(queue))
}

/// For the connection. When it is dropped, the client has left.
pub struct InboxWriter(Arc<Queue>);

impl InboxWriter {
    /// Ready when another message may be read.
    pub fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = lock(&self.0.state);
        if state.has_room() {
            return Poll::Ready(());
        }
        state.reader = Some(context.waker().clone());
        Poll::Pending
    }

    /// Whether the program takes no more; if not, the task is woken when it does not.
    pub fn is_closed(&self, context: &mut Context<'_>) -> bool {
        let mut state = lock(&self.0.state);
        state.reader = Some(context.waker().clone());
        state.is_closed
    }

    pub fn push(&self, message: Message) {
        self.change(|state| {
            if !state.is_closed && state.end.is_none() {
                state.bytes += message.len();
                state.messages.push_back(message);
            }
        });
    }

    /// No more messages come. Only the first reason counts.
    pub fn end(&self, reason: End) {
        self.change(|state| {
            state.end.get_or_insert(reason);
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = lock(&self.0.state);
        change(&mut state);
        if std::mem::take(&mut state.is_wanted) {
            self.0.events.push(Event::Message(self.0.id));
        }
    }
}

impl Drop for InboxWriter {
    fn drop(&mut self) {
        self.end(End::Left);
    }
}

/// For the program. When it is dropped, what waits and what comes is dropped too, so nothing holds up the connection.
pub struct Inbox(Arc<Queue>);

impl Inbox {
    /// The next message. If there is none, an event tells when there is, or when no more come.
    pub fn take(&self) -> Option<Message> {
        let mut state = lock(&self.0.state);
        let Some(message) = state.messages.pop_front() else {
            state.is_wanted = state.end.is_none() && !state.is_closed;
            return None;
        };
        state.bytes -= message.len();
        if state.messages.is_empty() {
            state.messages = VecDeque::new();
        }
        state.wake_reader();
        Some(message)
    }

    /// Why no more come, when all that came were taken.
    pub fn ended(&self) -> Option<End> {
        let state = lock(&self.0.state);
        state.end.filter(|_| state.messages.is_empty())
    }

    pub fn close(&self) {
        let mut state = lock(&self.0.state);
        state.is_closed = true;
        state.is_wanted = false;
        state.messages = VecDeque::new();
        state.bytes = 0;
        state.wake_reader();
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn new() -> (InboxWriter, Inbox, Arc<Events>) {
        let events = Arc::<Events>::default();
        let (writer, inbox) = inbox(7, events.clone());
        (writer, inbox, events)
    }

    fn data(size: usize) -> Message {
        Message::Data(vec![b'x'; size].into())
    }

    /// How many times the program was told about messages.
    fn told(events: &Events) -> usize {
        events.take().iter().filter(|event| matches!(event, Event::Message(7))).count()
    }

    #[test]
    fn messages_are_taken_in_order_and_the_end_comes_last() {
        let (writer, inbox, _) = new();
        writer.push(Message::Text("one".into()));
        writer.push(data(2));
        writer.end(End::Complete);
        assert_eq!(inbox.ended(), None);
        assert_eq!(inbox.take(), Some(Message::Text("one".into())));
        assert_eq!(inbox.take(), Some(data(2)));
        assert_eq!((inbox.take(), inbox.ended()), (None, Some(End::Complete)));
    }

    #[test]
    fn only_a_program_that_found_nothing_is_told_and_only_once() {
        let (writer, inbox, events) = new();
        writer.push(data(1));
        assert_eq!(told(&events), 0);
        inbox.take();
        assert_eq!(inbox.take(), None);
        writer.push(data(1));
        writer.push(data(1));
        drop(writer);
        assert_eq!(told(&events), 1);
    }

    #[test]
    fn a_program_that_waits_is_told_about_the_first_end_and_no_other() {
        let (writer, inbox, events) = new();
        inbox.take();
        writer.end(End::Malformed);
        assert_eq!(told(&events), 1);
        assert_eq!(inbox.take(), None);
        drop(writer);
        assert_eq!((inbox.ended(), told(&events)), (Some(End::Malformed), 0));
    }

    #[test]
    fn a_connection_that_is_dropped_has_left() {
        let (writer, inbox, _) = new();
        drop(writer);
        assert_eq!(inbox.ended(), Some(End::Left));
    }

    #[test]
    fn the_connection_waits_for_room_in_messages_and_in_bytes() {
        for (count, size) in [(MAX_MESSAGES, 1), (1, MAX_BYTES)] {
            let (writer, inbox, _) = new();
            let woken = Arc::<Count>::default();
            let waker = Waker::from(woken.clone());
            let mut context = Context::from_waker(&waker);
            for _ in 0..count {
                assert!(writer.poll_room(&mut context).is_ready());
                writer.push(data(size));
            }
            assert!(writer.poll_room(&mut context).is_pending());
            assert!(inbox.take().is_some());
            assert_eq!(woken.0.load(Ordering::Relaxed), 1);
            assert!(writer.poll_room(&mut context).is_ready());
        }
    }

    #[test]
    fn a_program_that_takes_no_more_holds_up_nobody() {
        let (writer, inbox, events) = new();
        writer.push(data(MAX_BYTES));
        let waker = Waker::from(Arc::<Count>::default());
        let mut context = Context::from_waker(&waker);
        assert!(writer.poll_room(&mut context).is_pending());
        inbox.close();
        assert!(writer.poll_room(&mut context).is_ready());
        writer.push(data(1));
        assert_eq!((inbox.take(), told(&events)), (None, 0));
    }
}
