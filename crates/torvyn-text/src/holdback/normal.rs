//! The normal form in which listed words are compared, one character at a time.
//!
//! It is Unicode's NFKC_Casefold with three differences: characters stay decomposed, so none waits for the mark after
//! it; control characters are invisible as well; white space is one space. The caller handles runs of white space and
//! the order of marks, which need more than one character.

use std::sync::LazyLock;

use unicode_normalization::char::decompose_compatible;

use super::alphabets::{Letter, letter};

/// Calls `give` with the normal form of `c`: nothing for an invisible character, a space for any white space.
pub fn normalize(c: char, homoglyphs: bool, mut give: impl FnMut(char)) {
    if c.is_ascii() {
        return match c {
            _ if c.is_ascii_whitespace() || c == '\x0b' => give(' '),
            _ if c.is_ascii_control() => {}
            _ => give(c.to_ascii_lowercase()),
        };
    }
    if !homoglyphs {
        if let Some(form) = letter(c).and_then(Letter::normal_form) {
            return form.iter().copied().for_each(give);
        }
        // Most Chinese and Japanese text is its own normal form.
        if matches!(c, '\u{4e00}'..='\u{9fff}') {
            return give(c);
        }
    }
    normalize_slowly(c, homoglyphs, give);
}

pub(super) fn normalize_slowly(c: char, homoglyphs: bool, mut give: impl FnMut(char)) {
    if is_invisible(c) {
        return;
    }
    fold_compatible(c, |c| match c {
        _ if c.is_whitespace() => give(' '),
        _ if is_invisible(c) => {}
        _ if homoglyphs && !c.is_ascii() => prototype(c, &mut give),
        _ => give(c),
    });
}

/// Decomposes and folds until neither changes anything; two rounds are enough.
fn fold_compatible(c: char, mut give: impl FnMut(char)) {
    decompose_compatible(c, |c| fold(c, |c| decompose_compatible(c, |c| fold(c, &mut give))));
}

/// Calls `give` with the folded form of `c`: full case folding (`ß` is `ss`, `İ` is `i` and a dot above).
fn fold(c: char, mut give: impl FnMut(char)) {
    if c.is_ascii() {
        return give(c.to_ascii_lowercase());
    }
    // Dotless i has the upper case of i but is another letter.
    if c == 'ı' {
        return give(c);
    }
    // Lower, upper, lower: characters that differ only in case become the same, even where one form is missing.
    for lower in c.to_lowercase() {
        for upper in lower.to_uppercase() {
            upper.to_lowercase().for_each(&mut give);
        }
    }
}

/// The ASCII letters that a folded character looks like in either case, or else what Unicode's table of confusable
/// characters has for it. Upper case counts because folding hides it: `Т` looks like `T`, and `т` does not.
fn prototype(c: char, mut give: impl FnMut(char)) {
    let skeleton = |c: char| unicode_security::skeleton(c.encode_utf8(&mut [0; 4])).collect::<String>();
    let own = skeleton(c);
    let upper: String = c.to_uppercase().map(skeleton).collect();
    let chosen = if own.is_ascii() || !upper.is_ascii() { own } else { upper };
    // The table writes `m` as `rn`; listed words have `m`.
    if chosen == "rn" {
        return give('m');
    }
    chosen.chars().for_each(|c| fold_compatible(c, &mut give));
}

/// Whether `c` is invisible: control characters, and what Unicode lets a font ignore (zero-width characters, soft
/// hyphens, directional marks, variation selectors, tags).
pub fn is_invisible(c: char) -> bool {
    static IGNORABLE: LazyLock<Vec<(char, char)>> = LazyLock::new(ignorable);
    if c.is_control() {
        return !c.is_whitespace();
    }
    // Annotation anchors are invisible as well and not in the list.
    if matches!(c, '\u{fff9}'..='\u{fffb}') {
        return true;
    }
    let at = IGNORABLE.partition_point(|&(_, last)| last < c);
    IGNORABLE.get(at).is_some_and(|&(first, _)| first <= c)
}

fn ignorable() -> Vec<(char, char)> {
    use regex_syntax::hir::{Class, HirKind};
    let parsed = regex_syntax::parse(r"\p{Default_Ignorable_Code_Point}").map(|hir| hir.into_kind());
    match parsed {
        Ok(HirKind::Class(Class::Unicode(class))) => {
            class.ranges().iter().map(|range| (range.start(), range.end())).collect()
        }
        _ => Vec::new(),
    }
}

