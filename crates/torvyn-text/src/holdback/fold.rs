//! Case folding and the borders of words, one character at a time.

/// Calls `give` with the folded form of `c`: full case folding (`ß` is `ss`, `İ` is `i` and a dot above).
#[inline]
pub fn fold(c: char, mut give: impl FnMut(char)) {
    if c.is_ascii() {
        return give(c.to_ascii_lowercase());
    }
    // Dotless i has the upper case of i and is another letter all the same.
    if c == 'ı' {
        return give(c);
    }
    // Lower, upper, lower: what differs in case only comes to the same, also where one form is missing.
    for lower in c.to_lowercase() {
        for upper in lower.to_uppercase() {
            upper.to_lowercase().for_each(&mut give);
        }
    }
}

/// Whether a word may begin or end between two characters. At both ends of the text one may.
///
/// Letters, digits, marks and the underscore belong together, except in scripts that are written without spaces: there
/// every character has a border on both sides.
#[inline]
pub fn borders(left: Option<char>, right: Option<char>) -> bool {
    let (Some(left), Some(right)) = (left, right) else { return true };
    // A mark belongs to the character before it, in every script.
    if !is_word(left) || !is_word(right) {
        return true;
    }
    (is_spaceless(left) || is_spaceless(right)) && !is_mark(right)
}

#[inline]
fn is_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    regex_syntax::is_word_character(c)
}

/// A part of the character before it that is no letter by itself.
fn is_mark(c: char) -> bool {
    !c.is_ascii() && !c.is_alphanumeric() && c != '\u{203f}' && is_word(c)
}

/// Thai, Lao, Myanmar, Khmer, kana, Han.
fn is_spaceless(c: char) -> bool {
    matches!(c,
        '\u{0e00}'..='\u{0eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}'
        | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{3400}'..='\u{4dbf}'
        | '\u{4e00}'..='\u{9fff}' | '\u{a9e0}'..='\u{a9ff}' | '\u{aa60}'..='\u{aa7f}' | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9d}' | '\u{20000}'..='\u{3ffff}')
}
