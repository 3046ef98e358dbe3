//! Languages by their ISO 639-1 code, and sets of them.

/// The languages that have a word file, and the file. English comes first: where two languages disagree on an
/// abbreviation and the text's language is unknown, the first file wins.
macro_rules! files {
    ($($code:literal),* $(,)?) => {
        pub(super) const FILES: &[(&str, &str)] =
            &[$(($code, include_str!(concat!("../../data/languages/", $code, ".txt")))),*];
    };
}

files!(
    "en", "de", "fr", "es", "it", "pt", "nl", "da", "no", "sv", "pl", "cs", "sk", "fi", "hu", "tr", "ro",
    "ru", "uk", "bg", "kk", "el", "ar", "he", "hi", "mr"
);

/// Languages whose sentences are found by the marks of their script alone.
const BY_SCRIPT: &[&str] = &[
    "am", "bn", "fa", "gu", "hy", "ja", "ka", "km", "kn", "ko", "ml", "my", "ne", "pa", "ta", "te", "th",
    "ur", "zh",
];

/// Other codes for the same rules.
const ALIASES: &[(&str, &str)] = &[("nb", "no"), ("nn", "no")];

/// Languages that write ordinal numbers with a dot: `3. Mai`.
const WITH_ORDINALS: &[&str] = &["de", "da", "no", "pl", "cs", "sk", "fi", "hu", "tr"];

/// The language of a text, which decides how some abbreviations and numbers are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Language(Languages);

impl Language {
    /// By ISO 639-1 code, if it is one of `codes`.
    pub fn from_code(code: &str) -> Option<Self> {
        let code = ALIASES.iter().find(|(alias, _)| *alias == code).map_or(code, |(_, code)| code);
        match FILES.iter().position(|(known, _)| *known == code) {
            Some(index) => Some(Self(Languages::one(index))),
            None => BY_SCRIPT.contains(&code).then_some(Self(Languages::default())),
        }
    }

    /// Every code that `from_code` accepts, sorted.
    pub fn codes() -> Vec<&'static str> {
        let files = FILES.iter().map(|(code, _)| *code);
        let aliases = ALIASES.iter().map(|(alias, _)| *alias);
        let mut codes: Vec<_> = files.chain(BY_SCRIPT.iter().copied()).chain(aliases).collect();
        codes.sort_unstable();
        codes
    }

    pub(super) fn set(self) -> Languages {
        self.0
    }
}

/// A set of languages that have a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Languages(u32);

impl Languages {
    pub(super) fn one(index: usize) -> Self {
        Self(1 << index)
    }

    pub(super) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn indexes(self) -> impl Iterator<Item = usize> {
        (0..FILES.len()).filter(move |index| self.0 & (1 << index) != 0)
    }

    pub(super) fn have_ordinals(self) -> bool {
        self.any_of(WITH_ORDINALS)
    }

    /// Whether a capital may be that of any noun.
    pub(super) fn capitalise_nouns(self) -> bool {
        self.any_of(&["de"])
    }

    fn any_of(self, codes: &[&str]) -> bool {
        self.indexes().any(|index| codes.contains(&FILES[index].0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_two_letters_and_names_a_language() {
        let codes = Language::codes();
        assert!(codes.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(codes.iter().all(|code| code.len() == 2 && Language::from_code(code).is_some()));
        assert!(FILES.len() <= 32);
        assert_eq!(Language::from_code("nb"), Language::from_code("no"));
    }

    #[test]
    fn an_unknown_code_names_nothing() {
        for code in ["", "xx", "EN", "english"] {
            assert_eq!(Language::from_code(code), None);
        }
    }
}
