//! Refuses heads of HTTP/1 requests that two servers in a row could read differently.
//!
//! hyper takes a single LF for the end of a line and prefers one of two lengths. A proxy in front that does not would see
//! another request than this server does. So the bytes are looked at before hyper gets them: lines must end in CRLF, and a
//! body must have one length. hyper gets `REFUSED` instead of the rest, which it answers with 400, and closes.
//!
//! Bodies are skipped, to find the next head; hyper still parses everything.

/// No head and no chunk can contain it, and a head ends with it.
pub const REFUSED: &[u8] = b"\0\r\n\r\n";

/// The longest line that matters: a length or an encoding.
const LINE_BYTES: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In front of the first line of a head.
    Begin,
    Headers,
    Body(u64),
    ChunkSize,
    Chunk(u64),
    Trailers,
    Refused,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Length {
    None,
    Bytes(u64),
    Chunked,
}

struct Refused;

pub struct HeadCheck {
    state: State,
    length: Length,
    /// Whether the head asks for another protocol, which may follow it.
    asks_upgrade: bool,
    /// The beginning of the current line.
    line: [u8; LINE_BYTES],
    /// How long the line is, beyond what is kept of it.
    line_bytes: usize,
    last: u8,
}

impl Default for HeadCheck {
    fn default() -> Self {
        Self {
            state: State::Begin,
            length: Length::None,
            asks_upgrade: false,
            line: [0; LINE_BYTES],
            line_bytes: 0,
            last: 0,
        }
    }
}

impl HeadCheck {
    /// Looks at the next bytes of a connection; returns how many hyper may have. Fewer than there are: the rest, and all
    /// that follows, is refused; or a head has ended that asks for another protocol, and the rest may be that.
    pub fn accept(&mut self, bytes: &[u8]) -> usize {
        let mut accepted = 0;
        while accepted < bytes.len() {
            let rest = &bytes[accepted..];
            accepted += match self.state {
                State::Refused => break,
                State::Body(left) => self.skip(left, rest.len(), State::Body, State::Begin),
                State::Chunk(left) => self.skip(left, rest.len(), State::Chunk, State::ChunkSize),
                _ => self.read_line(rest),
            };
            if self.asks_upgrade && self.state != State::Headers {
                self.asks_upgrade = false;
                break;
            }
        }
        accepted
    }

    pub fn is_refused(&self) -> bool {
        self.state == State::Refused
    }

    fn skip(&mut self, left: u64, available: usize, same: fn(u64) -> State, next: State) -> usize {
        let count = usize::try_from(left).unwrap_or(usize::MAX).min(available);
        let rest = left - count as u64;
        self.state = if rest > 0 { same(rest) } else { next };
        count
    }

    /// Takes the bytes up to the end of a line.
    fn read_line(&mut self, bytes: &[u8]) -> usize {
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            self.keep(bytes);
            return bytes.len();
        };
        self.keep(&bytes[..end]);
        let outcome = if self.last == b'\r' { self.end_line() } else { Err(Refused) };
        if outcome.is_err() {
            self.state = State::Refused;
            return end;
        }
        self.line_bytes = 0;
        self.last = 0;
        end + 1
    }

    fn keep(&mut self, part: &[u8]) {
        let Some(last) = part.last() else { return };
        self.last = *last;
        let kept = self.line_bytes.min(LINE_BYTES);
        let count = part.len().min(LINE_BYTES - kept);
        self.line[kept..kept + count].copy_from_slice(&part[..count]);
        self.line_bytes += part.len();
    }

    /// A line ends in CRLF.
    fn end_line(&mut self) -> Result<(), Refused> {
        let bytes = self.line_bytes - 1;
        let is_whole = bytes <= LINE_BYTES;
        let line = self.line;
        let line = &line[..bytes.min(LINE_BYTES)];
        match self.state {
            // Empty lines in front of a request are skipped.
            State::Begin if line.is_empty() => {}
            State::Begin => {
                self.length = Length::None;
                self.state = State::Headers;
            }
            State::Headers if line.is_empty() => self.state = self.after_head(),
            State::Headers => self.read_header(line, is_whole)?,
            State::ChunkSize => self.state = chunk_state(line)?,
            State::Trailers if line.is_empty() => self.state = State::Begin,
            _ => {}
        }
        Ok(())
    }

    fn after_head(&self) -> State {
        match self.length {
            Length::None | Length::Bytes(0) => State::Begin,
            Length::Bytes(bytes) => State::Body(bytes),
            Length::Chunked => State::ChunkSize,
        }
    }

    fn read_header(&mut self, line: &[u8], is_whole: bool) -> Result<(), Refused> {
        if matches!(line[0], b' ' | b'\t') {
            // It continues the line before it, or is one of its own, depending on who reads it.
            return Err(Refused);
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let name = line[..colon].trim_ascii();
        self.asks_upgrade |= name.eq_ignore_ascii_case(b"upgrade");
        let is_length = name.eq_ignore_ascii_case(b"content-length");
        if !is_length && !name.eq_ignore_ascii_case(b"transfer-encoding") {
            return Ok(());
        }
        if !is_whole || colon == line.len() || self.length != Length::None {
            return Err(Refused);
        }
        let value = line[colon + 1..].trim_ascii();
        self.length = match is_length {
            true => Length::Bytes(number(value, 10)?),
            false if value.eq_ignore_ascii_case(b"chunked") => Length::Chunked,
            false => return Err(Refused),
        };
        Ok(())
    }
}

