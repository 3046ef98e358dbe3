//! The words of all languages, read once from the files in `data/languages`; the format is described there.

use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use super::kind::Kind;
use super::language::{FILES, Languages};

/// No entry is longer, so no longer word is looked up.
pub(super) const ROOM: usize = 32;
/// No opener has more letters, so no look-ahead is longer.
pub(super) const LONGEST_OPENER: usize = 9;

static LEXICON: LazyLock<Lexicon> = LazyLock::new(Lexicon::read);

pub(super) fn lexicon() -> &'static Lexicon {
    &LEXICON
}

type Map<K, V> = HashMap<K, V, foldhash::fast::FixedState>;

#[derive(Debug, Clone, Copy)]
struct Rule {
    kind: Kind,
    language: Languages,
    everywhere: bool,
    capital: bool,
}

#[derive(Debug, Default)]
pub(super) struct Lexicon {
    abbreviations: Map<Box<str>, Vec<Rule>>,
    /// Sorted. The languages of an opener that counts in any language do not matter.
    openers: Vec<(Box<str>, Opener)>,
    common: Map<Box<str>, Languages>,
    letters: Map<char, Languages>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Opener {
    languages: Languages,
    everywhere: bool,
}

impl Lexicon {
    fn read() -> Self {
        let mut lexicon = Self::default();
        let mut openers = BTreeMap::<Box<str>, Opener>::new();
        for (index, (code, text)) in FILES.iter().enumerate() {
            let language = Languages::one(index);
            let mut section = "";
            for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")) {
                if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                    section = name;
                    continue;
                }
                for entry in line.split(' ') {
                    match section {
                        "openers" => add_opener(&mut openers, entry, language),
                        "common" => add(&mut lexicon.common, entry.into(), language),
                        "letters" => entry.chars().for_each(|c| add(&mut lexicon.letters, c, language)),
                        _ => lexicon.add_abbreviation(entry, section, language, *code == "en"),
                    }
                }
            }
        }
        lexicon.openers = openers.into_iter().collect();
        lexicon
    }

    fn add_abbreviation(&mut self, entry: &str, section: &str, language: Languages, is_english: bool) {
        let word = entry.trim_end_matches('?');
        let is_short = !is_english && word.is_ascii() && word.len() <= 2;
        let rule = Rule {
            kind: match section {
                "never" => Kind::Never,
                "starter" => Kind::Starter,
                "number" => Kind::Number,
                "clock" => Kind::Clock,
                _ => Kind::Capital,
            },
            language,
            everywhere: !(is_short || entry.ends_with('?')),
            capital: word.starts_with(char::is_uppercase),
        };
        self.abbreviations.entry(word.to_lowercase().into()).or_default().push(rule);
    }

    /// What a dot after `word` means in a text of `languages`: a rule of those, else one that holds everywhere.
    pub(super) fn abbreviation(&self, word: &str, languages: Languages) -> Option<Kind> {
        let rules = self.rules(word)?;
        let is_capital = word.starts_with(char::is_uppercase);
        let mut fitting = rules.iter().filter(|rule| is_capital || !rule.capital);
        let own = fitting.clone().find(|rule| rule.language.meets(languages));
        own.or_else(|| fitting.find(|rule| rule.everywhere)).map(|rule| rule.kind)
    }

    pub(super) fn has_abbreviation(&self, word: &str) -> bool {
        self.rules(word).is_some()
    }

    fn rules(&self, word: &str) -> Option<&[Rule]> {
        let mut room = Room::default();
        self.abbreviations.get(room.fold(word.chars())?).map(Vec::as_slice)
    }

    /// Whether `word`, which is folded, often begins a sentence.
    pub(super) fn is_opener(&self, word: &str, languages: Languages) -> bool {
        match self.openers.binary_search_by(|(opener, _)| (**opener).cmp(word)) {
            Ok(index) => {
                let opener = self.openers[index].1;
                opener.everywhere || opener.languages.meets(languages)
            }
            Err(_) => false,
        }
    }

    /// Whether an opener begins with `start`, which is folded.
    pub(super) fn may_become_opener(&self, start: &str) -> bool {
        let index = self.openers.partition_point(|(opener, _)| **opener < *start);
        self.openers.get(index).is_some_and(|(opener, _)| opener.starts_with(start))
    }

    /// The languages in which `word`, which is folded, is frequent.
    pub(super) fn common(&self, word: &str) -> Languages {
        self.common.get(word).copied().unwrap_or_default()
    }

    /// The languages that the letter `c` identifies.
    pub(super) fn letter(&self, c: char) -> Languages {
        self.letters.get(&c).copied().unwrap_or_default()
    }
}

