//! Whole graphemes: what a reader sees as one character is sent in one piece.
//!
//! The last cluster waits until the next one begins, because a mark, a joiner or the second half of a flag may still
//! belong to it. At most `LIMIT` bytes wait, so an endless cluster neither grows nor costs more each time.

use unicode_segmentation::UnicodeSegmentation;

/// More than any emoji family, flag or syllable takes. A longer cluster is sent in parts.
pub const LIMIT: usize = 128;

/// Buffers the last cluster.
#[derive(Debug, Default, Clone)]
pub struct Graphemes {
    cluster: String,
}

impl Graphemes {
    /// Appends to `out` every cluster that `text` completes.
    ///
    /// Clusters are found from the beginning of the buffered one; no rule looks further back.
    pub fn put(&mut self, text: &str, out: &mut String) {
        if text.is_empty() {
            return;
        }
        self.cluster.push_str(text);
        let last = self.cluster.grapheme_indices(true).next_back();
        let start = match last {
            Some((start, cluster)) if !is_complete(cluster) => start,
            _ => self.cluster.len(),
        };
        out.push_str(&self.cluster[..start]);
        self.cluster.drain(..start);
    }

    /// Ends the input: the buffered cluster is sent.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&self.cluster);
        self.cluster.clear();
    }

    pub fn clear(&mut self) {
        self.cluster.clear();
    }

    pub fn held_bytes(&self) -> usize {
        self.cluster.len()
    }
}

/// Nothing joins a control character, and a cluster that is too long does not wait. (A CR may be followed by its LF.)
fn is_complete(cluster: &str) -> bool {
    cluster.len() > LIMIT || cluster.chars().next_back().is_some_and(|last| last.is_control() && last != '\r')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pieces(parts: &[&str]) -> Vec<String> {
        let mut machine = Graphemes::default();
        let mut all = Vec::new();
        for part in parts {
            let mut out = String::new();
            machine.put(part, &mut out);
            all.push(out);
        }
        let mut rest = String::new();
        machine.finish(&mut rest);
        all.push(rest);
        all
    }

    #[test]
    fn a_family_a_flag_and_a_marked_letter_leave_whole() {
        assert_eq!(pieces(&["👩", "\u{200d}", "👧", "!"]), ["", "", "", "👩\u{200d}👧", "!"]);
        assert_eq!(pieces(&["🇩", "🇪", "🇫", "🇷"]), ["", "", "🇩🇪", "", "🇫🇷"]);
        assert_eq!(pieces(&["e", "\u{301}", "x"]), ["", "", "e\u{301}", "x"]);
    }

    #[test]
    fn a_line_end_waits_for_nothing() {
        assert_eq!(pieces(&["a\n", "b", "\r", "\n"]), ["a\n", "", "b", "\r\n", ""]);
    }

    #[test]
    fn an_endless_cluster_is_held_to_the_limit() {
        let mut machine = Graphemes::default();
        let mut out = String::from("");
        for _ in 0..10_000 {
            machine.put("\u{301}", &mut out);
            assert!(machine.held_bytes() <= LIMIT);
        }
        machine.finish(&mut out);
        assert_eq!(out, "\u{301}".repeat(10_000));
    }

    fn clusters() -> impl Strategy<Value = Vec<String>> {
        let pool = "e\u{301} 👩\u{200d}👧🇩🇪🇫🏽क्षि\r\nกำ한\u{1100}\u{1161}a\u{fe0f}#\u{20e3}";
        let characters: Vec<String> = pool.chars().map(String::from).collect();
        prop::collection::vec(prop::sample::select(characters), 0..40)
    }

    proptest! {
        #[test]
        fn every_piece_ends_where_a_cluster_of_the_whole_ends(parts in clusters()) {
            let whole = parts.concat();
            let ends: Vec<usize> = whole.grapheme_indices(true).map(|(at, g)| at + g.len()).collect();
            let split: Vec<&str> = parts.iter().map(String::as_str).collect();
            let mut at = 0;
            for piece in pieces(&split) {
                at += piece.len();
                let long = whole.graphemes(true).any(|cluster| cluster.len() > LIMIT);
                prop_assert!(piece.is_empty() || long || ends.contains(&at));
            }
            prop_assert_eq!(at, whole.len());
        }
    }
}
