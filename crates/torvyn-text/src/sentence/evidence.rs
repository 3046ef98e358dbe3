//! Detects the language of a text from its frequent words and its letters.
//!
//! The result depends only on the characters before the position where it is needed, so it is the same for every split
//! of the text and never changes a sentence that was sent. It is needed rarely (at a number with a dot, at a doubtful
//! abbreviation), so words are counted only then, each of them once, and at the start of a text.

use super::Language;
use super::language::{FILES, Languages};
use super::lexicon::{Room, lexicon};

/// So many words at the start of a text are always counted.
const FIRST_WORDS: u32 = 64;
/// Older words count half when a score reaches this.
const FULL: u8 = 64;
const WORD_POINTS: u8 = 1;
const LETTER_POINTS: u8 = 2;

#[derive(Debug, Clone)]
pub(super) struct Evidence {
    fixed: Option<Languages>,
    scores: [u8; FILES.len()],
    words: u32,
    /// The position of the first word in the buffer that was not counted.
    read: usize,
    #[cfg(test)]
    pub(super) counted_bytes: usize,
}

impl Evidence {
    pub(super) fn new(language: Option<Language>) -> Self {
        Self {
            fixed: language.map(Language::set),
            scores: [0; FILES.len()],
            words: 0,
            read: 0,
            #[cfg(test)]
            counted_bytes: 0,
        }
    }

    /// The languages that `text`, the buffered text up to here, is probably written in.
    pub(super) fn languages(&mut self, text: &str) -> Languages {
        if let Some(fixed) = self.fixed {
            return fixed;
        }
        self.count(text);
        let best = u32::from(self.scores.iter().copied().max().unwrap_or(0));
        let mut languages = Languages::default();
        for (index, score) in self.scores.iter().enumerate() {
            if 3 * u32::from(*score) > 2 * best {
                languages = languages.with(Languages::one(index));
            }
        }
        languages
    }

    /// `text`, the beginning of the buffer, is about to be sent.
    pub(super) fn leave(&mut self, text: &str) {
        if self.fixed.is_none() && self.words < FIRST_WORDS {
            self.count(text);
        }
        self.read = self.read.saturating_sub(text.len());
    }

    fn count(&mut self, text: &str) {
        let Some(new) = text.get(self.read..) else { return };
        self.read = text.len();
        #[cfg(test)]
        {
            self.counted_bytes += new.len();
        }
        for word in new.split(|c: char| !c.is_alphabetic()).filter(|word| !word.is_empty()) {
            self.words = self.words.saturating_add(1);
            let mut room = Room::default();
            let Some(word) = room.fold(word.chars()) else { continue };
            self.credit(lexicon().common(word), WORD_POINTS);
            if !word.is_ascii() {
                word.chars().for_each(|c| self.credit(lexicon().letter(c), LETTER_POINTS));
            }
        }
    }

    fn credit(&mut self, languages: Languages, points: u8) {
        for index in languages.indexes() {
            self.scores[index] += points;
            if self.scores[index] >= FULL {
                self.scores.iter_mut().for_each(|score| *score /= 2);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(text: &str) -> Languages {
        Evidence::new(None).languages(text)
    }

    fn is(text: &str, code: &str) -> bool {
        Language::from_code(code).is_some_and(|language| detect(text).meets(language.set()))
    }

    #[test]
    fn a_few_frequent_words_are_enough() {
        assert!(is("Was sind die Konsequenzen der Abstimmung vom", "de"));
        assert!(is("Ce modèle permet d'afficher le texte", "fr"));
        assert!(is("Toto sa mi podarilo až na", "sk"));
        assert!(is("They closed the deal", "en") && !is("They closed the deal", "de"));
    }

    #[test]
    fn text_without_a_known_word_is_of_no_language() {
        assert_eq!(detect("Xyzzy 12"), Languages::default());
        assert_eq!(detect(""), Languages::default());
    }

    #[test]
    fn a_given_language_is_not_argued_with() {
        let german = Language::from_code("de");
        assert_eq!(
            Evidence::new(german).languages("This is the text."),
            german.map(Language::set).unwrap_or_default()
        );
    }

    #[test]
    fn a_long_text_may_change_its_language() {
        let text = format!("{}{}", "the ".repeat(1_000), "der die und ".repeat(100));
        assert!(is(&text, "de"));
    }

    #[test]
    fn what_has_left_still_counts_and_nothing_counts_twice() {
        let mut evidence = Evidence::new(None);
        evidence.leave("Der Hund ist da. ");
        let scores = evidence.scores;
        assert!(evidence.languages("").have_ordinals());
        assert_eq!(evidence.scores, scores);
    }
}
