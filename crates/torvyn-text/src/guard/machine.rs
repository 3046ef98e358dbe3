//! One guarded stream of text: what waits, what leaves, and what is taken out.

use std::collections::VecDeque;
use std::sync::Arc;

use super::rules::{Action, Finding, Made, Policy, Search, Settings};
use super::{Found, View};

#[derive(Debug, Clone, Copy)]
struct Span {
    start: usize,
    end: usize,
    rule: u32,
    position: u64,
    /// Characters of it that are gone from the view.
    gone: u64,
    exposed: u64,
    goes_on: bool,
}

#[derive(Debug)]
pub struct Guard {
    settings: Arc<Settings>,
    search: Search,
    /// The text that has not left, or may be part of a match that is not complete.
    text: String,
    before: Option<char>,
    /// Bytes and characters of the stream before `text`.
    base: u64,
    base_chars: u64,
    /// Up to where `text` has left or was taken out.
    released: usize,
    /// Up to where matches were acted on.
    covered: usize,
    spans: VecDeque<Span>,
    blocked: Option<u32>,
    found: Vec<Found>,
    findings: Vec<Finding>,
}

impl Guard {
    pub fn new(settings: Arc<Settings>) -> Self {
        let search = settings.rules.search();
        Self {
            settings,
            search,
            text: String::new(),
            before: None,
            base: 0,
            base_chars: 0,
            released: 0,
            covered: 0,
            spans: VecDeque::new(),
            blocked: None,
            found: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Takes text and gives what may leave. After a block nothing does. True: all of it left as it came, and nothing
    /// else did.
    pub fn put(&mut self, text: &str, mut give: impl FnMut(Made<'_>)) -> bool {
        if self.blocked.is_some() {
            return false;
        }
        if self.text.is_empty() && self.spans.is_empty() {
            let view = View { text, before: self.before };
            let live = self.search.advance(view, 0, false, &mut self.found);
            if self.found.is_empty() && live == text.len() {
                self.search.forget(text);
                give(Made::Text { start: self.base, text });
                self.base += text.len() as u64;
                self.base_chars += text.chars().count() as u64;
                self.before = text.chars().next_back().or(self.before);
                return true;
            }
            self.text.push_str(text);
            self.settle(live, give);
            return false;
        }
        let from = self.text.len();
        self.text.push_str(text);
        let view = View { text: &self.text, before: self.before };
        let live = self.search.advance(view, from, false, &mut self.found);
        self.settle(live, &mut give);
        false
    }

    /// The input is over: everything is decided. The guard is as new, but for a block.
    pub fn finish(&mut self, give: impl FnMut(Made<'_>)) {
        if self.blocked.is_none() {
            let view = View { text: &self.text, before: self.before };
            let live = self.search.advance(view, self.text.len(), true, &mut self.found);
            self.settle(live, give);
        }
        let blocked = self.blocked;
        self.clear();
        self.blocked = blocked;
    }

    /// Forgets everything, and that something was found.
    pub fn clear(&mut self) {
        self.search.clear();
        self.text.clear();
        self.before = None;
        (self.base, self.base_chars, self.released, self.covered) = (0, 0, 0, 0);
        self.spans.clear();
        self.found.clear();
        self.blocked = None;
    }

    /// The rule that ended the stream.
    pub fn blocked(&self) -> Option<u32> {
        self.blocked
    }

    pub fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// Bytes that wait here.
    pub fn held_bytes(&self) -> usize {
        self.text.len() - self.released.min(self.text.len())
    }

    /// What was found since the last time.
    pub fn take_findings(&mut self) -> std::vec::Drain<'_, Finding> {
        self.findings.drain(..)
    }

    fn settle(&mut self, live: usize, mut give: impl FnMut(Made<'_>)) {
        let policy = self.settings.policy;
        let mut found = std::mem::take(&mut self.found);
        for found in found.drain(..) {
            if self.settings.action == Action::Block && policy != Policy::Shadow {
                self.block(found, &mut give);
                break;
            }
            self.note(found);
        }
        self.found = found;
        if self.blocked.is_some() {
            return;
        }
        match policy {
            Policy::Hold => self.drain(live, live, &mut give),
            Policy::Optimistic => self.drain(self.text.len(), live, &mut give),
            Policy::Shadow => {
                self.pass(self.text.len(), &mut give);
                self.drain(live, live, &mut give);
            }
        }
        self.trim(live);
    }

    fn chars(&self, start: usize, end: usize) -> u64 {
        if start < end { self.text[start..end].chars().count() as u64 } else { 0 }
    }

    fn block(&mut self, found: Found, give: &mut impl FnMut(Made<'_>)) {
        self.pass(found.start, give);
        self.findings.push(Finding {
            rule: found.rule,
            position: self.base_chars + self.chars(0, found.start),
            length: self.chars(found.start, found.end),
            exposed: self.chars(found.start, self.released.min(found.end)),
        });
        self.blocked = Some(found.rule);
        self.text.clear();
        self.released = 0;
    }

    /// Adds a match to those that wait; matches that overlap are one.
    fn note(&mut self, found: Found) {
        let mut span = Span {
            start: found.start,
            end: found.end,
            rule: found.rule,
            position: self.base_chars + self.chars(0, found.start),
            gone: 0,
            exposed: self.chars(found.start.max(self.covered), self.released.min(found.end)),
            goes_on: found.goes_on,
        };
        while let Some(last) = self.spans.back()
            && (span.start < last.end || last.goes_on)
        {
            span.start = span.start.min(last.start);
            span.end = span.end.max(last.end);
            span.position = span.position.min(last.position);
            // What is gone of the older one lay before the younger one.
            span.gone += last.gone;
            span.exposed = span.exposed.max(last.exposed);
            self.spans.pop_back();
        }
        self.spans.push_back(span);
    }

    fn pass(&mut self, to: usize, give: &mut impl FnMut(Made<'_>)) {
        if to > self.released {
            let text = &self.text[self.released..to];
            give(Made::Text { start: self.base + self.released as u64, text });
            self.released = to;
        }
    }

    /// Lets text go up to `limit`, with the matches before it acted on.
    fn drain(&mut self, limit: usize, live: usize, give: &mut impl FnMut(Made<'_>)) {
        let hurried = self.settings.policy == Policy::Optimistic;
        while let Some(&span) = self.spans.front() {
            if span.start > limit || (span.start == limit && span.end > limit) {
                break;
            }
            self.pass(span.start, give);
            if (span.end > live && !hurried) || (span.goes_on && span.end <= limit) {
                // It may still grow: what is sure of it is dropped, and the rest decides later.
                let cut = limit.min(span.end);
                let gone = self.chars(span.start, cut);
                if let Some(span) = self.spans.front_mut() {
                    span.gone += gone;
                    span.start = cut;
                }
                self.released = self.released.max(cut);
                return;
            }
            self.close(span, give);
        }
        self.pass(limit, give);
    }

    fn close(&mut self, span: Span, give: &mut impl FnMut(Made<'_>)) {
        self.spans.pop_front();
        let length = span.gone + self.chars(span.start, span.end);
        let shadow = self.settings.policy == Policy::Shadow;
        let exposed = if shadow { length } else { span.exposed };
        self.findings.push(Finding { rule: span.rule, position: span.position, length, exposed });
        if !shadow && (span.end > self.released || span.gone > 0) {
            let text = match self.settings.action {
                Action::Replace => self.replacement(span.rule),
                _ => "",
            };
            let start = self.released.max(span.start).min(span.end);
            give(Made::Instead { start: self.base + start as u64, end: self.base + span.end as u64, text });
        }
        self.released = self.released.max(span.end);
        self.covered = self.covered.max(span.end);
    }

    fn replacement(&self, rule: u32) -> &str {
        let known = &self.settings.replacements;
        known.get(rule as usize).or(known.first()).map_or("", String::as_str)
    }

    /// Lets go of the text that nothing needs any more.
    fn trim(&mut self, live: usize) {
        let waiting = self.spans.front().map_or(live, |span| span.start.min(live));
        let keep = waiting.min(self.released);
        if keep == 0 {
            return;
        }
        self.base += keep as u64;
        self.base_chars += self.chars(0, keep);
        self.before = self.text[..keep].chars().next_back();
        self.search.forget(&self.text[..keep]);
        self.text.drain(..keep);
        self.released -= keep;
        self.covered = self.covered.saturating_sub(keep);
        for span in &mut self.spans {
            span.start -= keep;
            span.end -= keep;
        }
    }
}
