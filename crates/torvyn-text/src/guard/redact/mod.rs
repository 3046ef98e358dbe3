//! What `redact` finds: personal data and secrets, by their shape, their check digits and their context.
//!
//! A shape is a regular expression that finds candidates; its check decides. A number that could be anything is not a
//! match: issuers, country codes, lengths, groups and neighbours must all fit.

mod card;
mod email;
mod iban;
mod keys;
mod network;
mod number;
mod phone;
mod phone_countries;
mod ssn;
mod url;
mod words;

use super::pattern::{PatternError, Patterns, Shape};

/// The kinds, in the order of their rules.
pub const KINDS: [&str; 10] =
    ["email", "card", "phone", "iban", "api-key", "jwt", "ip", "ssn", "pem", "url-password"];

/// Of two kinds that match at one place, the one named first is preferred.
const PREFERENCE: [&str; 10] =
    ["pem", "url-password", "email", "card", "iban", "ip", "ssn", "phone", "jwt", "api-key"];

/// The number of characters within which each kind is recognised; a token may be longer.
const WINDOW: u64 = 320;

#[derive(Debug, thiserror::Error)]
#[error("there is no kind `{0}`")]
pub struct UnknownKind(pub String);

/// The patterns of the named kinds, as rules numbered like `KINDS`.
pub fn redact_patterns<K: AsRef<str>>(kinds: &[K]) -> Result<Result<Patterns, PatternError>, UnknownKind> {
    if let Some(unknown) = kinds.iter().map(AsRef::as_ref).find(|kind| !KINDS.contains(kind)) {
        return Err(UnknownKind(unknown.to_owned()));
    }
    let mut owned: Vec<(u32, Form)> = Vec::new();
    for kind in PREFERENCE.iter().filter(|kind| kinds.iter().any(|wanted| wanted.as_ref() == **kind)) {
        let rule = (0..).zip(KINDS).find(|(_, known)| known == kind).map_or(0, |(rule, _)| rule);
        owned.extend(forms(kind).into_iter().map(|form| (rule, form)));
    }
    let shapes: Vec<Shape<'_>> = owned
        .iter()
        .map(|(rule, form)| Shape {
            pattern: &form.pattern,
            rule: *rule,
            check: form.check,
            begins: form.begins,
        })
        .collect();
    Ok(Patterns::of_shapes(&shapes, WINDOW))
}

/// One way to write a kind.
struct Form {
    pattern: String,
    check: Option<super::candidate::Check>,
    begins: Option<super::candidate::Begins>,
}

fn forms(kind: &str) -> Vec<Form> {
    match kind {
        "email" => email::forms(),
        "card" => card::forms(),
        "phone" => phone::forms(),
        "iban" => iban::forms(),
        "api-key" => keys::api_keys(),
        "jwt" => keys::web_tokens(),
        "ip" => network::forms(),
        "ssn" => ssn::forms(),
        "pem" => keys::pem_blocks(),
        _ => url::forms(),
    }
}
