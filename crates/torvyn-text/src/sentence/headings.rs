//! Headings: lines that end a sentence without a stop.

use super::marks::{Mark, is_comma, is_dash, mark};

/// No plain heading is longer; lines that an editor has wrapped are.
const LONGEST_PLAIN: usize = 48;
const LONGEST_BYTES: usize = 256;

/// Whether `line` is a heading if the next line begins with `next`. `is_first`: nothing of its sentence comes before
/// it.
pub(super) fn is_heading(line: &str, is_first: bool, next: char) -> bool {
    if line.len() > LONGEST_BYTES {
        return false;
    }
    is_markdown(line) || is_bold(line) || (is_first && next.is_uppercase() && is_title(line))
}

/// `## Title`
fn is_markdown(line: &str) -> bool {
    let text = line.trim_start_matches('#');
    (1..=6).contains(&(line.len() - text.len())) && text.starts_with(' ')
}

/// `**Title**`
fn is_bold(line: &str) -> bool {
    let line = line.strip_suffix(':').unwrap_or(line);
    let inner = line.strip_prefix("**").and_then(|line| line.strip_suffix("**"));
    inner.is_some_and(|inner| !inner.is_empty() && !inner.contains("**"))
}

/// A short line that begins with a capital, has no stop and does not break off.
fn is_title(line: &str) -> bool {
    line.starts_with(char::is_uppercase)
        && !line.ends_with(|c| c != ':' && (is_comma(c) || is_dash(c) || mark(c) != Mark::Other))
        && line.chars().count() <= LONGEST_PLAIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marked_lines_are_headings_whatever_follows() {
        for line in ["# Title", "###### Deep", "**Bold**", "**Bold:**", "**Bold**:"] {
            assert!(is_heading(line, false, 'x'), "{line}");
        }
        for line in ["#tag", "####### Seven", "**a** and **b**", "****", "plain"] {
            assert!(!is_heading(line, false, 'X'), "{line}");
        }
    }

    #[test]
    fn a_short_line_is_a_heading_before_a_capital() {
        assert!(is_heading("Introduction", true, 'T'));
        assert!(!is_heading("Introduction", true, 't'));
        assert!(!is_heading("Introduction", false, 'T'));
        assert!(!is_heading("introduction", true, 'T'));
        assert!(!is_heading("Best regards,", true, 'A'));
        assert!(!is_heading(&"Word ".repeat(20), true, 'T'));
    }
}
