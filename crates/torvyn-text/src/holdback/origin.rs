//! Maps stretches of normal form to the original characters.
//!
//! A plain ASCII character is one byte of normal form, so only the others are recorded, and a run of characters that
//! add nothing (invisible ones, further white space) is one entry. Going back over a match takes as many steps as its
//! normal form has bytes, however much invisible text it contains.

use std::collections::VecDeque;

use super::normal::borders;

/// Characters that are not one byte of normal form each.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// In bytes of the stream.
    start: u64,
    end: u64,
    /// The bytes of their normal form, with the marks of borders.
    len: u32,
    /// The last character of normal form up to here.
    last: Option<char>,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Origins {
    entries: VecDeque<Entry>,
    /// Bytes of the stream before the view.
    base: u64,
}

impl Origins {
    /// Records that the bytes of the view from `start` to `end` became `len` bytes of normal form. At least the latest
    /// `most` entries are kept.
    pub(super) fn record(&mut self, start: usize, end: usize, len: u32, last: Option<char>, most: usize) {
        let (start, end) = (self.base + start as u64, self.base + end as u64);
        if let Some(before) = self.entries.back_mut()
            && before.end == start
            && len == 0
            && before.len == 0
        {
            (before.end, before.last) = (end, last);
            return;
        }
        if self.entries.len() > most {
            self.entries.pop_front();
        }
        self.entries.push_back(Entry { start, end, len, last });
    }

    /// The first `bytes` of the view were dropped.
    #[inline]
    pub(super) fn forget(&mut self, bytes: usize) {
        self.base += bytes as u64;
        while self.entries.front().is_some_and(|entry| entry.end <= self.base) {
            self.entries.pop_front();
        }
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
        self.base = 0;
    }

    /// Where the characters up to `at` that are part of the normal form end.
    pub(super) fn visible_end(&self, at: usize) -> usize {
        match self.entries.back() {
            Some(entry) if entry.len == 0 && entry.end == self.base + at as u64 => {
                entry.start.saturating_sub(self.base) as usize
            }
            _ => at,
        }
    }

    /// Where the character begins that starts the last `len` bytes of normal form before `at`.
    pub(super) fn back(&self, text: &str, at: usize, len: usize, whole: bool) -> usize {
        let (mut at, mut start, mut seen) = (at, at, 0);
        let mut entries = self.entries.iter().rev().peekable();
        while seen < len && at > 0 {
            if let Some(entry) = entries.next_if(|entry| entry.end == self.base + at as u64) {
                at = entry.start.saturating_sub(self.base) as usize;
                seen += entry.len as usize;
                start = if entry.len > 0 { at } else { start };
                continue;
            }
            let c = plain(text, at);
            at -= 1;
            start = at;
            let before = match entries.peek() {
                Some(entry) if entry.end == self.base + at as u64 => entry.last,
                _ => plain(text, at),
            };
            seen += 1 + usize::from(whole && borders(before, c));
        }
        start
    }
}

/// The normal form of the ASCII character before `at`, up to its case.
fn plain(text: &str, at: usize) -> Option<char> {
    let byte = *text.as_bytes().get(at.checked_sub(1)?)?;
    Some(if byte.is_ascii_whitespace() || byte == 0x0b { ' ' } else { char::from(byte) })
}
