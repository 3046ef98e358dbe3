//! The classes of characters: stops, closers, openers, scripts. Pure lookups, no state.

/// The class of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// `.`: the only mark that abbreviations and numbers share.
    Dot,
    /// An ellipsis in one character.
    Ellipsis,
    /// `!`, `?` and their Latin kin.
    Bang,
    /// A full stop that neither abbreviations nor numbers have: final at once.
    AtOnce,
    /// Any other stop of a non-Latin script: final unless white space, a closer or another stop follows.
    Script,
    Other,
}

pub(super) fn mark(c: char) -> Mark {
    match c {
        '.' => Mark::Dot,
        '!' | '?' | '‼' | '‽' | '⁇' | '⁈' | '⁉' | '\u{37e}' => Mark::Bang,
        '…' => Mark::Ellipsis,
        // ideographic, Devanagari, Urdu, Myanmar, Ethiopic, Armenian
        '。' | '｡' | '।' | '۔' | '။' | '።' | '։' => Mark::AtOnce,
        // full-width, Devanagari, Arabic, Ethiopic, Khmer, Mongolian, Lisu, Balinese
        '！' | '？' | '．' | '॥' | '؟' | '፧' | '፨' | '។' | '៕' | '᠃' | '᠉' | '꓿' | '᭞' | '᭟' => {
            Mark::Script
        }
        _ => Mark::Other,
    }
}

/// Quotes and brackets that end something when they follow a stop without white space between.
pub(super) fn is_closing_quote(c: char) -> bool {
    matches!(
        c,
        '"' | '\''
            | ')'
            | ']'
            | '}'
            | '»'
            | '«'
            | '”'
            | '“'
            | '’'
            | '‘'
            | '›'
            | '‹'
            | '」'
            | '』'
            | '）'
            | '】'
            | '》'
            | '〉'
            | '〕'
            | '］'
            | '｝'
            | '｣'
    )
}

/// What may come between a stop and the white space after it: closing quotes, emphasis marks, note numbers, emoji.
pub(super) fn is_closer(c: char) -> bool {
    is_closing_quote(c) || matches!(c, '*' | '_' | '~') || is_superscript(c) || is_emoji(c)
}

/// What may come before the first letter of a sentence.
pub(super) fn is_opener(c: char) -> bool {
    matches!(
        c,
        '(' | '['
            | '{'
            | '¿'
            | '¡'
            | '*'
            | '_'
            | '~'
            | '„'
            | '‚'
            | '「'
            | '『'
            | '（'
            | '【'
            | '《'
            | '〈'
            | '〔'
    ) || matches!(c, '"' | '\'' | '«' | '»' | '“' | '”' | '‘' | '’' | '‹' | '›')
}

pub(super) fn is_dash(c: char) -> bool {
    matches!(c, '-' | '–' | '—' | '―')
}

/// Punctuation that continues a sentence.
pub(super) fn is_comma(c: char) -> bool {
    matches!(c, ',' | ';' | ':' | '、' | '，' | '；' | '：' | '،' | '؛')
}

/// What starts a list item and is not a dash, so it may also occur within a line.
pub(super) fn is_bullet(c: char) -> bool {
    matches!(c, '•' | '⁃' | '‣' | '◦' | '▪' | '●')
}

fn is_superscript(c: char) -> bool {
    matches!(c, '¹' | '²' | '³' | '⁰' | '⁴'..='⁹')
}

/// Letters of the scripts in which a Latin mark has another meaning.
pub(super) fn is_armenian(c: char) -> bool {
    matches!(c, '\u{531}'..='\u{556}' | '\u{561}'..='\u{587}')
}

pub(super) fn is_greek(c: char) -> bool {
    matches!(c, '\u{370}'..='\u{3ff}' | '\u{1f00}'..='\u{1fff}') && c.is_alphabetic()
}

pub(super) fn is_cyrillic(c: char) -> bool {
    matches!(c, '\u{400}'..='\u{52f}')
}

pub(super) fn is_emoji(c: char) -> bool {
    matches!(c,
        '\u{1f000}'..='\u{1faff}' | '\u{2600}'..='\u{27bf}' | '\u{2b00}'..='\u{2bff}'
        | '\u{fe0f}' | '\u{200d}' | '\u{20e3}' | '\u{e0020}'..='\u{e007f}')
}

pub(super) fn is_hiragana(c: char) -> bool {
    matches!(c, '\u{3041}'..='\u{309f}')
}

/// Scripts whose sentences may begin right after a Latin stop, without white space.
pub(super) fn is_cjk(c: char) -> bool {
    is_hiragana(c)
        || matches!(c,
            '\u{30a0}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7a3}' | '\u{20000}'..='\u{3ffff}' | '「' | '『' | '《' | '【')
}

/// What makes a piece more than punctuation.
pub(super) fn is_word_character(c: char) -> bool {
    c.is_alphanumeric() || is_emoji(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_is_both_a_stop_and_a_closer() {
        for c in (0..0x30000).filter_map(char::from_u32) {
            assert!(mark(c) == Mark::Other || !(is_closer(c) || is_opener(c) || is_comma(c)), "{c:?}");
        }
    }

    #[test]
    fn stops_are_never_white_space_or_letters() {
        for c in (0..0x30000).filter_map(char::from_u32).filter(|&c| mark(c) != Mark::Other) {
            assert!(!c.is_whitespace() && !c.is_alphanumeric(), "{c:?}");
        }
    }
}
