//! Text to sentences, as it streams. Constant cost per character; what is held is the sentence and at most one word more.
//!
//! `Simple` is defined by tokens: a token that ends in `.`, `!` or `?` ends the sentence, which leaves trimmed.
//! `Normal` is defined by characters: nothing is trimmed, the outputs joined are the input, and they are the same for
//! every split of it. White space after a boundary belongs to the sentence before, so a boundary is known when the next
//! word begins. One exception buys latency: the full stops that no abbreviation and no number has (`。`, `।`, `۔`, `။`,
//! `።`, `։`) are final at once, and white space that follows begins the next sentence. Inside an open quotation they wait,
//! so that `「はい。」` stays whole. Other stops of non-Latin scripts come in runs (`！？`) and wait for one character.

mod atoms;
mod evidence;
mod headings;
mod kind;
mod language;
mod lexicon;
mod lists;
mod marks;
mod pending_text;
mod quotes;
mod scan;
mod stop;
#[cfg(test)]
mod tests;
mod words;

pub use language::Language;

use scan::Scan;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    Simple,
    #[default]
    Normal,
}

/// Lengths are in characters. A sentence shorter than `min` (the first: `first_min`), its trailing white space not
/// counted, goes on into the next; one of `max` characters is cut at its last white space, else hard. `max = 0`: no
/// limit. Lengths have no meaning in simple mode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    pub mode: Mode,
    pub first_min: usize,
    pub min: usize,
    pub max: usize,
    /// Of the text; `None`: found from the text itself. It has no meaning in simple mode.
    pub language: Option<Language>,
}

/// The splitter. `finish` and `clear` reset it.
#[derive(Debug, Clone)]
pub struct Splitter {
    options: Options,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    Simple(String),
    Normal(Box<Scan>),
}

impl Splitter {
    pub fn new(options: Options) -> Self {
        let state = match options.mode {
            Mode::Simple => State::Simple(String::new()),
            Mode::Normal => State::Normal(Box::new(Scan::new(options))),
        };
        Self { options, state }
    }

    /// Takes one piece of text (in simple mode: one token) and passes every sentence it completes to `out`.
    pub fn put(&mut self, text: &str, mut out: impl FnMut(&str)) {
        match &mut self.state {
            State::Normal(scan) => {
                let mut rest = scan.feed_letters(text).chars();
                while let Some(c) = rest.next() {
                    scan.feed(c, &mut out);
                    rest = scan.feed_letters(rest.as_str()).chars();
                }
            }
            State::Simple(buffer) => {
                buffer.push_str(text);
                if text.trim_end().ends_with(['.', '!', '?']) {
                    out(buffer.trim());
                    buffer.clear();
                }
            }
        }
    }

    /// Ends the input: the buffer is the last sentence, if it has anything (in simple mode: anything not blank).
    pub fn finish(&mut self) -> Option<String> {
        let last = self.flush_idle();
        self.clear();
        last
    }

    /// Sends the buffer when no input has come for a while; the text continues afterwards.
    pub fn flush_idle(&mut self) -> Option<String> {
        match &mut self.state {
            State::Normal(scan) => scan.take(),
            State::Simple(buffer) => {
                let sentence = buffer.trim().to_owned();
                buffer.clear();
                (!sentence.is_empty()).then_some(sentence)
            }
        }
    }

    /// Resets the splitter.
    pub fn clear(&mut self) {
        match &mut self.state {
            State::Normal(scan) => **scan = Scan::new(self.options),
            State::Simple(buffer) => buffer.clear(),
        }
    }

    /// Bytes in the buffer, for the owner's budget.
    pub fn held_bytes(&self) -> usize {
        match &self.state {
            State::Normal(scan) => scan.pending().len(),
            State::Simple(buffer) => buffer.len(),
        }
    }

    #[cfg(test)]
    fn moved_bytes(&self) -> usize {
        match &self.state {
            State::Normal(scan) => scan.moved_bytes(),
            State::Simple(_) => 0,
        }
    }

    #[cfg(test)]
    fn counted_bytes(&self) -> usize {
        match &self.state {
            State::Normal(scan) => scan.counted_bytes(),
            State::Simple(_) => 0,
        }
    }

    #[cfg(test)]
    fn steps(&self) -> usize {
        match &self.state {
            State::Normal(scan) => scan.steps,
            State::Simple(_) => 0,
        }
    }
}
