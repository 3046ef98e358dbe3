//! A cursor over JSON text that reads what it needs and skips the rest.
//!
//! It returns `None` for anything it does not accept: the caller then gives the text to a full parser, which reports
//! what is wrong. It never recurses.

use std::borrow::Cow;

#[derive(Debug)]
pub struct Cursor<'a> {
    text: &'a str,
    at: usize,
    /// A string had half of a surrogate pair.
    pub saw_half_pair: bool,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0, saw_half_pair: false }
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next byte that is not white space, without consuming it.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.byte() {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
        None
    }

    /// Consumes the next byte if it is `wanted`.
    #[inline]
    pub fn take(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    /// The members of an object or the items of an array: calls `each` until the closing byte.
    pub fn members(&mut self, close: u8, mut each: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        if self.take(close) {
            return Some(());
        }
        loop {
            each(self)?;
            if self.take(close) {
                return Some(());
            }
            if !self.take(b',') {
                return None;
            }
        }
    }

    /// A key and its colon. A key with an escape is not accepted.
    pub fn key(&mut self) -> Option<&'a str> {
        match self.string()? {
            Cow::Borrowed(key) => self.take(b':').then_some(key),
            Cow::Owned(_) => None,
        }
    }

    #[inline]
    pub fn word(&mut self, word: &str) -> bool {
        self.peek();
        let found = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += if found { word.len() } else { 0 };
        found
    }

    /// A whole number that fits.
    pub fn index(&mut self) -> Option<u32> {
        self.peek();
        let digits = &self.text[self.at..];
        let len = digits.bytes().take_while(u8::is_ascii_digit).count();
        if len > 1 && digits.starts_with('0') {
            return None;
        }
        self.at += len;
        digits[..len].parse().ok()
    }

    pub fn string(&mut self) -> Option<Cow<'a, str>> {
        if !self.take(b'"') {
            return None;
        }
        let start = self.at;
        self.plain();
        if self.byte()? == b'"' {
            self.at += 1;
            return Some(Cow::Borrowed(&self.text[start..self.at - 1]));
        }
        let mut whole = self.text[start..self.at].to_owned();
        loop {
            match self.byte()? {
                b'"' => {
                    self.at += 1;
                    return Some(Cow::Owned(whole));
                }
                b'\\' => whole.push(self.escape()?),
                ..0x20 => return None,
                _ => {
                    let from = self.at;
                    self.plain();
                    whole.push_str(&self.text[from..self.at]);
                }
            }
        }
    }

    /// Skips characters that need no escape.
    #[inline]
    fn plain(&mut self) {
        let rest = &self.text.as_bytes()[self.at..];
        let len = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20));
        self.at += len.unwrap_or(rest.len());
    }

    fn escape(&mut self) -> Option<char> {
        let kind = *self.text.as_bytes().get(self.at + 1)?;
        self.at += 2;
        Some(match kind {
            b'"' | b'\\' | b'/' => char::from(kind),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return None,
        })
    }

    fn unicode(&mut self) -> Option<char> {
        let first = self.hex()?;
        if let Some(character) = char::from_u32(first) {
            return Some(character);
        }
        let is_pair = first < 0xdc00 && self.text.as_bytes()[self.at..].starts_with(b"\\u");
        if is_pair {
            self.at += 2;
            let second = self.hex()?;
            if (0xdc00..0xe000).contains(&second) {
                return char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00));
            }
        }
        self.saw_half_pair = true;
        None
    }

    fn hex(&mut self) -> Option<u32> {
        let digits = self.text.get(self.at..self.at + 4)?;
        self.at += 4;
        if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            u32::from_str_radix(digits, 16).ok()
        } else {
            None
        }
    }

    /// Skips a string, a number or a literal.
    pub fn skip_scalar(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(|_| ()),
            b'n' => self.word("null").then_some(()),
            b't' => self.word("true").then_some(()),
            b'f' => self.word("false").then_some(()),
            b'-' | b'0'..=b'9' => self.skip_number(),
            _ => None,
        }
    }

    /// Skips an empty value: `null`, `""`, `[]`, `{}`.
    pub fn skip_nothing(&mut self) -> Option<()> {
        match self.peek()? {
            b'n' => self.word("null").then_some(()),
            b'"' => self.string()?.is_empty().then_some(()),
            b'[' => (self.take(b'[') && self.take(b']')).then_some(()),
            b'{' => (self.take(b'{') && self.take(b'}')).then_some(()),
            _ => None,
        }
    }

    fn skip_number(&mut self) -> Option<()> {
        let rest = &self.text[self.at..];
        let end =
            rest.bytes().position(|byte| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t'));
        let number = &rest[..end.unwrap_or(rest.len())];
        self.at += number.len();
        is_number(number.as_bytes()).then_some(())
    }
}

/// Whether it is a valid JSON number.
pub fn is_number(text: &[u8]) -> bool {
    fn digits(text: &[u8]) -> Option<&[u8]> {
        let len = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
        (len > 0).then(|| &text[len..])
    }
    let text = text.strip_prefix(b"-").unwrap_or(text);
    let Some(mut rest) = (match text.strip_prefix(b"0") {
        Some(rest) => Some(rest),
        None => digits(text),
    }) else {
        return false;
    };
    if let Some(fraction) = rest.strip_prefix(b".") {
        let Some(after) = digits(fraction) else { return false };
        rest = after;
    }
    if let Some(exponent) = rest.strip_prefix(b"e").or_else(|| rest.strip_prefix(b"E")) {
        let exponent =
            exponent.strip_prefix(b"+").or_else(|| exponent.strip_prefix(b"-")).unwrap_or(exponent);
        let Some(after) = digits(exponent) else { return false };
        rest = after;
    }
    rest.is_empty()
}
