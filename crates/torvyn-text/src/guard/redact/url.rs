//! User and password in a URL: only they are removed, so the address stays readable.

use super::Form;
use crate::guard::candidate::{Candidate, Judgement};

const MARK: &str = "://";

pub fn forms() -> Vec<Form> {
    let user = r#"[^\s/?#@:<>"'`\[\]]*"#;
    let password = r#"[^\s/?<>"'`]+"#;
    let pattern = format!(r#"{MARK}{user}:{password}@[^\s/?#@:<>"'`\[\]{{}}$]"#);
    vec![Form { pattern, check: Some(check), begins: None }]
}

fn check(candidate: &Candidate<'_>) -> Judgement {
    let Some(end) = candidate.text.rfind('@') else { return Judgement::Reject };
    let credentials = &candidate.text[MARK.len()..end];
    let password = credentials.split_once(':').map_or("", |(_, password)| password);
    let has_scheme = candidate.before().0.is_some_and(|c| c.is_ascii_alphanumeric());
    if !has_scheme || is_placeholder(password) {
        return Judgement::Reject;
    }
    Judgement::Accept(MARK.len(), end)
}

/// A template variable or asterisks instead of the password.
fn is_placeholder(password: &str) -> bool {
    let is_name =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let in_braces = |text: &str| text.starts_with('{') && text.ends_with('}');
    in_braces(password)
        || password.strip_prefix('$').is_some_and(|rest| in_braces(rest) || is_name(rest))
        || password.strip_prefix('%').and_then(|rest| rest.strip_suffix('%')).is_some_and(is_name)
        || password.chars().all(|c| matches!(c, '*' | '.' | '…' | '•' | 'x' | 'X'))
}
