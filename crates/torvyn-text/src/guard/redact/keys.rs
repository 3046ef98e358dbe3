//! Secrets: API keys by their documented prefixes, web tokens, PEM blocks.

use super::Form;
use crate::guard::candidate::{Candidate, Judgement};

/// Keys of any length.
const OPEN: &[&str] = &[
    r"sk-[A-Za-z0-9_-]{16,}",
    r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}",
    r"whsec_[A-Za-z0-9+/=]{24,}",
    r"gh[oprsu]_[A-Za-z0-9]{30,}",
    r"github_pat_[A-Za-z0-9_]{22,}",
    r"gl(?:pat|dt|rt|ptt|ft|soat|cbt|imt|agent|oas)-[A-Za-z0-9_-]{20,}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"xoxe\.xox[bp]-[A-Za-z0-9-]{10,}",
    r"xapp-[0-9]-[A-Za-z0-9-]{20,}",
    r"hf_[A-Za-z0-9]{30,}",
    r"npm_[A-Za-z0-9]{36,}",
    r"pypi-[A-Za-z0-9_-]{50,}",
    r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,}",
    r"ya29\.[A-Za-z0-9_-]{30,}",
    r"GOCSPX-[A-Za-z0-9_-]{28,}",
    r"do[opr]_v1_[a-f0-9]{64,}",
    r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32,}",
    r"sq0(?:atp|csp)-[A-Za-z0-9_-]{22,}",
    r"dckr_pat_[A-Za-z0-9_-]{27,}",
    r"gsk_[A-Za-z0-9]{40,}",
    r"r8_[A-Za-z0-9]{37,}",
    r"xai-[A-Za-z0-9]{60,}",
    r"pplx-[A-Za-z0-9]{40,}",
    r"tskey-[a-z]{2,12}-[A-Za-z0-9-]{16,}",
    r"lin_api_[A-Za-z0-9]{32,}",
    r"ntn_[A-Za-z0-9]{40,}",
    r"ATATT3[A-Za-z0-9_=-]{50,}",
    r"NRAK-[A-Z0-9]{27,}",
    r"hv[sbr]\.[A-Za-z0-9_-]{24,}",
    r"glc_[A-Za-z0-9+/=]{32,}",
    r"sntry[su]_[A-Za-z0-9+/=_-]{40,}",
    r"figd_[A-Za-z0-9_-]{40,}",
    r"rubygems_[a-f0-9]{48,}",
    r"PMAK-[a-f0-9]{24}-[a-f0-9]{34,}",
    r"lsv2_(?:pt|sk)_[A-Za-z0-9_]{32,}",
    r"AGE-SECRET-KEY-1[A-Z0-9]{50,}",
    r"[0-9]{8,10}:AA[A-Za-z0-9_-]{33,}",
    r"hooks\.slack\.com/services/T[A-Z0-9]{6,}/B[A-Z0-9]{6,}/[A-Za-z0-9]{16,}",
];

/// Keys of a fixed length: a longer run of such characters is something else.
const FIXED: &[&str] = &[
    r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",
    r"AIza[A-Za-z0-9_-]{35}",
    r"(?:SK|AC)[0-9a-f]{32}",
    r"dapi[a-f0-9]{32}",
    r"key-[a-f0-9]{32}",
];

/// Secrets without a prefix, by the name in front of them.
const NAMED: &[&str] = &[
    r#"(?i-u:secret_?access_?key)["']?[ \t]{0,2}[:=][ \t]{0,2}["']?[A-Za-z0-9/+]{40}"#,
    r"AccountKey=[A-Za-z0-9+/]{40,86}={0,2}",
];

pub fn api_keys() -> Vec<Form> {
    let form = |border: &str, patterns: &[&str], check| Form {
        pattern: format!("{border}(?:{})", patterns.join("|")),
        check: Some(check),
        begins: None,
    };
    let border = r"(?-u:\b)";
    vec![form(border, OPEN, check_open), form(border, FIXED, check_fixed), form("", NAMED, check_named)]
}

/// Words with hyphens and rows of `x` begin like keys too.
fn check_open(candidate: &Candidate<'_>) -> Judgement {
    let text = candidate.text;
    let longest = text.split(|c: char| !c.is_ascii_alphanumeric()).map(str::len).max().unwrap_or(0);
    let is_random = match text.get(..3) {
        Some("sk-") => longest >= 16,
        Some("xox") => text.contains(|c: char| c.is_ascii_digit()),
        _ => true,
    };
    if is_random && is_varied(text) { candidate.accept() } else { Judgement::Reject }
}

fn is_varied(text: &str) -> bool {
    let seen = text.bytes().rev().take(16).fold(0_u128, |seen, byte| seen | 1 << (byte & 0x7f));
    seen.count_ones() > 3
}

fn check_fixed(candidate: &Candidate<'_>) -> Judgement {
    match candidate.after(0) {
        None => Judgement::Wait,
        Some(Some(next)) if next.is_ascii_alphanumeric() || next == '_' => Judgement::Reject,
        Some(_) if is_varied(candidate.text) => candidate.accept(),
        Some(_) => Judgement::Reject,
    }
}

fn check_named(candidate: &Candidate<'_>) -> Judgement {
    let start = candidate.text.find([':', '=']).map_or(0, |at| at + 1);
    let value = candidate.text[start..].trim_start_matches([' ', '\t', '"', '\'']);
    let fixed = Candidate { text: value, ..*candidate };
    match check_fixed(&fixed) {
        Judgement::Accept(..) => Judgement::Accept(candidate.text.len() - value.len(), candidate.text.len()),
        judgement => judgement,
    }
}

pub fn web_tokens() -> Vec<Form> {
    let pattern = r"(?-u:\b)eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]*)?".to_owned();
    vec![Form { pattern, check: None, begins: None }]
}

/// A block counts from the first twenty characters of its content on, and as long as base64 follows. A block without an
/// end is removed up to where it stops being base64, and never buffered whole.
pub fn pem_blocks() -> Vec<Form> {
    let line = |word: &str| format!("-{{4,5}} ?{word} [A-Z0-9 ]{{2,44}}-{{4,5}}");
    // Line ends as they are, escaped, or quoted in programs and mails.
    let gap = r#"(?:[ \t\r\n"'\\>|,;]|\\[nrt])*"#;
    let header = r"[A-Za-z][A-Za-z-]{1,30}: [^\r\n\\]+";
    let (begin, end) = (line("BEGIN"), line("END"));
    let rest = format!("{gap}[A-Za-z0-9+/=]{{0,19}}{gap}{end}|{gap}[A-Za-z0-9+/=]{{1,19}}\\z");
    let pattern = format!("{begin}(?:{gap}{header})*(?:{gap}[A-Za-z0-9+/=]{{20,}})+(?:{rest})?");
    vec![Form { pattern, check: None, begins: None }]
}
