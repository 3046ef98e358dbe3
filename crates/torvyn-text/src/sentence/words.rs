//! The words that decide: abbreviations by how they may end a sentence, and words that usually begin one.
//!
//! All tables are lower case and sorted; a lookup copies at most `ROOM` bytes and allocates nothing.

use super::kind::Kind;

const ROOM: usize = 16;

/// Never the end of a sentence.
const NEVER: &[&str] = &[
    "approx", "bzw", "ca", "capt", "cf", "cmdr", "dr", "e.g", "eg", "esp", "evtl", "ggf", "i.e", "ie",
    "incl", "lt", "messrs", "mme", "mr", "mrs", "ms", "mx", "prof", "resp", "sgt", "sra", "srta", "v.a",
    "viz", "vs", "z.b",
];

/// Never the end of a sentence when written with a capital; otherwise words of their own.
const NEVER_CAPITAL: &[&str] =
    &["adm", "col", "gen", "gov", "hon", "maj", "mlle", "pres", "rep", "rev", "sen", "supt"];

/// The end of a sentence only if the next word usually begins one: `moved to Main St. The house`.
const BEFORE_STARTER: &[&str] = &[
    "al", "assn", "ave", "b.a", "b.sc", "blvd", "bros", "co", "corp", "d.phil", "dept", "dist", "est", "ft",
    "hrs", "inc", "jr", "ltd", "m.a", "m.sc", "mfg", "mt", "mts", "ph.d", "rd", "sr", "st", "tel", "univ",
];

/// As above, when written with a capital: months and days.
const BEFORE_STARTER_CAPITAL: &[&str] = &[
    "apr", "aug", "dec", "feb", "fri", "jan", "jul", "jun", "mar", "mon", "nov", "oct", "sat", "sep", "sept",
    "sun", "thu", "thur", "thurs", "tue", "tues", "wed",
];

/// The end of a sentence if a capital follows: `tea, milk, etc. Then`.
const BEFORE_CAPITAL: &[&str] = &["a.m", "etc", "p.m", "u.ä", "usf", "usw"];

/// Words unless a number follows: `No. 5`, but `No. I will not.`
const BEFORE_NUMBER: &[&str] = &[
    "abs", "app", "art", "bd", "ch", "chap", "ed", "eq", "eqs", "ex", "fig", "figs", "max", "min", "no",
    "nos", "nr", "op", "para", "pp", "pt", "ref", "sec", "sect", "vol", "vols",
];

const STARTERS: &[&str] = &[
    "a",
    "after",
    "all",
    "also",
    "although",
    "an",
    "and",
    "another",
    "any",
    "are",
    "as",
    "at",
    "because",
    "before",
    "both",
    "but",
    "by",
    "can",
    "did",
    "do",
    "does",
    "during",
    "each",
    "even",
    "every",
    "finally",
    "first",
    "for",
    "from",
    "he",
    "her",
    "here",
    "his",
    "how",
    "however",
    "i",
    "if",
    "in",
    "instead",
    "is",
    "it",
    "its",
    "just",
    "later",
    "let",
    "many",
    "meanwhile",
    "most",
    "my",
    "next",
    "no",
    "not",
    "nothing",
    "now",
    "on",
    "once",
    "one",
    "or",
    "our",
    "please",
    "she",
    "since",
    "so",
    "some",
    "still",
    "that",
    "the",
    "their",
    "then",
    "there",
    "these",
    "they",
    "this",
    "those",
    "to",
    "today",
    "two",
    "under",
    "unless",
    "until",
    "was",
    "we",
    "were",
    "what",
    "when",
    "where",
    "which",
    "while",
    "who",
    "why",
    "with",
    "without",
    "yes",
    "yet",
    "you",
    "your",
];

/// No starter is longer, so no look-ahead is either.
pub(super) const LONGEST_STARTER: usize = 9;

