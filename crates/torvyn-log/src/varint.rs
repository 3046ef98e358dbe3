//! Integers of variable length: seven bits per byte, lowest first.

pub fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Signed values near zero are short.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Reads from the front of `data`; `None` when it ends too early or the number is too long.
pub fn take(data: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (at, &byte) in data.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f).checked_shl(7 * at as u32)?;
        if byte & 0x80 == 0 {
            *data = &data[at + 1..];
            return Some(value);
        }
    }
    None
}

pub fn take_signed(data: &mut &[u8]) -> Option<i64> {
    let value = take(data)?;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

/// Takes so many bytes from the front of `data`.
pub fn take_bytes<'a>(data: &mut &'a [u8], len: u64) -> Option<&'a [u8]> {
    let (front, rest) = data.split_at_checked(usize::try_from(len).ok()?)?;
    *data = rest;
    Some(front)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_come_back(value: u64, signed: i64) {
            let mut out = Vec::new();
            put(&mut out, value);
            put_signed(&mut out, signed);
            let mut rest = out.as_slice();
            prop_assert_eq!((take(&mut rest), take_signed(&mut rest)), (Some(value), Some(signed)));
            prop_assert!(rest.is_empty());
        }
    }
}
