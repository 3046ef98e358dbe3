//! Reads a field of a flat JSON object without building the object.

/// The text of the field `name`. None also for what is not simple: another value than text, escapes, a value with
/// values of its own, and everything that is not valid. Such an object is left to a parser.
pub fn text_field<'a>(json: &'a [u8], name: &str) -> Option<&'a str> {
    let text = std::str::from_utf8(json).ok()?;
    let mut scan = Scan { text, at: 0 };
    let mut found = None;
    scan.space();
    scan.expect(b'{')?;
    loop {
        scan.space();
        let key = scan.text()?;
        scan.space();
        scan.expect(b':')?;
        scan.space();
        let value = if scan.peek()? == b'"' { Some(scan.text()?) } else { scan.plain().map(|()| None)? };
        if key == name {
            // Of several with the same name, the last one counts.
            found = Some(value);
        }
        scan.space();
        match scan.next()? {
            b',' => {}
            b'}' => break,
            _ => return None,
        }
    }
    scan.space();
    if scan.at == text.len() { found? } else { None }
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    fn peek(&self) -> Option<u8> {
        self.rest().first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then_some(())
    }

    fn space(&mut self) {
        self.at += self.rest().iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
    }

    /// A text without escapes.
    fn text(&mut self) -> Option<&'a str> {
        self.expect(b'"')?;
        let start = self.at;
        self.at += self.rest().iter().position(|byte| matches!(byte, b'"' | b'\\' | 0..0x20))?;
        let text = &self.text[start..self.at];
        self.expect(b'"')?;
        Some(text)
    }

    /// A number or a constant.
    fn plain(&mut self) -> Option<()> {
        let rest = self.rest();
        let constants: [&[u8]; 3] = [b"true", b"false", b"null"];
        if let Some(constant) = constants.into_iter().find(|constant| rest.starts_with(constant)) {
            self.at += constant.len();
            return Some(());
        }
        self.at += usize::from(self.peek()? == b'-');
        let is_zero = self.peek()? == b'0';
        if self.digits()? > 1 && is_zero {
            return None;
        }
        if self.peek()? == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek()?, b'e' | b'E') {
            self.at += 1;
            self.at += usize::from(matches!(self.peek()?, b'+' | b'-'));
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<usize> {
        // Parsers have limits for longer ones.
        const MOST: usize = 64;
        let count = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        (1..=MOST).contains(&count).then_some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::text_field;

    #[test]
    fn a_text_is_found_among_simple_values() {
        let json = br#" {"t": -1.5e+3, "on":true, "s" : "session-7","n":null, "x":"" } "#;
        assert_eq!(text_field(json, "s"), Some("session-7"));
        assert_eq!(text_field(json, "x"), Some(""));
        assert_eq!(text_field(r#"{"s":"a","s":"ä"}"#.as_bytes(), "s"), Some("ä"));
    }

    #[test]
    fn what_is_not_simple_is_left_to_a_parser() {
        let others: [&[u8]; 17] = [
            b"",
            b"{}",
            b"[\"s\"]",
            b"{\"t\":\"x\"}",
            b"{\"s\":1}",
            b"{\"s\":null}",
            b"{\"s\":\"x\",\"s\":1}",
            b"{\"s\":\"x\"",
            b"{\"s\":\"x\"} x",
            b"{\"s\":\"x\",}",
            b"{\"s\":\"\\u0041\"}",
            b"{\"s\":\"x\",\"t\":{}}",
            b"{\"s\":\"x\",\"t\":NaN}",
            b"{\"s\":\"x\",\"t\":01}",
            b"{\"s\":\"x\",\"t\":1.}",
            b"{\"s\":\"a\nb\"}",
            b"{\"s\":\"\xff\"}",
        ];
        for json in others {
            assert_eq!(text_field(json, "s"), None, "{}", String::from_utf8_lossy(json));
        }
    }
}