/// What a single dot after `core` (the word without openers and dot) says. `line_head`: nothing stands before it.
pub(super) fn kind_of(core: &str, line_head: bool) -> Kind {
    if line_head && is_list_number(core) {
        return Kind::ListNumber;
    }
    let is_capital = core.starts_with(char::is_uppercase);
    let listed = |table| contains(table, core);
    if listed(NEVER) || (is_capital && listed(NEVER_CAPITAL)) {
        Kind::Never
    } else if listed(BEFORE_CAPITAL) {
        Kind::Capital
    } else if listed(BEFORE_NUMBER) {
        Kind::Number
    } else if listed(BEFORE_STARTER) || (is_capital && listed(BEFORE_STARTER_CAPITAL)) || is_initials(core) {
        Kind::Starter
    } else {
        Kind::Plain
    }
}

pub(super) fn is_starter(word: &str) -> bool {
    contains(STARTERS, word)
}

/// `J`, `U.S`, `p`: single cased letters with dots between. `I` alone is a word.
fn is_initials(core: &str) -> bool {
    core.len() <= 2 * ROOM
        && core != "I"
        && core.split('.').all(|part| {
            let mut letters = part.chars();
            letters.next().is_some_and(|c| c.is_uppercase() || c.is_lowercase()) && letters.next().is_none()
        })
}

/// `1`, `12`, `3.1`, `a`, `IV`: what numbers the items of a list.
fn is_list_number(core: &str) -> bool {
    let is_number = |part: &str| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let is_roman = core.len() <= 5 && core.bytes().all(|b| matches!(b, b'I' | b'V' | b'X'));
    let is_letter = core.len() == 1 && core.bytes().all(|b| b.is_ascii_alphabetic());
    core.len() <= ROOM && !core.is_empty() && (is_roman || is_letter || core.split('.').all(is_number))
}

fn contains(table: &[&str], word: &str) -> bool {
    if word.len() > ROOM {
        return false;
    }
    let mut room = [0u8; ROOM];
    let lowered = &mut room[..word.len()];
    lowered.copy_from_slice(word.as_bytes());
    lowered.make_ascii_lowercase();
    table.binary_search_by(|entry| entry.as_bytes().cmp(lowered)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted_lower_case_and_short_enough() {
        let tables = [
            NEVER,
            NEVER_CAPITAL,
            BEFORE_STARTER,
            BEFORE_STARTER_CAPITAL,
            BEFORE_CAPITAL,
            BEFORE_NUMBER,
            STARTERS,
        ];
        for table in tables {
            assert!(table.windows(2).all(|pair| pair[0] < pair[1]), "{table:?}");
            assert!(table.iter().all(|word| word.len() <= ROOM && *word == word.to_ascii_lowercase()));
        }
        assert_eq!(STARTERS.iter().map(|word| word.len()).max(), Some(LONGEST_STARTER));
    }

    #[test]
    fn capitals_tell_abbreviations_from_words() {
        assert_eq!(kind_of("Gen", false), Kind::Never);
        assert_eq!(kind_of("Sat", false), Kind::Starter);
        assert_eq!(kind_of("sat", false), Kind::Plain);
    }

    #[test]
    fn initials_and_acronyms_are_single_letters() {
        for core in ["J", "U.S", "U.S.A", "p", "А"] {
            assert_eq!(kind_of(core, false), Kind::Starter, "{core}");
        }
        for core in ["I", "t.co", "好", "", "3", "a..b"] {
            assert_eq!(kind_of(core, false), Kind::Plain, "{core}");
        }
    }

    #[test]
    fn numbers_are_list_items_only_at_the_head_of_a_line() {
        for core in ["1", "12", "3.1", "a", "IV"] {
            assert_eq!(kind_of(core, true), Kind::ListNumber, "{core}");
        }
        assert_eq!(kind_of("1980", true), Kind::Plain);
        assert_eq!(kind_of("12", false), Kind::Plain);
    }
}
