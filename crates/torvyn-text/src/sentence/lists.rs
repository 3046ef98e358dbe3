//! List items: which words start one, and which one comes next on the same line.

use super::marks::{is_bullet, is_opener};

const LONGEST_MARK: usize = 16;

/// `1`, `12`, `3.1`, `a`, `IV`, `⁃9`: what numbers the items of a list, without the dot.
pub(super) fn is_item_number(core: &str) -> bool {
    let core = core.trim_start_matches(is_bullet);
    let is_number = |part: &str| (1..=3).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let is_roman = core.len() <= 5
        && (core.bytes().all(|b| matches!(b, b'I' | b'V' | b'X'))
            || core.bytes().all(|b| matches!(b, b'i' | b'v' | b'x')));
    let is_letter = core.len() == 1 && core.bytes().all(|b| b.is_ascii_alphabetic());
    core.len() <= LONGEST_MARK
        && !core.is_empty()
        && (is_roman || is_letter || core.split('.').all(is_number))
}

/// Whether `c` may begin a mark on a new line.
pub(super) fn may_begin_mark(c: char) -> bool {
    matches!(c, '-' | '*' | '+' | '#' | '–') || is_bullet(c) || c.is_ascii_alphanumeric()
}

/// Whether a line starts an item, if `c` after the characters in `word` decides it: `- `, `## `, `12. `, `a) `.
pub(super) fn begins_item(c: char, word: &str) -> Option<bool> {
    if c.is_whitespace() {
        return Some(is_mark(word));
    }
    let may_go_on =
        word.is_empty() || c == '#' || c.is_ascii_digit() || matches!(c, '.' | ')') || is_roman(c, word);
    if may_go_on && word.len() < 6 && may_begin_mark(word.chars().next().unwrap_or(c)) {
        return None;
    }
    Some(false)
}

fn is_roman(c: char, word: &str) -> bool {
    word.chars().chain([c]).all(|c| matches!(c, 'i' | 'v' | 'x'))
}

fn is_mark(word: &str) -> bool {
    let mut characters = word.chars();
    let is_single = matches!((characters.next(), characters.next()), (Some(c), None)
        if matches!(c, '-' | '*' | '+' | '–') || is_bullet(c));
    let is_heading = !word.is_empty() && word.bytes().all(|b| b == b'#');
    let number = word.strip_suffix(['.', ')']).unwrap_or("");
    let is_number = (1..=3).contains(&number.len()) && number.bytes().all(|b| b.is_ascii_digit());
    let is_roman = !number.is_empty() && number.bytes().all(|b| matches!(b, b'i' | b'v' | b'x'));
    // `A. Smith` is a name.
    let is_letter = number.len() == 1
        && number.bytes().all(|b| b.is_ascii_lowercase() || (b.is_ascii_alphabetic() && word.ends_with(')')));
    is_single || is_heading || is_number || is_roman || is_letter
}

/// The start of the next item if `mark` begins a list within a line: `2)` after `1)`, `•` after `•`. Written to `next`,
/// which stays empty if there is none.
pub(super) fn write_next(mark: &str, next: &mut String) {
    next.clear();
    let mark = mark.trim_start_matches(is_opener);
    let number = mark.trim_start_matches(is_bullet);
    let bullets = &mark[..mark.len() - number.len()];
    let value = number.trim_end_matches(['.', ')']);
    let tail = &number[value.len()..];
    if number.is_empty() {
        next.push_str(bullets);
    } else if mark.len() <= LONGEST_MARK && matches!(tail, "." | ")" | ".)") {
        if let (true, Ok(value)) = (value.len() <= 3, value.parse::<u16>()) {
            next.push_str(bullets);
            next.push_str(&(value + 1).to_string());
            next.push_str(tail);
        } else if let [letter @ (b'a'..=b'y' | b'A'..=b'Y')] = value.as_bytes() {
            next.push_str(bullets);
            next.push(char::from(letter + 1));
            next.push_str(tail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(mark: &str) -> String {
        let mut next = String::new();
        write_next(mark, &mut next);
        next
    }

    #[test]
    fn the_next_mark_has_the_form_of_the_first() {
        for (mark, expected) in
            [("1)", "2)"), ("9.", "10."), ("1.)", "2.)"), ("a.", "b."), ("•", "•"), ("⁃9.", "⁃10.")]
        {
            assert_eq!(next(mark), expected);
        }
        for mark in ["", "z.", "word)", "1", "1.2.", "-", "1))"] {
            assert_eq!(next(mark), "", "{mark}");
        }
    }

    #[test]
    fn item_numbers_are_short() {
        for core in ["1", "12", "3.1", "a", "IV", "⁃9"] {
            assert!(is_item_number(core), "{core}");
        }
        for core in ["1980", "", "word", "•"] {
            assert!(!is_item_number(core), "{core}");
        }
    }

    #[test]
    fn marks_of_lines_are_told_from_words() {
        for mark in ["-", "*", "•", "##", "1.", "12)", "a)", "b.", "A)", "iv."] {
            assert!(is_mark(mark), "{mark}");
        }
        for word in ["A.", "ab)", "1", "-5", "", "1980."] {
            assert!(!is_mark(word), "{word}");
        }
    }
}