fn add<K: std::hash::Hash + Eq>(map: &mut Map<K, Languages>, key: K, language: Languages) {
    let languages = map.entry(key).or_default();
    *languages = languages.with(language);
}

fn add_opener(openers: &mut BTreeMap<Box<str>, Opener>, entry: &str, language: Languages) {
    let opener = openers.entry(entry.trim_end_matches('?').into()).or_default();
    opener.languages = opener.languages.with(language);
    opener.everywhere |= !entry.ends_with('?');
}

/// A buffer for one word in lower case, so that a lookup allocates nothing.
#[derive(Debug, Default)]
pub(super) struct Room([u8; ROOM]);

impl Room {
    /// The characters in lower case, unless there are too many.
    pub(super) fn fold(&mut self, characters: impl Iterator<Item = char>) -> Option<&str> {
        let mut length = 0;
        for c in characters.flat_map(char::to_lowercase) {
            let end = length + c.len_utf8();
            c.encode_utf8(self.0.get_mut(length..end)?);
            length = end;
        }
        std::str::from_utf8(&self.0[..length]).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sentence::Language;

    fn set(code: &str) -> Languages {
        Language::from_code(code).map(Language::set).unwrap_or_default()
    }

    #[test]
    fn entries_fit_their_room_and_openers_are_short() {
        let lexicon = lexicon();
        assert!(lexicon.abbreviations.keys().all(|word| word.len() <= ROOM && !word.ends_with('.')));
        assert!(lexicon.openers.iter().all(|(word, _)| word.chars().count() <= LONGEST_OPENER));
        assert!(lexicon.common.keys().all(|word| word.chars().all(char::is_alphabetic)));
    }

    #[test]
    fn sections_are_the_ones_that_the_format_names() {
        let known = ["never", "starter", "number", "capital", "clock", "openers", "common", "letters"];
        for (code, text) in FILES {
            for line in text.lines().filter(|line| line.starts_with('[')) {
                assert!(known.contains(&line.trim_matches(['[', ']'])), "{code}: {line}");
            }
        }
    }

    #[test]
    fn a_doubtful_abbreviation_counts_only_in_its_language() {
        let lexicon = lexicon();
        assert_eq!(lexicon.abbreviation("med", set("de")), Some(Kind::Starter));
        assert_eq!(lexicon.abbreviation("med", set("en")), None);
        assert_eq!(lexicon.abbreviation("Srta", Languages::default()), Some(Kind::Never));
    }

    #[test]
    fn capitals_tell_abbreviations_from_words() {
        assert_eq!(lexicon().abbreviation("Sat", Languages::default()), Some(Kind::Starter));
        assert_eq!(lexicon().abbreviation("sat", Languages::default()), None);
    }

    #[test]
    fn a_start_that_no_opener_has_is_known_at_once() {
        assert!(lexicon().may_become_opener("howev"));
        assert!(!lexicon().may_become_opener("howeg"));
        assert!(lexicon().is_opener("however", Languages::default()));
        assert!(lexicon().is_opener("die", set("de")) && !lexicon().is_opener("die", set("en")));
    }
}