/// What follows a line with the size of a chunk, which may have extensions.
fn chunk_state(line: &[u8]) -> Result<State, Refused> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let size = number(&line[..digits], 16)?;
    if size == 0 {
        return Ok(State::Trailers);
    }
    // The data and its CRLF.
    size.checked_add(2).map(State::Chunk).ok_or(Refused)
}

fn number(digits: &[u8], radix: u32) -> Result<u64, Refused> {
    let text = std::str::from_utf8(digits).map_err(|_| Refused)?;
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        // `from_str_radix` takes a sign.
        return Err(Refused);
    }
    u64::from_str_radix(text, radix).map_err(|_| Refused)
}

#[cfg(test)]
mod tests {
    use super::HeadCheck;

    /// How much hyper would get, if the bytes came in pieces of that size.
    fn accepted(bytes: &[u8], piece: usize) -> usize {
        let mut check = HeadCheck::default();
        let accepted = bytes.chunks(piece).map(|piece| check.accept(piece)).sum();
        assert_eq!(check.is_refused(), accepted < bytes.len());
        accepted
    }

    #[test]
    fn what_may_be_another_protocol_is_left_for_it() {
        let head = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n";
        let mut check = HeadCheck::default();
        assert_eq!(check.accept(&[head.as_slice(), b"\x81\n"].concat()), head.len());
        // It was not: the next request is looked at as usual.
        assert_eq!(check.accept(b"GET / HTTP/1.1\n"), 14);
        assert!(check.is_refused());
    }

    fn is_accepted(text: &str) -> bool {
        let outcomes: Vec<bool> =
            (1..=text.len()).map(|piece| accepted(text.as_bytes(), piece) == text.len()).collect();
        assert!(
            outcomes.iter().all(|one| *one == outcomes[0]),
            "pieces of a request change what it is: {text:?}"
        );
        outcomes[0]
    }

    #[test]
    fn requests_that_follow_each_other_are_left_as_they_are() {
        let get = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        let post = "POST / HTTP/1.1\r\nContent-Length:  5 \r\nhost: a\r\n\r\n\n\n\n\n\n";
        let chunked =
            "POST / HTTP/1.1\r\ntransfer-encoding: Chunked\r\n\r\n3;x=y\r\n\n\n\n\r\n0\r\nA: b\r\n\r\n";
        let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "y".repeat(200));
        assert!(is_accepted(&[get, post, chunked, "\r\n", &long, get].concat()));
    }

    #[test]
    fn heads_that_can_be_read_in_two_ways_are_refused() {
        for head in [
            "GET / HTTP/1.1\nhost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\n\r\n",
            "GET / HTTP/1.1\r\nhost: a\r\n\n",
            "GET / HTTP/1.1\r\nhost: a\r\n b\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 1\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 1\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: +1\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length : 1\r\ncontent-length: 2\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: gzip, chunked\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3\nabc\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\na: b\n\r\n",
        ] {
            assert!(!is_accepted(head), "{head:?}");
            let body = "POST / HTTP/1.1\r\ncontent-length: 2\r\n\r\nab";
            assert!(!is_accepted(&[body, head].concat()), "a second request: {head:?}");
        }
    }

    #[test]
    fn nothing_of_a_connection_passes_after_what_was_refused() {
        let bytes = b"GET / HTTP/1.1\nhost: a\r\n\r\nGET / HTTP/1.1\r\n\r\n";
        assert!((1..bytes.len()).all(|piece| accepted(bytes, piece) == 14));
    }
}
