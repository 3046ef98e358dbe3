//! Partial JSON: takes pieces of text and tells a builder what each one adds. Every byte is read once.
//!
//! The builder gets only what is final: complete keys, complete numbers and literals, and strings part by part.

use crate::json_builder::{Build, PartialError, Scalar};
use crate::scan::is_number;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Expect {
    Value,
    ItemOrEnd,
    KeyOrEnd,
    Key,
    Colon,
    CommaOrEnd,
    Nothing,
}

#[derive(Debug)]
enum Token {
    None,
    Text { is_key: bool, escape: Escape },
    Number(String),
    Word { word: &'static str, at: usize },
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Escape {
    No,
    Backslash,
    Unicode { digits: u8, value: u32 },
}

#[derive(Debug)]
pub struct PartialJson {
    limit: usize,
    /// Whether each open container is an object.
    stack: Vec<bool>,
    expect: Expect,
    token: Token,
    key: String,
    /// The first half of a surrogate pair.
    half: Option<u32>,
    at: usize,
    failed: Option<PartialError>,
}

impl PartialJson {
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            stack: Vec::new(),
            expect: Expect::Value,
            token: Token::None,
            key: String::new(),
            half: None,
            at: 0,
            failed: None,
        }
    }

    /// Whether a complete value has been read. A number at the top level is complete only after `finish`.
    pub fn is_complete(&self) -> bool {
        self.expect == Expect::Nothing && matches!(self.token, Token::None)
    }

