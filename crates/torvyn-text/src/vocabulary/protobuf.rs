//! The wire format of protocol buffers, as far as walking the fields of a message needs it.
//!
//! Nothing is allocated from a length that a file claims: every length is checked against the data.

/// The value of one field.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    Varint(u64),
    Bytes(&'a [u8]),
    /// A fixed number, which no caller needs.
    Fixed,
}

/// The fields of a message, in the order of the file. An error ends the iteration.
pub struct Fields<'a> {
    rest: &'a [u8],
    size: usize,
}

/// Where a message is invalid, counted from its own start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    pub at: usize,
}

impl<'a> Fields<'a> {
    pub fn of(message: &'a [u8]) -> Self {
        Self { rest: message, size: message.len() }
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = *self.take(1)?.first()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        (tag >> 3 != 0).then_some((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Broken>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let at = self.size - self.rest.len();
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field.ok_or(Broken { at }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_order() {
        let message = b"\x08\x96\x01\x12\x02hi\x1d\0\0\0\0";
        let fields: Vec<_> = Fields::of(message).collect::<Result<_, _>>().expect("it is well formed");
        assert_eq!(fields, [(1, Value::Varint(150)), (2, Value::Bytes(b"hi")), (3, Value::Fixed)]);
    }

    #[test]
    fn a_length_beyond_the_end_is_an_error_and_the_last_thing() {
        let mut fields = Fields::of(b"\x08\x01\x12\xff\xff\xff\xff\x7fhi");
        assert_eq!(fields.next(), Some(Ok((1, Value::Varint(1)))));
        assert_eq!(fields.next(), Some(Err(Broken { at: 2 })));
        assert_eq!(fields.next(), None);
    }

    #[test]
    fn a_number_that_never_ends_is_an_error() {
        assert_eq!(Fields::of(&[0xff; 20]).next(), Some(Err(Broken { at: 0 })));
    }
}
