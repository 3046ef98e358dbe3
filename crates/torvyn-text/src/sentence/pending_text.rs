//! The buffered text: the current sentence and the word after it, with the counts that cutting needs.

use super::marks::is_word_character;

/// A position where the buffer may be cut, and what comes before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    pub(super) bytes: usize,
    chars: usize,
    /// Characters without the white space at the end.
    pub(super) content: usize,
    pub(super) has_word: bool,
}

#[derive(Debug, Default, Clone)]
pub(super) struct PendingText {
    text: String,
    chars: usize,
    content: usize,
    has_word: bool,
    previous_start: usize,
    word_start: usize,
    word_has_word: bool,
    last_space: Option<Cut>,
    #[cfg(test)]
    pub(super) moved_bytes: usize,
}

impl PendingText {
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    pub(super) fn len(&self) -> usize {
        self.text.len()
    }

    pub(super) fn chars(&self) -> usize {
        self.chars
    }

    /// The current word up to `end`, which may have been cut off.
    pub(super) fn word_up_to(&self, end: usize) -> &str {
        self.text.get(self.word_start..end).unwrap_or("")
    }

    /// The word before the current one, if nothing was cut between them.
    pub(super) fn previous_word(&self) -> &str {
        self.text.get(self.previous_start..self.word_start).unwrap_or("").trim_end()
    }

    /// Whether the current word has a letter, a digit or an emoji.
    pub(super) fn word_has_word(&self) -> bool {
        self.word_has_word
    }

    pub(super) fn begin_word(&mut self) {
        self.previous_start = self.word_start;
        self.word_start = self.text.len();
        self.word_has_word = false;
    }

    pub(super) fn here(&self) -> Cut {
        Cut { bytes: self.text.len(), chars: self.chars, content: self.content, has_word: self.has_word }
    }

    /// After the last white space if anything comes before it, else right here.
    pub(super) fn last_space_or_here(&self) -> Cut {
        match self.last_space {
            Some(cut) if cut.content > 0 => cut,
            _ => self.here(),
        }
    }

    pub(super) fn push(&mut self, c: char) {
        self.text.push(c);
        self.chars += 1;
        if c.is_whitespace() {
            self.last_space = Some(self.here());
            return;
        }
        self.content = self.chars;
        if is_word_character(c) {
            self.has_word = true;
            self.word_has_word = true;
        }
    }

    /// As `push`, for ASCII letters and digits.
    pub(super) fn push_letters(&mut self, letters: &str) {
        if letters.is_empty() {
            return;
        }
        self.text.push_str(letters);
        self.chars += letters.len();
        self.content = self.chars;
        self.has_word = true;
        self.word_has_word = true;
    }

    /// Sends the text before `cut`. At most a word, or a dash with white space, follows it: each character moves at
    /// most once.
    pub(super) fn cut(&mut self, cut: Cut, out: &mut impl FnMut(&str)) {
        out(&self.text[..cut.bytes]);
        self.text.drain(..cut.bytes);
        self.chars -= cut.chars;
        self.content = self.text.trim_end().chars().count();
        self.word_has_word &= self.chars > 0;
        self.has_word = self.word_has_word;
        self.word_start = self.word_start.saturating_sub(cut.bytes);
        self.previous_start = self.previous_start.saturating_sub(cut.bytes).min(self.word_start);
        self.last_space = (self.content < self.chars).then(|| self.here());
        #[cfg(test)]
        {
            self.moved_bytes += self.text.len();
        }
    }
}