/// Whether a word may begin or end between two characters of the normal form. At both ends of the text it may.
///
/// Letters, digits and marks belong together, except in scripts without spaces: there every character has a border on
/// both sides. A mark belongs to the character before it, in every script.
#[inline]
pub fn borders(left: Option<char>, right: Option<char>) -> bool {
    let (Some(left), Some(right)) = (left, right) else { return true };
    if left.is_ascii() && right.is_ascii() {
        return !(left.is_ascii_alphanumeric() && right.is_ascii_alphanumeric());
    }
    if !is_word(left) || !is_word(right) {
        return true;
    }
    (is_spaceless(left) || is_spaceless(right)) && !is_mark(right)
}

fn is_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric();
    }
    letter(c).map_or_else(|| is_word_character(c), |letter| letter.is_word)
}

pub(super) fn is_word_character(c: char) -> bool {
    // The underscore and its relatives connect identifiers and separate words.
    !matches!(c, '\u{203f}' | '\u{2040}' | '\u{2054}') && regex_syntax::is_word_character(c)
}

/// A part of the character before it that is not a letter by itself.
fn is_mark(c: char) -> bool {
    !c.is_ascii() && !c.is_alphanumeric() && is_word(c)
}

/// Whether `c`, inside the normal form of one character, belongs to the letter before it: marks, and the vowels and
/// final consonants of Korean syllables. No match ends before it there.
pub fn is_continuation(c: char) -> bool {
    matches!(c, '\u{1160}'..='\u{11ff}') || is_mark(c)
}

/// Thai, Lao, Myanmar, Khmer, kana, Han.
fn is_spaceless(c: char) -> bool {
    matches!(c,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aa7f}'
        | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use unicode_normalization::UnicodeNormalization;

    use super::*;

    fn normal(text: &str, homoglyphs: bool) -> String {
        let mut out = String::new();
        text.chars().for_each(|c| normalize(c, homoglyphs, |c| out.push(c)));
        out
    }

    #[test]
    fn evasions_come_to_the_same() {
        for text in
            ["secret", "SECRET", "ｓｅｃｒｅｔ", "sec\u{200b}ret", "se\u{ad}cret", "s\u{2060}ecret\u{fe0f}"]
        {
            assert_eq!(normal(text, false), "secret", "{text:?}");
        }
        for text in [
            "𝓼𝓮𝓬𝓻𝓮𝓽",
            "Ⓢⓔⓒⓡⓔⓣ",
            "ſecret",
            "sec\u{202e}ret",
            "sec\0r\u{7f}e\u{9b}t",
            "\u{feff}secret\u{e0041}",
        ] {
            assert_eq!(normal(text, false), "secret", "{text:?}");
        }
        assert_eq!(normal("caf\u{e9}", false), normal("cafe\u{301}", false));
        assert_eq!(normal("a\u{a0}b\tc\u{3000}d", false), "a b c d");
    }

    #[test]
    fn homoglyphs_are_an_option() {
        assert_ne!(normal("ѕесrеt", false), "secret");
        for text in ["ѕесrеt", "ЅЕСRЕТ", "ѕеᴄгет", "sесre𝚝"] {
            assert_eq!(normal(text, true), "secret", "{text:?}");
        }
        assert_eq!(normal("НОВОСТЬ", true), normal("новость", true));
        assert_eq!(normal("com 10 PayPaI", true), "com 10 paypai");
    }

    #[test]
    fn the_normal_form_of_every_character_is_its_own_normal_form() {
        for c in '\0'..=char::MAX {
            let once = normal(c.encode_utf8(&mut [0; 4]), false);
            assert_eq!(normal(&once, false), once, "U+{:04X}", c as u32);
        }
    }

    #[test]
    fn composed_and_decomposed_characters_have_one_normal_form() {
        for c in ('\0'..=char::MAX).filter(|c| !c.is_control()) {
            let text = c.to_string();
            for other in [text.nfd().collect::<String>(), text.nfkd().collect(), text.nfkc().collect()] {
                assert_eq!(normal(&text, false), normal(&other, false), "U+{:04X}", c as u32);
            }
        }
    }
}
