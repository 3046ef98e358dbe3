//! What the word before a dot is: an abbreviation, an initial, an ordinal number, or the last word of a sentence.

use super::kind::Kind;
use super::language::Languages;
use super::lexicon::{Room, lexicon};

const LONGEST_INITIALS: usize = 32;
const LONGEST_STREET: usize = 32;
/// Names written with a mark that does not end a sentence.
const NAMES_WITH_BANG: &[&str] = &["ahoy", "jeopardy", "joomla", "kahoot", "yahoo", "yum"];

/// A word with a single dot after it, both without the dot: `core` and the word before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) core: &'a str,
    pub(super) previous: &'a str,
}

impl Word<'_> {
    /// Whether `kind` may be anything but `Plain`, so that the language matters.
    pub(super) fn may_be_special(self) -> bool {
        is_short_number(self.core)
            || is_roman(self.core)
            || is_initials(self.core)
            || is_street(self.core)
            || lexicon().has_abbreviation(without_elision(self.core))
            || self.with_joined(|joined| lexicon().has_abbreviation(joined)).unwrap_or(false)
    }

    pub(super) fn kind(self, languages: Languages) -> Kind {
        if is_short_number(self.core) {
            let may_be_ordinal = languages == Languages::default() || languages.have_ordinals();
            return if may_be_ordinal { Kind::Ordinal } else { Kind::Plain };
        }
        if is_roman(self.core) && languages.have_ordinals() {
            return Kind::Starter;
        }
        let joined = self.with_joined(|joined| lexicon().abbreviation(joined, languages)).flatten();
        joined.or_else(|| lexicon().abbreviation(without_elision(self.core), languages)).unwrap_or_else(
            || if self.is_initial() || is_street(self.core) { Kind::Starter } else { Kind::Plain },
        )
    }

    /// `J`, `U.S`, `p`. `I` alone is a word, unless it follows a name: `Albert I. Jones`.
    fn is_initial(self) -> bool {
        let follows_name = || {
            let mut room = Room::default();
            let folded = room.fold(self.previous.chars()).unwrap_or("");
            self.previous.starts_with(char::is_uppercase)
                && folded.len() > 1
                && self.previous.chars().all(char::is_alphabetic)
                && !lexicon().is_opener(folded, Languages::default())
        };
        is_initials(self.core) && (self.core != "I" || follows_name())
    }

    /// With the dotted word before it, as in `z. B.` and `EE. UU.`: `f` of `z.B`.
    fn with_joined<T>(self, f: impl FnOnce(&str) -> T) -> Option<T> {
        let first = self.previous.strip_suffix('.').filter(|first| first.len() <= 8)?;
        let mut room = Room::default();
        room.fold(first.chars().chain(['.']).chain(self.core.chars())).map(f)
    }
}

/// Whether `word`, before `!`, is a name that has this mark.
pub(super) fn is_name_with_bang(word: &str) -> bool {
    let mut room = Room::default();
    room.fold(word.chars()).is_some_and(|word| NAMES_WITH_BANG.contains(&word))
}

/// `l'Ing` is `Ing` with an article.
fn without_elision(core: &str) -> &str {
    core.rsplit(['\'', '’']).next().unwrap_or(core)
}

/// `Schillerstr`
fn is_street(core: &str) -> bool {
    core.len() <= LONGEST_STREET && core.ends_with("str")
}

/// What an ordinal may be: `3`, `01`, `100`.
fn is_short_number(core: &str) -> bool {
    (1..=3).contains(&core.len()) && core.bytes().all(|b| b.is_ascii_digit())
}

fn is_roman(core: &str) -> bool {
    (2..=6).contains(&core.len()) && core.bytes().all(|b| matches!(b, b'I' | b'V' | b'X' | b'L' | b'C'))
}

/// Single cased letters with dots between.
fn is_initials(core: &str) -> bool {
    core.len() <= LONGEST_INITIALS
        && core.split('.').all(|part| {
            let mut letters = part.chars();
            letters.next().is_some_and(|c| c.is_uppercase() || c.is_lowercase()) && letters.next().is_none()
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sentence::Language;

    fn kind(previous: &str, core: &str, code: &str) -> Kind {
        let languages = Language::from_code(code).map(Language::set).unwrap_or_default();
        Word { core, previous }.kind(languages)
    }

    #[test]
    fn initials_and_acronyms_are_single_letters() {
        for core in ["J", "U.S", "U.S.A", "p", "А"] {
            assert_eq!(kind("", core, "en"), Kind::Starter, "{core}");
        }
        for core in ["I", "t.co", "好", "", "3", "a..b"] {
            assert_eq!(kind("", core, "en"), Kind::Plain, "{core}");
        }
    }

    #[test]
    fn i_is_an_initial_after_a_name() {
        assert_eq!(kind("Albert", "I", "en"), Kind::Starter);
        assert_eq!(kind("and", "I", "en"), Kind::Plain);
        assert_eq!(kind("Did", "I", "en"), Kind::Plain);
    }

    #[test]
    fn numbers_are_ordinals_in_some_languages() {
        assert_eq!(kind("am", "3", "de"), Kind::Ordinal);
        assert_eq!(kind("am", "3", "en"), Kind::Plain);
        assert_eq!(kind("am", "1990", "de"), Kind::Plain);
        assert_eq!(kind("o", "XII", "sk"), Kind::Starter);
        assert_eq!(kind("War", "II", "en"), Kind::Plain);
    }

    #[test]
    fn an_abbreviation_of_two_parts_is_one() {
        assert_eq!(kind("d.", "h", "de"), Kind::Never);
        assert_eq!(kind("т.", "д", "ru"), Kind::Capital);
    }

    #[test]
    fn an_article_is_no_part_of_a_title() {
        assert_eq!(kind("", "l'Ing", "it"), Kind::Never);
    }
}
