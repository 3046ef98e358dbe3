//! The letters of the common alphabets, looked up once: Latin, Greek, Cyrillic, Armenian, Hebrew, Arabic.

use std::sync::LazyLock;

use super::normal::{is_word_character, normalize_slowly};

const FIRST: u32 = 0x80;
const END: u32 = 0x700;

/// Longer normal forms are computed each time.
const MOST: usize = 3;

#[derive(Debug, Clone, Copy)]
pub(super) struct Letter {
    form: [char; MOST],
    len: usize,
    pub(super) is_word: bool,
}

static LETTERS: LazyLock<Vec<Letter>> =
    LazyLock::new(|| (FIRST..END).filter_map(char::from_u32).map(look_up).collect());

/// A character beyond ASCII, if it is one of these.
#[inline]
pub(super) fn letter(c: char) -> Option<&'static Letter> {
    let at = (c as u32).wrapping_sub(FIRST);
    if at < END - FIRST { LETTERS.get(at as usize) } else { None }
}

impl Letter {
    /// Its normal form, unless that is long.
    #[inline]
    pub(super) fn normal_form(&self) -> Option<&[char]> {
        self.form.get(..self.len)
    }
}

fn look_up(c: char) -> Letter {
    let mut letter = Letter { form: ['\0'; MOST], len: 0, is_word: is_word_character(c) };
    normalize_slowly(c, false, |c| {
        if let Some(place) = letter.form.get_mut(letter.len) {
            *place = c;
        }
        letter.len += 1;
    });
    letter
}
