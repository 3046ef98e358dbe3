//! The outermost quotation or bracket that is open, for stops that need no white space after them.
//!
//! A stop of a non-Latin script inside `「...」` does not end the sentence. A quotation that never closes is forgotten
//! at the end of its line or after `REACH` characters, so that such stops are final at once again.

const REACH: u16 = 200;

#[derive(Debug, Clone, Copy)]
struct Open {
    opener: char,
    closer: char,
    depth: u16,
    length: u16,
}

#[derive(Debug, Default, Clone)]
pub(super) struct Quotes {
    open: Option<Open>,
}

impl Quotes {
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Whether `c` closes the open quotation though white space stands before it: `« Oui ! »`.
    pub(super) fn closes_apart(&self, c: char) -> bool {
        c == '»' && self.open.is_some_and(|open| open.closer == c)
    }

    pub(super) fn see(&mut self, c: char) {
        let Some(open) = &mut self.open else {
            self.open = closer_of(c).map(|closer| Open { opener: c, closer, depth: 1, length: 0 });
            return;
        };
        open.length += 1;
        // The closer first: a straight quotation mark is its own opener.
        if c == open.closer {
            open.depth -= 1;
        } else if c == open.opener {
            open.depth = open.depth.saturating_add(1);
        }
        if open.depth == 0 || open.length > REACH || c == '\n' {
            self.open = None;
        }
    }
}

fn closer_of(opener: char) -> Option<char> {
    Some(match opener {
        '「' => '」',
        '『' => '』',
        '｢' => '｣',
        '（' => '）',
        '(' => ')',
        '【' => '】',
        '《' => '》',
        '〈' => '〉',
        '〔' => '〕',
        '［' => '］',
        '“' => '”',
        '«' => '»',
        '"' => '"',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_after(text: &str) -> bool {
        let mut quotes = Quotes::default();
        text.chars().for_each(|c| quotes.see(c));
        quotes.is_open()
    }

    #[test]
    fn a_quotation_is_open_until_its_own_closer() {
        assert!(open_after("「『はい』"));
        assert!(open_after("（（）"));
        assert!(!open_after("「『はい』」"));
        assert!(!open_after("\"はい\""));
    }

    #[test]
    fn a_quotation_that_never_closes_is_forgotten() {
        assert!(!open_after("「はい\n"));
        assert!(!open_after(&format!("「{}", "は".repeat(201))));
    }
}
