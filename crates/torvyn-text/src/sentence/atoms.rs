//! Tags `<...>` and code in backticks, inside which no stop counts.
//!
//! What never closes must not block the stream, so a tag and code within a line are given up after `REACH` characters
//! (code within a line also at its end); the text read meanwhile is not read again. A fence lasts until it closes.

const REACH: u16 = 256;
const FENCE: u16 = 3;

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Outside,
    /// After `<`: the next character shows whether this is a tag.
    Angle,
    Tag {
        length: u16,
    },
    /// A run of backticks that opens code.
    Opening {
        ticks: u16,
    },
    Code {
        ticks: u16,
        run: u16,
        length: u16,
    },
}

/// What a character is with respect to tags and code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Text,
    /// Text, and the `<` before it was not a tag.
    TextAfterAngle,
    Inside,
    TagEnd,
    /// Text, right after a fence has closed.
    TextAfterFence,
}

#[derive(Debug, Default, Clone)]
pub(super) struct Atoms {
    state: State,
}

impl Atoms {
    /// Outside of tags and code, where a letter or a digit changes nothing.
    pub(super) fn is_outside(&self) -> bool {
        self.state == State::Outside
    }

    pub(super) fn see(&mut self, c: char) -> Place {
        match self.state {
            State::Outside => {
                self.begin(c);
                Place::Text
            }
            State::Angle if c.is_ascii_alphabetic() || matches!(c, '/' | '!' | '?') => {
                self.state = State::Tag { length: 1 };
                Place::Inside
            }
            State::Angle => self.leave(c, Place::TextAfterAngle),
            State::Tag { length } => self.in_tag(c, length),
            State::Opening { ticks } if c == '`' => {
                self.state = State::Opening { ticks: ticks.saturating_add(1) };
                Place::Inside
            }
            State::Opening { ticks } => self.in_code(c, ticks, 0, 0),
            State::Code { ticks, run, length } => self.in_code(c, ticks, run, length),
        }
    }

    fn begin(&mut self, c: char) {
        self.state = match c {
            '<' => State::Angle,
            '`' => State::Opening { ticks: 1 },
            _ => State::Outside,
        };
    }

    fn leave(&mut self, c: char, place: Place) -> Place {
        self.begin(c);
        place
    }

    fn in_tag(&mut self, c: char, length: u16) -> Place {
        match c {
            '>' => {
                self.state = State::Outside;
                Place::TagEnd
            }
            '<' => {
                self.state = State::Angle;
                Place::Inside
            }
            _ if length >= REACH => self.leave(c, Place::TextAfterAngle),
            _ => {
                self.state = State::Tag { length: length + 1 };
                Place::Inside
            }
        }
    }

    fn in_code(&mut self, c: char, ticks: u16, run: u16, length: u16) -> Place {
        let is_fence = ticks >= FENCE;
        if c == '`' {
            self.state = State::Code { ticks, run: run.saturating_add(1), length };
            return Place::Inside;
        }
        if is_fence && run >= ticks {
            return self.leave(c, Place::TextAfterFence);
        }
        let given_up = !is_fence && (c == '\n' || length >= REACH);
        if run == ticks || given_up {
            return self.leave(c, Place::Text);
        }
        self.state = State::Code { ticks, run: 0, length: length.saturating_add(1) };
        Place::Inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(text: &str) -> String {
        let mut atoms = Atoms::default();
        text.chars()
            .map(|c| if matches!(atoms.see(c), Place::Inside | Place::TagEnd) { 'x' } else { '-' })
            .collect()
    }

    #[test]
    fn a_tag_is_atomic_and_a_comparison_is_not_a_tag() {
        assert_eq!(inside("a <b.c> d"), "---xxxx--");
        assert_eq!(inside("1 < 2 <3"), "--------");
        assert_eq!(inside("<<b>"), "--xx");
    }

    #[test]
    fn code_ends_at_a_run_of_its_own_length() {
        assert_eq!(inside("`a.` b"), "-xxx--");
        assert_eq!(inside("``a`b`` c"), "-xxxxxx--");
        assert_eq!(inside("```\na. `b`\n``` c"), format!("-{}--", "x".repeat(13)));
    }

    #[test]
    fn what_never_closes_is_given_up() {
        assert!(inside(&format!("<b {}", ".".repeat(300))).ends_with('-'));
        assert!(inside(&format!("`b {}", ".".repeat(300))).ends_with('-'));
        assert_eq!(inside("`b\nc"), "-x--");
    }
}
