//! Server-sent events, by the HTML standard's rules for event streams.
//!
//! Lines end in CR, LF or CRLF and may be split anywhere. Bytes become text only in whole lines, so a split character
//! is never seen. A limit that is exceeded stops the parser: every later call returns the same error.

use memchr::{memchr, memchr2};

/// The byte limits of one line and of one event's data.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub line: usize,
    pub event: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum EventError {
    #[error("a line has more than {limit} bytes")]
    LineTooLong { limit: usize },
    #[error("the data of an event has more than {limit} bytes")]
    EventTooLarge { limit: usize },
}

/// One event, as it is dispatched. `kind` is empty if the stream named none, which means `message`.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    pub kind: &'a [u8],
    pub data: &'a [u8],
    /// The last id of the stream, which may be older than this event.
    pub id: &'a [u8],
}

#[derive(Debug)]
pub struct EventParser {
    limits: Limits,
    /// The beginning of a line whose end has not arrived.
    line: Vec<u8>,
    state: State,
    after_cr: bool,
    failed: Option<EventError>,
}

#[derive(Debug, Default)]
struct State {
    kind: Vec<u8>,
    data: Vec<u8>,
    id: Vec<u8>,
    last_id: Vec<u8>,
    retry_ms: Option<u64>,
    past_first_line: bool,
    reads_error_fields: bool,
}

impl EventParser {
    pub fn new(limits: Limits) -> Self {
        Self { limits, line: Vec::new(), state: State::default(), after_cr: false, failed: None }
    }

    /// A parser that also reads `error: ...` lines, which are not in the standard: llama.cpp reports a failure in the
    /// middle of an answer that way. Such an event has the kind `error`.
    pub fn with_error_fields(limits: Limits) -> Self {
        let mut parser = Self::new(limits);
        parser.state.reads_error_fields = true;
        parser
    }

