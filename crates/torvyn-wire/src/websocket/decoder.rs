//! Bytes of a client -> messages, with tungstenite.
//!
//! tungstenite keeps the buffer of the last message. It is therefore given one frame at a time, and dropped whenever no
//! message is incomplete: an idle WebSocket has no decoder.

use std::io::{self, Cursor, Read, Write};
use std::time::Instant;

use bytes::Bytes;
use tungstenite::protocol::frame::FrameHeader;
use tungstenite::protocol::frame::coding::OpCode;
use tungstenite::protocol::{Role, WebSocketConfig, WebSocketContext};
use tungstenite::{Error, Message as Received};

use crate::inbox::{End, Message};

/// A smaller message is copied, because it would keep the buffer that it came in.
const COPIED_BYTES: usize = 4 * 1024;

#[derive(Default)]
pub struct Decoder {
    /// While a message is incomplete.
    context: Option<Box<WebSocketContext>>,
    /// The beginning of a frame, shorter than its header.
    head: Vec<u8>,
    /// What has not arrived of the current frame.
    frame_left: u64,
    /// Whether more frames of the message follow.
    is_fragmented: bool,
    unfinished_since: Option<Instant>,
}

impl Decoder {
    /// Since when a message is incomplete, if one is.
    pub fn unfinished_since(&self) -> Option<Instant> {
        self.unfinished_since
    }

    /// Passes on the messages that are complete, and writes what tungstenite answers. No more can be decoded after an
    /// end.
    pub fn decode(
        &mut self,
        data: &[u8],
        max_bytes: usize,
        replies: &mut Vec<u8>,
        mut deliver: impl FnMut(Message),
    ) -> Result<(), End> {
        let joined;
        let mut data = data;
        if !self.head.is_empty() {
            joined = [std::mem::take(&mut self.head).as_slice(), data].concat();
            data = &joined;
        }
        while !data.is_empty() {
            let Some(count) = self.next_part(data)? else {
                self.head = data.to_vec();
                break;
            };
            let (part, rest) = data.split_at(count);
            data = rest;
            let mut port = Port { input: part, replies };
            self.feed(&mut port, max_bytes, &mut deliver)?;
        }
        if self.is_between_messages() {
            self.unfinished_since = None;
        } else {
            self.unfinished_since.get_or_insert_with(Instant::now);
        }
        Ok(())
    }

    fn is_between_messages(&self) -> bool {
        self.frame_left == 0 && !self.is_fragmented && self.head.is_empty()
    }

    /// How many of these bytes belong to one frame; None if its header is incomplete.
    fn next_part(&mut self, data: &[u8]) -> Result<Option<usize>, End> {
        let mut header_bytes = 0;
        if self.frame_left == 0 {
            let mut cursor = Cursor::new(data);
            let Some((header, length)) = FrameHeader::parse(&mut cursor).map_err(end_of)? else {
                return Ok(None);
            };
            header_bytes = cursor.position() as usize;
            self.frame_left = length;
            if matches!(header.opcode, OpCode::Data(_)) {
                self.is_fragmented = !header.is_final;
            }
        }
        let arrived = ((data.len() - header_bytes) as u64).min(self.frame_left);
        self.frame_left -= arrived;
        Ok(Some(header_bytes + arrived as usize))
    }

    fn feed(
        &mut self,
        port: &mut Port<'_>,
        max_bytes: usize,
        deliver: &mut impl FnMut(Message),
    ) -> Result<(), End> {
        let buffer_bytes = port.input.len();
        let context = self.context.get_or_insert_with(|| Box::new(new_context(max_bytes, buffer_bytes)));
        loop {
            match context.read(port) {
                Ok(Received::Text(text)) => deliver(Message::Text(own(text.into()))),
                Ok(Received::Binary(data)) => deliver(Message::Data(own(data))),
                // The next turn of the loop answers it.
                Ok(_) => continue,
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(end_of(error)),
            }
            self.unfinished_since = None;
        }
        if self.is_between_messages() {
            self.context = None;
        }
        Ok(())
    }
}

fn new_context(max_bytes: usize, buffer_bytes: usize) -> WebSocketContext {
    let config = WebSocketConfig::default()
        .read_buffer_size(buffer_bytes)
        .write_buffer_size(0)
        .max_message_size(Some(max_bytes))
        .max_frame_size(Some(max_bytes));
    WebSocketContext::new(Role::Server, Some(config))
}

fn own(data: Bytes) -> Bytes {
    if data.len() < COPIED_BYTES { Bytes::copy_from_slice(&data) } else { data }
}

fn end_of(error: Error) -> End {
    match error {
        Error::ConnectionClosed => End::Complete,
        Error::Capacity(_) => End::TooLarge,
        Error::Utf8(_) => End::BadText,
        _ => End::Malformed,
    }
}

/// What tungstenite reads from and writes to.
struct Port<'a> {
    input: &'a [u8],
    replies: &'a mut Vec<u8>,
}