    pub fn put(&mut self, text: &str, build: &mut impl Build) -> Result<(), PartialError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let result = self.take(text, build);
        self.failed = result.err();
        result
    }

    /// Ends the input.
    pub fn finish(&mut self, build: &mut impl Build) -> Result<(), PartialError> {
        self.put(" ", build)?;
        if self.is_complete() { Ok(()) } else { Err(PartialError::Unfinished { at: self.at - 1 }) }
    }

    fn take(&mut self, text: &str, build: &mut impl Build) -> Result<(), PartialError> {
        let mut rest = text;
        while let Some(&byte) = rest.as_bytes().first() {
            let taken = match &mut self.token {
                Token::Text { escape: Escape::No, .. } => self.plain(rest, build)?,
                Token::Text { .. } => self.escaped(byte, build)?,
                Token::Number(digits) if matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E') => {
                    digits.push(char::from(byte));
                    1
                }
                Token::Number(_) => self.end_number(build)?,
                Token::Word { .. } => self.word(byte, build)?,
                Token::None => self.structure(byte, build)?,
            };
            self.at += taken;
            rest = &rest[taken..];
        }
        Ok(())
    }

    fn malformed<T>(&self) -> Result<T, PartialError> {
        Err(PartialError::Malformed { at: self.at })
    }

    /// Between tokens.
    fn structure(&mut self, byte: u8, build: &mut impl Build) -> Result<usize, PartialError> {
        match (byte, self.expect) {
            (b' ' | b'\t' | b'\n' | b'\r', _) => {}
            (b']', Expect::ItemOrEnd) => self.close(build),
            (b'}', Expect::KeyOrEnd) => self.close(build),
            (b']' | b'}', Expect::CommaOrEnd) if self.stack.last() == Some(&(byte == b'}')) => {
                self.close(build)
            }
            (b',', Expect::CommaOrEnd) => {
                self.expect = if self.stack.last() == Some(&true) { Expect::Key } else { Expect::Value };
            }
            (b':', Expect::Colon) => self.expect = Expect::Value,
            (b'"', Expect::Key | Expect::KeyOrEnd) => {
                self.token = Token::Text { is_key: true, escape: Escape::No };
            }
            (_, Expect::Value | Expect::ItemOrEnd) => self.value(byte, build)?,
            _ => return self.malformed(),
        }
        Ok(1)
    }

    fn value(&mut self, byte: u8, build: &mut impl Build) -> Result<(), PartialError> {
        match byte {
            b'{' | b'[' => {
                if self.stack.len() == self.limit {
                    return Err(PartialError::TooDeep { limit: self.limit });
                }
                self.stack.push(byte == b'{');
                build.open(byte == b'{');
                self.expect = if byte == b'{' { Expect::KeyOrEnd } else { Expect::ItemOrEnd };
            }
            b'"' => {
                build.begin_text();
                self.token = Token::Text { is_key: false, escape: Escape::No };
            }
            b'-' | b'0'..=b'9' => self.token = Token::Number(char::from(byte).to_string()),
            b't' => self.token = Token::Word { word: "true", at: 1 },
            b'f' => self.token = Token::Word { word: "false", at: 1 },
            b'n' => self.token = Token::Word { word: "null", at: 1 },
            _ => return self.malformed(),
        }
        Ok(())
    }

    fn close(&mut self, build: &mut impl Build) {
        self.stack.pop();
        build.close();
        self.after_value();
    }

    fn after_value(&mut self) {
        self.expect = if self.stack.is_empty() { Expect::Nothing } else { Expect::CommaOrEnd };
    }

    fn end_number(&mut self, build: &mut impl Build) -> Result<usize, PartialError> {
        let Token::Number(digits) = std::mem::replace(&mut self.token, Token::None) else { return Ok(0) };
        if !is_number(digits.as_bytes()) {
            return self.malformed();
        }
        build.scalar(Scalar::Number(&digits));
        self.after_value();
        Ok(0)
    }

    fn word(&mut self, byte: u8, build: &mut impl Build) -> Result<usize, PartialError> {
        let Token::Word { word, at } = &mut self.token else { return Ok(0) };
        if word.as_bytes()[*at] != byte {
            return self.malformed();
        }
        *at += 1;
        if *at == word.len() {
            build.scalar(if *word == "null" { Scalar::Null } else { Scalar::Truth(*word == "true") });
            self.token = Token::None;
            self.after_value();
        }
        Ok(1)
    }

    /// Characters of a string that need no escape, and the one that ends the run.
    fn plain(&mut self, rest: &str, build: &mut impl Build) -> Result<usize, PartialError> {
        let stop = rest.bytes().position(|byte| matches!(byte, b'"' | b'\\' | ..0x20));
        let len = stop.unwrap_or(rest.len());
        if len > 0 {
            self.say(&rest[..len], build);
        }
        match stop.map(|at| rest.as_bytes()[at]) {
            None => return Ok(len),
            Some(b'"') => self.end_text(build),
            Some(b'\\') => self.set_escape(Escape::Backslash),
            Some(_) => {
                self.at += len;
                return self.malformed();
            }
        }
        Ok(len + 1)
    }

    fn end_text(&mut self, build: &mut impl Build) {
        self.say("", build);
        if let Token::Text { is_key: true, .. } = self.token {
            build.key(&std::mem::take(&mut self.key));
            self.expect = Expect::Colon;
        } else {
            build.end_text();
            self.after_value();
        }
        self.token = Token::None;
    }

    fn set_escape(&mut self, to: Escape) {
        if let Token::Text { escape, .. } = &mut self.token {
            *escape = to;
        }
    }

    /// Appends to the open key or string. A waiting half of a surrogate pair stays single.
    fn say(&mut self, part: &str, build: &mut impl Build) {
        let alone = if self.half.take().is_some() { "\u{fffd}" } else { "" };
        for part in [alone, part] {
            match self.token {
                _ if part.is_empty() => {}
                Token::Text { is_key: true, .. } => self.key.push_str(part),
                _ => build.text(part),
            }
        }
    }

    fn escaped(&mut self, byte: u8, build: &mut impl Build) -> Result<usize, PartialError> {
        let Token::Text { escape, .. } = self.token else { return Ok(0) };
        if let Escape::Unicode { digits, value } = escape {
            let Some(digit) = char::from(byte).to_digit(16) else { return self.malformed() };
            let value = value << 4 | digit;
            if digits == 3 {
                self.unicode(value, build);
            } else {
                self.set_escape(Escape::Unicode { digits: digits + 1, value });
            }
            return Ok(1);
        }
        let character = match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.set_escape(Escape::Unicode { digits: 0, value: 0 });
                return Ok(1);
            }
            _ => return self.malformed(),
        };
        self.set_escape(Escape::No);
        self.say(character.encode_utf8(&mut [0; 4]), build);
        Ok(1)
    }

    fn unicode(&mut self, value: u32, build: &mut impl Build) {
        self.set_escape(Escape::No);
        let whole = match (value, self.half) {
            (0xdc00..0xe000, Some(first)) => {
                self.half = None;
                0x1_0000 + ((first - 0xd800) << 10) + (value - 0xdc00)
            }
            (0xd800..0xdc00, _) => {
                self.say("", build);
                self.half = Some(value);
                return;
            }
            _ => value,
        };
        let character = char::from_u32(whole).unwrap_or('\u{fffd}');
        self.say(character.encode_utf8(&mut [0; 4]), build);
    }
}