    /// Parses bytes. `sink` receives every event that they complete, also those before an error.
    pub fn put(&mut self, input: &[u8], mut sink: impl FnMut(Event<'_>)) -> Result<(), EventError> {
        match self.failed {
            Some(error) => Err(error),
            None => self.lines(input, &mut sink).inspect_err(|error| {
                self.failed = Some(*error);
                self.line = Vec::new();
            }),
        }
    }

    fn lines(&mut self, input: &[u8], sink: &mut impl FnMut(Event<'_>)) -> Result<(), EventError> {
        let mut rest = input;
        if self.after_cr && !rest.is_empty() {
            self.after_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(at) = memchr2(b'\n', b'\r', rest) {
            let (head, tail) = rest.split_at(at);
            rest = &tail[1..];
            if tail[0] == b'\r' {
                self.after_cr = rest.is_empty();
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
            self.check(head)?;
            if self.line.is_empty() {
                self.state.take_line(head, self.limits.event, sink)?;
            } else {
                self.line.extend_from_slice(head);
                self.state.take_line(&self.line, self.limits.event, sink)?;
                self.line.clear();
            }
        }
        self.check(rest)?;
        self.line.extend_from_slice(rest);
        Ok(())
    }

    fn check(&self, more: &[u8]) -> Result<(), EventError> {
        let limit = self.limits.line;
        if self.line.len() + more.len() > limit { Err(EventError::LineTooLong { limit }) } else { Ok(()) }
    }

    /// Why the parser stopped.
    pub fn failure(&self) -> Option<EventError> {
        self.failed
    }

    /// The id to resume with, as of the last blank line.
    pub fn last_id(&self) -> &[u8] {
        &self.state.last_id
    }

    /// The time to wait before resuming, if the stream set one.
    pub fn retry_ms(&self) -> Option<u64> {
        self.state.retry_ms
    }

    /// Bytes of an incomplete event. The standard says to drop them when the stream ends.
    pub fn held_bytes(&self) -> usize {
        self.line.len() + self.state.data.len()
    }
}

impl State {
    fn take_line(
        &mut self,
        line: &[u8],
        limit: usize,
        sink: &mut impl FnMut(Event<'_>),
    ) -> Result<(), EventError> {
        let mut line = line;
        if !self.past_first_line {
            self.past_first_line = true;
            line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        }
        if line.is_empty() {
            self.dispatch(sink);
            return Ok(());
        }
        let (field, value) = match memchr(b':', line) {
            Some(0) => return Ok(()),
            Some(at) => (&line[..at], line[at + 1..].strip_prefix(b" ").unwrap_or(&line[at + 1..])),
            None => (line, &line[..0]),
        };
        match field {
            b"data" => self.append(value, limit)?,
            b"error" if self.reads_error_fields => {
                replace(&mut self.kind, b"error");
                self.append(value, limit)?;
            }
            b"event" => replace(&mut self.kind, value),
            b"id" if memchr(0, value).is_none() => replace(&mut self.id, value),
            b"retry" => self.retry_ms = milliseconds(value).or(self.retry_ms),
            _ => {}
        }
        Ok(())
    }

    fn append(&mut self, value: &[u8], limit: usize) -> Result<(), EventError> {
        if self.data.len() + value.len() > limit {
            return Err(EventError::EventTooLarge { limit });
        }
        self.data.extend_from_slice(value);
        self.data.push(b'\n');
        Ok(())
    }

    fn dispatch(&mut self, sink: &mut impl FnMut(Event<'_>)) {
        if self.last_id != self.id {
            self.last_id.clone_from(&self.id);
        }
        if let Some(data) = self.data.strip_suffix(b"\n") {
            sink(Event { kind: &self.kind, data, id: &self.last_id });
            self.data.clear();
        }
        self.kind.clear();
    }
}

fn replace(field: &mut Vec<u8>, value: &[u8]) {
    field.clear();
    field.extend_from_slice(value);
}

fn milliseconds(value: &[u8]) -> Option<u64> {
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    if digits { std::str::from_utf8(value).ok()?.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Seen = (String, String, String);

    fn limits() -> Limits {
        Limits { line: 1 << 20, event: 1 << 20 }
    }

    fn seen(pieces: &[&[u8]]) -> Vec<Seen> {
        let mut parser = EventParser::new(limits());
        let mut out = Vec::new();
        for piece in pieces {
            parser
                .put(piece, |event| {
                    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                    out.push((text(event.kind), text(event.data), text(event.id)));
                })
                .unwrap();
        }
        out
    }

    proptest! {
        #[test]
        fn the_same_events_come_of_every_split(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "\r", "\n", "\r\n", "\n\n", "data", "data:", "data: ", ":", " ", "id: 1", "id\0", "event: x",
                    "retry: 5", "\u{feff}", "é", "🙂", "x",
                ]), 0..40),
            cuts in prop::collection::vec(0usize..200, 0..6),
        ) {
            let whole = parts.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).collect();
            cuts.extend([0, whole.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &whole[pair[0]..pair[1]]).collect();
            let bytes: Vec<&[u8]> = whole.chunks(1).collect();
            prop_assert_eq!(seen(&pieces), seen(&[&whole]));
            prop_assert_eq!(seen(&bytes), seen(&[&whole]));
        }
    }

    #[test]
    fn an_error_field_is_an_event_only_where_it_is_expected() {
        let lines = b"data: a\n\nerror: {\"message\": \"boom\"}\n\ndata: b\n\n";
        let kinds = |mut parser: EventParser| {
            let mut out = Vec::new();
            parser.put(lines, |event| out.push((event.kind.to_vec(), event.data.to_vec()))).unwrap();
            out
        };
        let (a, b) = ((vec![], b"a".to_vec()), (vec![], b"b".to_vec()));
        let error = (b"error".to_vec(), b"{\"message\": \"boom\"}".to_vec());
        assert_eq!(kinds(EventParser::with_error_fields(limits())), [a.clone(), error, b.clone()]);
        assert_eq!(kinds(EventParser::new(limits())), [a, b]);
    }

    #[test]
    fn a_limit_ends_the_parser_for_good() {
        let mut parser = EventParser::new(Limits { line: 8, event: 4 });
        assert_eq!(parser.put(b"data: 12345", |_| ()), Err(EventError::LineTooLong { limit: 8 }));
        assert_eq!(parser.put(b"\n", |_| ()), Err(EventError::LineTooLong { limit: 8 }));
        let mut parser = EventParser::new(Limits { line: 80, event: 4 });
        assert_eq!(parser.put(b"data: 12345\n", |_| ()), Err(EventError::EventTooLarge { limit: 4 }));
    }
}
