//! The pieces of a SentencePiece `.model` file, and what its decoder needs to know.

use thiserror::Error;

use super::protobuf::{Broken, Fields, Value};

/// More pieces than any model has.
pub const MAX_PIECES: usize = 1 << 22;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ModelError {
    #[error("not a SentencePiece model: the field of `{part}` at byte {at} is broken")]
    Broken { part: &'static str, at: usize },
    #[error("not a SentencePiece model: it has no pieces")]
    NoPieces,
    #[error("more than {limit} pieces")]
    TooMany { limit: usize },
}

/// A piece and its type: 1 normal, 2 unknown, 3 control, 4 user-defined, 5 unused, 6 byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece<'a> {
    pub text: &'a [u8],
    pub kind: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model<'a> {
    pub pieces: Vec<Piece<'a>>,
    /// How the unknown piece is written in a text.
    pub unknown_surface: &'a [u8],
    pub add_dummy_prefix: bool,
    pub remove_extra_whitespaces: bool,
    pub treat_whitespace_as_suffix: bool,
    /// The model changes the text after decoding.
    pub denormalizes: bool,
}

impl<'a> Model<'a> {
    pub fn parse(file: &'a [u8]) -> Result<Self, ModelError> {
        let mut model = Self {
            pieces: Vec::new(),
            unknown_surface: " \u{2047} ".as_bytes(),
            add_dummy_prefix: true,
            remove_extra_whitespaces: true,
            treat_whitespace_as_suffix: false,
            denormalizes: false,
        };
        for field in Fields::of(file) {
            match field.map_err(broken("model"))? {
                (1, Value::Bytes(message)) if model.pieces.len() < MAX_PIECES => {
                    model.pieces.push(piece(message)?);
                }
                (1, Value::Bytes(_)) => return Err(ModelError::TooMany { limit: MAX_PIECES }),
                (2, Value::Bytes(message)) => model.read_trainer(message)?,
                (3, Value::Bytes(message)) => model.read_normalizer(message)?,
                (5, Value::Bytes(message)) => model.denormalizes |= has_rules(message)?,
                _ => {}
            }
        }
        if model.pieces.is_empty() { Err(ModelError::NoPieces) } else { Ok(model) }
    }

    fn read_trainer(&mut self, message: &'a [u8]) -> Result<(), ModelError> {
        for field in Fields::of(message) {
            match field.map_err(broken("trainer_spec"))? {
                (24, Value::Varint(value)) => self.treat_whitespace_as_suffix = value != 0,
                (44, Value::Bytes(surface)) => self.unknown_surface = surface,
                _ => {}
            }
        }
        Ok(())
    }

    fn read_normalizer(&mut self, message: &[u8]) -> Result<(), ModelError> {
        for field in Fields::of(message) {
            match field.map_err(broken("normalizer_spec"))? {
                (3, Value::Varint(value)) => self.add_dummy_prefix = value != 0,
                (4, Value::Varint(value)) => self.remove_extra_whitespaces = value != 0,
                _ => {}
            }
        }
        Ok(())
    }
}

fn broken(part: &'static str) -> impl Fn(Broken) -> ModelError {
    move |Broken { at }| ModelError::Broken { part, at }
}

fn piece(message: &[u8]) -> Result<Piece<'_>, ModelError> {
    let mut piece = Piece { text: &[], kind: 1 };
    for field in Fields::of(message) {
        match field.map_err(broken("piece"))? {
            (1, Value::Bytes(text)) => piece.text = text,
            (3, Value::Varint(kind)) => piece.kind = kind,
            _ => {}
        }
    }
    Ok(piece)
}

fn has_rules(message: &[u8]) -> Result<bool, ModelError> {
    for field in Fields::of(message) {
        if let (2, Value::Bytes(rules)) = field.map_err(broken("denormalizer_spec"))? {
            return Ok(!rules.is_empty());
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A model of three pieces, without a dummy prefix.
    const SMALL: &[u8] =
        b"\x0a\x07\x0a\x03<s>\x18\x03\x0a\x0a\x0a\x08\xe2\x96\x81Hello\x0a\x0a\x0a\x06<0x41>\x18\x06\x1a\x02\x18\x00";

    #[test]
    fn pieces_and_rules_are_read() {
        let model = Model::parse(SMALL).expect("it is well formed");
        let pieces: Vec<_> = model.pieces.iter().map(|piece| (piece.text, piece.kind)).collect();
        assert_eq!(pieces, [(&b"<s>"[..], 3), ("▁Hello".as_bytes(), 1), (b"<0x41>", 6)]);
        assert!(!model.add_dummy_prefix && model.remove_extra_whitespaces);
    }

    #[test]
    fn what_has_no_pieces_is_no_model() {
        assert_eq!(Model::parse(b""), Err(ModelError::NoPieces));
        assert_eq!(Model::parse(b"{\"a\": 1}"), Err(ModelError::Broken { part: "model", at: 0 }));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Model::parse(&bytes);
        }

        #[test]
        fn a_cut_or_changed_model_is_read_or_refused(at in 0..SMALL.len(), byte: u8) {
            let _ = Model::parse(&SMALL[..at]);
            let mut changed = SMALL.to_vec();
            changed[at] = byte;
            let _ = Model::parse(&changed);
        }
    }
}
