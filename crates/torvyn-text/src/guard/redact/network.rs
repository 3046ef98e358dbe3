//! IP addresses. Loopback, unspecified addresses, masks and version numbers stay.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::Form;
use super::number::{begins_free, is_hyphen, is_word};
use super::words::{NETWORK_WORDS, VERSION_WORDS};
use crate::guard::candidate::{Candidate, Judgement};

/// The first group of an address that is in use: global unicast, local, link-local or multicast.
const FIRST_GROUP: &str =
    "(?:[23][0-9A-Fa-f]{3}|[Ff][CcDd][0-9A-Fa-f]{2}|[Ff][Ee][89AaBb][0-9A-Fa-f]|[Ff]{2}0[0-9A-Fa-f])";

pub fn forms() -> Vec<Form> {
    let v4 = r"(?-u:\b)[0-9]{1,3}(?:\.[0-9]{1,3}){3}".to_owned();
    let v6 = format!(r"(?-u:\b){FIRST_GROUP}(?::{{1,2}}[0-9A-Fa-f]{{1,4}}){{0,7}}(?:::)?");
    vec![
        Form { pattern: v4, check: Some(check_v4), begins: Some(begins_free) },
        Form { pattern: v6, check: Some(check_v6), begins: None },
    ]
}

fn check_v4(candidate: &Candidate<'_>) -> Judgement {
    let Ok(address) = candidate.text.parse::<Ipv4Addr>() else { return Judgement::Reject };
    let octets = address.octets();
    let (before, second) = candidate.before();
    let joined = second.is_some_and(char::is_alphanumeric);
    let begins = match before {
        Some('/') => !joined,
        Some('.') => false,
        Some(hyphen) if is_hyphen(hyphen) => !second.is_some_and(char::is_alphabetic),
        Some(before) => !is_word(before) && !matches!(before, '^' | '~' | '>' | '<'),
        None => true,
    };
    if !begins || matches!(octets[0], 0 | 127 | 255) || (before, second) == (Some('='), Some('=')) {
        return Judgement::Reject;
    }
    match ends_v4(candidate) {
        Judgement::Accept(..) if is_version(candidate, octets) => Judgement::Reject,
        judgement => judgement,
    }
}

/// Four small numbers are a version, unless the context mentions a network.
fn is_version(candidate: &Candidate<'_>, octets: [u8; 4]) -> bool {
    let left = candidate.left_lowercase();
    let names_machine = |c: Option<char>| matches!(c, Some('@' | '/' | '['));
    match (VERSION_WORDS.last_in(&left), NETWORK_WORDS.last_in(&left)) {
        (Some(version), network) if network.is_none_or(|network| version > network) => true,
        (version, network) => {
            // Private networks begin with 10; few versions do.
            let is_small = octets[0] != 10 && octets.iter().all(|octet| *octet < 100);
            let is_named = network.is_some() && version.is_none();
            is_small
                && !is_named
                && !names_machine(candidate.before().0)
                && !candidate.right.starts_with([':', '/'])
        }
    }
}

fn ends_v4(candidate: &Candidate<'_>) -> Judgement {
    let Some(next) = candidate.after(0) else { return Judgement::Wait };
    let second = || candidate.after(1);
    match next {
        Some('.') => match second() {
            None => Judgement::Wait,
            Some(Some(c)) if c.is_alphanumeric() => Judgement::Reject,
            Some(_) => candidate.accept(),
        },
        Some(hyphen) if is_hyphen(hyphen) => match second() {
            None => Judgement::Wait,
            Some(Some(c)) if c.is_alphabetic() => Judgement::Reject,
            Some(_) => candidate.accept(),
        },
        Some(c) if is_word(c) => Judgement::Reject,
        _ => candidate.accept(),
    }
}

fn check_v6(candidate: &Candidate<'_>) -> Judgement {
    if candidate.text.parse::<Ipv6Addr>().is_err() || candidate.before().0 == Some(':') {
        return Judgement::Reject;
    }
    match (candidate.after(0), candidate.after(1)) {
        (None, _) | (Some(Some(':')), None) => Judgement::Wait,
        (Some(Some(':')), Some(Some(c))) if c == ':' || c.is_alphanumeric() => Judgement::Reject,
        (Some(Some(c)), _) if is_word(c) => Judgement::Reject,
        _ => candidate.accept(),
    }
}
