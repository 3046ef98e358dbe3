//! E-mail addresses, with letters of any script.

use super::Form;
use crate::guard::candidate::{Candidate, Judgement};

/// Letters, marks and digits beyond ASCII, by blocks; the check reads each.
const LETTERS: &str = r"\u{b5}\u{c0}-\u{dff}\u{f00}-\u{fff}\u{10a0}-\u{177f}\u{1800}-\u{1fff}\u{2c00}-\u{2dff}\u{a4d0}-\u{d7ff}";
/// Scripts without spaces between words: an address may stand right after a sentence.
const SPACELESS: &str = r"\u{e00}-\u{eff}\u{1000}-\u{109f}\u{1780}-\u{17ff}\u{3005}-\u{3007}\u{3041}-\u{30ff}\u{3400}-\u{9fff}\u{f900}-\u{faff}";
/// Top-level domains in those scripts: they end there, whatever follows.
const SPACELESS_DOMAINS: [&str; 28] = [
    "中国",
    "中國",
    "公司",
    "网络",
    "网址",
    "香港",
    "台湾",
    "台灣",
    "新加坡",
    "在线",
    "中文网",
    "政务",
    "公益",
    "商城",
    "集团",
    "我爱你",
    "组织机构",
    "机构",
    "世界",
    "网站",
    "商店",
    "广告",
    "みんな",
    "コム",
    "ストア",
    "クラウド",
    "ไทย",
    "ລາວ",
];

pub fn forms() -> Vec<Form> {
    let plain = format!(r"[A-Za-z0-9_{LETTERS}][A-Za-z0-9_.%+'&\-{LETTERS}]*");
    let spaceless = format!("[{SPACELESS}]{{1,6}}[0-9._-]*");
    let label = format!(r"[A-Za-z0-9{LETTERS}{SPACELESS}][A-Za-z0-9\-{LETTERS}{SPACELESS}]*");
    let top = format!(
        r"xn--[A-Za-z0-9-]{{2,59}}|[A-Za-z]{{2,24}}|[{LETTERS}]{{2}}[{LETTERS}]*|[{SPACELESS}]{{2,5}}"
    );
    let pattern = format!(r"(?:{plain}|{spaceless})[@＠](?:{label}\.)+(?:{top})");
    vec![Form { pattern, check: Some(check), begins: None }]
}

/// File extensions that are not top-level domains.
const FILES: [&str; 25] = [
    "png", "jpg", "jpeg", "gif", "webp", "svg", "bmp", "ico", "css", "scss", "js", "jsx", "mjs", "ts", "tsx",
    "json", "html", "htm", "xml", "yaml", "yml", "txt", "csv", "pdf", "whl",
];

fn check(candidate: &Candidate<'_>) -> Judgement {
    let Some((local, domain)) = candidate.text.split_once(['@', '＠']) else { return Judgement::Reject };
    let is_known = |c: char| c.is_ascii() || regex_syntax::is_word_character(c);
    let start = local.rfind(|c| !is_known(c)).map_or(0, |at| at + char_len(local, at));
    let top = domain.rsplit('.').next().unwrap_or_default();
    let is_file = FILES.iter().any(|file| top.eq_ignore_ascii_case(file));
    let is_url = candidate.before() == (Some('/'), Some('/'));
    if start == local.len() || is_file || is_url || !domain.chars().all(is_known) {
        return Judgement::Reject;
    }
    let whole = Judgement::Accept(start, candidate.text.len());
    match candidate.after(0) {
        None => Judgement::Wait,
        Some(Some(c)) if c.is_ascii_alphabetic() && top.is_ascii() => Judgement::Reject,
        Some(Some(c)) if is_spaceless(c) && top.chars().all(is_spaceless) => {
            if SPACELESS_DOMAINS.contains(&top) { whole } else { Judgement::Reject }
        }
        // `git@host:path` is the location of a repository.
        Some(Some(':')) if matches!(local, "git" | "hg" | "svn") => match candidate.after(1) {
            None => Judgement::Wait,
            Some(Some(c)) if c.is_ascii_alphabetic() || c == '~' || c == '/' => Judgement::Reject,
            Some(_) => whole,
        },
        Some(_) => whole,
    }
}

fn char_len(text: &str, at: usize) -> usize {
    text[at..].chars().next().map_or(0, char::len_utf8)
}

fn is_spaceless(c: char) -> bool {
    matches!(c, '\u{e00}'..='\u{eff}' | '\u{1000}'..='\u{109f}' | '\u{1780}'..='\u{17ff}' | '\u{3005}'..='\u{3007}'
        | '\u{3041}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}')
}
