//! Frames of the server, written where they wait to be sent.

use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};
use tungstenite::protocol::frame::{CloseFrame, Frame, FrameHeader};

/// The longest reason of a close frame: it has 125 bytes, two of them for the code.
const MAX_REASON_BYTES: usize = 123;
const MAX_HEADER_BYTES: usize = 10;

pub enum Kind {
    Text,
    Data,
}

/// A message with what `write` writes.
pub fn append_message(buffer: &mut Vec<u8>, kind: Kind, write: impl FnOnce(&mut Vec<u8>)) {
    let start = buffer.len();
    write(buffer);
    let length = (buffer.len() - start) as u64;
    let opcode = match kind {
        Kind::Text => Data::Text,
        Kind::Data => Data::Binary,
    };
    let header = FrameHeader { opcode: OpCode::Data(opcode), ..FrameHeader::default() };
    let mut bytes = [0_u8; MAX_HEADER_BYTES];
    let header_bytes = header.len(length);
    // The array is long enough for every header without a mask.
    let _ = header.format(length, &mut bytes.as_mut_slice());
    buffer.extend_from_slice(&bytes[..header_bytes]);
    buffer[start..].rotate_right(header_bytes);
}

pub fn append_close(buffer: &mut Vec<u8>, code: CloseCode, reason: &str) {
    let mut end = reason.len().min(MAX_REASON_BYTES);
    while !reason.is_char_boundary(end) {
        end -= 1;
    }
    let frame = Frame::close(Some(CloseFrame { code, reason: reason[..end].into() }));
    // A vector takes everything.
    let _ = frame.format(buffer);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_follows_its_header_whatever_its_length() {
        for (length, header) in [
            (0, vec![0x81, 0]),
            (125, vec![0x81, 125]),
            (126, vec![0x81, 126, 0, 126]),
            (65_536, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let mut buffer = b"before".to_vec();
            append_message(&mut buffer, Kind::Text, |buffer| buffer.resize(buffer.len() + length, b'x'));
            assert_eq!(buffer, [b"before".to_vec(), header, vec![b'x'; length]].concat());
        }
    }

    #[test]
    fn a_reason_is_cut_between_characters() {
        let mut buffer = Vec::new();
        append_close(&mut buffer, CloseCode::Away, &"é".repeat(100));
        assert_eq!(&buffer[..4], [0x88, 124, 0x03, 0xe9]);
        assert_eq!(buffer.len(), 126);
    }
}