impl Read for Port<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.input.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.input.read(buffer)
    }
}

impl Write for Port<'_> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.replies.write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX_BYTES: usize = 1000;
    const TEXT: u8 = 0x81;
    const PART: u8 = 0x01;
    const MORE: u8 = 0x00;
    const LAST: u8 = 0x80;
    const PING: u8 = 0x89;
    const CLOSE: u8 = 0x88;

    /// A frame as a client sends it, with a mask that changes nothing.
    fn frame(first: u8, data: &[u8]) -> Vec<u8> {
        let length = match data.len() {
            short @ ..126 => vec![short as u8 | 0x80],
            long => [vec![0xfe], (long as u16).to_be_bytes().to_vec()].concat(),
        };
        [vec![first], length, vec![0; 4], data.to_vec()].concat()
    }

    #[derive(Default)]
    struct Client {
        decoder: Decoder,
        texts: Vec<String>,
        replies: Vec<u8>,
    }

    impl Client {
        fn send(&mut self, data: &[u8]) -> Result<(), End> {
            let Self { decoder, texts, replies } = self;
            decoder.decode(data, MAX_BYTES, replies, |message| match message {
                Message::Text(data) => texts.push(String::from_utf8_lossy(&data).into_owned()),
                Message::Data(data) => texts.push(format!("{} bytes", data.len())),
            })
        }
    }

    #[test]
    fn however_the_bytes_arrive_the_messages_are_the_same() {
        let long = "x".repeat(700);
        let parts = [
            frame(TEXT, b"one"),
            frame(PART, b"tw"),
            frame(PING, b"there?"),
            frame(MORE, b""),
            frame(LAST, b"o"),
            frame(0x82, &[0xff; 300]),
            frame(TEXT, long.as_bytes()),
        ];
        for size in 1..40 {
            let mut client = Client::default();
            for piece in parts.concat().chunks(size) {
                assert_eq!(client.send(piece), Ok(()));
            }
            assert_eq!(client.texts, ["one", "two", "300 bytes", &long]);
            assert_eq!(client.replies, b"\x8a\x06there?");
            assert!(client.decoder.context.is_none() && client.decoder.head.capacity() < 64);
            assert_eq!(client.decoder.unfinished_since(), None);
        }
    }

    #[test]
    fn a_message_that_is_incomplete_has_a_beginning_and_control_frames_do_not_move_it() {
        let mut client = Client::default();
        client.send(&frame(PART, b"a")).expect("a part");
        let since = client.decoder.unfinished_since().expect("a beginning");
        client.send(&frame(PING, b"")).expect("a ping");
        assert_eq!(client.decoder.unfinished_since(), Some(since));
        client.send(&frame(LAST, b"b")).expect("the rest");
        assert_eq!(client.decoder.unfinished_since(), None);
        client.send(&frame(TEXT, b"c")[..1]).expect("half a header");
        assert!(client.decoder.unfinished_since().is_some());
    }

    #[test]
    fn a_close_is_answered_and_nothing_after_it_is_read() {
        let mut client = Client::default();
        let sent = [frame(CLOSE, b"\x03\xe8bye"), frame(TEXT, b"late")].concat();
        assert_eq!(client.send(&sent), Err(End::Complete));
        assert_eq!(client.replies, b"\x88\x05\x03\xe8bye");
        assert!(client.texts.is_empty());
    }

    #[test]
    fn rules_that_a_client_breaks_are_told_apart() {
        let mut too_long = frame(TEXT, &[b'x'; 126]);
        too_long[2..4].copy_from_slice(&1001_u16.to_be_bytes());
        let mut unmasked = frame(TEXT, b"a");
        unmasked[1] &= 0x7f;
        for (sent, expected) in [
            (too_long[..8].to_vec(), End::TooLarge),
            ([frame(PART, &[b'x'; 600]), frame(MORE, &[b'x'; 401])].concat(), End::TooLarge),
            (frame(TEXT, b"\xff"), End::BadText),
            ([frame(PART, b"a"), frame(MORE, b"\xc3\x28")].concat(), End::BadText),
            (unmasked, End::Malformed),
            (frame(0xc1, b"a"), End::Malformed),
            (frame(0x83, b"a"), End::Malformed),
            (frame(0x8b, b"a"), End::Malformed),
            (frame(0x09, b"a"), End::Malformed),
            (frame(PING, &[b'x'; 126]), End::Malformed),
            (frame(LAST, b"a"), End::Malformed),
            ([frame(PART, b"a"), frame(TEXT, b"b")].concat(), End::Malformed),
            (frame(CLOSE, b"\x03"), End::Malformed),
            (frame(CLOSE, b"\x03\xe8\xff"), End::BadText),
        ] {
            assert_eq!(Client::default().send(&sent), Err(expected), "{sent:?}");
        }
    }
}
