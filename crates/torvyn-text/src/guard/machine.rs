//! The guard of one stream of text: it buffers, sends, removes and replaces.

use std::collections::VecDeque;
use std::sync::Arc;

use super::rules::{Action, Finding, Made, Policy, Search, Settings};
use super::span::Span;
use super::{Found, View};

#[derive(Debug)]
pub struct Guard {
    settings: Arc<Settings>,
    search: Search,
    /// The text that was not sent, or may be part of an incomplete match.
    text: String,
    before: Option<char>,
    /// Bytes and characters of the stream before `text`.
    base: u64,
    base_chars: u64,
    /// The end of the part of `text` that was sent or removed.
    released: usize,
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
            spans: VecDeque::new(),
            blocked: None,
            found: Vec::new(),
            findings: Vec::new(),
        }
    }

    /// Takes text and returns what may be sent. After a block that is nothing. True: all of it was sent unchanged, and
    /// nothing else.
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

    /// Ends the input: everything is decided. The guard is reset, except for a block.
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

    /// Releases the buffered text, because something behind it cannot wait any longer. What would match if the text
    /// ended here is acted on. A match that continues is still found: the rest of it is acted on, and what was sent
    /// counts as exposed.
    pub fn release(&mut self, mut give: impl FnMut(Made<'_>)) {
        if self.blocked.is_some() {
            return;
        }
        let end = self.text.len();
        let view = View { text: &self.text, before: self.before };
        let live = self.search.advance(view, end, false, &mut self.found);
        self.search.clone().advance(view, end, true, &mut self.found);
        self.act_on_found(&mut give);
        if self.blocked.is_none() {
            self.drain(end, live, true, &mut give);
            self.trim(live);
        }
    }

    /// Drops the buffer and the findings.
    pub fn clear(&mut self) {
        self.search.clear();
        self.text.clear();
        self.before = None;
        (self.base, self.base_chars, self.released) = (0, 0, 0);
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

    /// Bytes in the buffer.
    pub fn held_bytes(&self) -> usize {
        self.text.len() - self.released.min(self.text.len())
    }

    /// The findings since the last call.
    pub fn take_findings(&mut self) -> std::vec::Drain<'_, Finding> {
        self.findings.drain(..)
    }

    fn settle(&mut self, live: usize, mut give: impl FnMut(Made<'_>)) {
        self.act_on_found(&mut give);
        if self.blocked.is_some() {
            return;
        }
        match self.settings.policy {
            Policy::Hold => self.drain(live, live, false, &mut give),
            Policy::Optimistic => self.drain(self.text.len(), live, true, &mut give),
            Policy::Shadow => {
                self.pass(self.text.len(), &mut give);
                self.drain(live, live, false, &mut give);
            }
        }
        self.trim(live);
    }

    /// Blocks at the first match, or adds all to the pending ones.
    fn act_on_found(&mut self, give: &mut impl FnMut(Made<'_>)) {
        let blocks = self.settings.action == Action::Block && self.settings.policy != Policy::Shadow;
        let mut found = std::mem::take(&mut self.found);
        for found in found.drain(..) {
            if blocks {
                self.block(found, give);
                break;
            }
            self.note(found);
        }
        self.found = found;
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

    /// Adds a match to the pending ones; overlapping matches are merged.
    fn note(&mut self, found: Found) {
        let mut span = Span::new(found, self.base_chars + self.chars(0, found.start));
        while let Some(last) = self.spans.back()
            && (span.start < last.end || last.goes_on)
        {
            span.join(last);
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

    /// Sends text up to `limit`, with the matches before it acted on. From `live` on, text may be part of further
    /// matches, and matches that reach beyond it may grow; their certain part is removed, and if it `is_hurried`
    /// replaced at once.
    fn drain(&mut self, limit: usize, live: usize, is_hurried: bool, give: &mut impl FnMut(Made<'_>)) {
        for index in 0..self.spans.len() {
            let mut span = self.spans[index];
            if span.start > limit || (span.start == limit && span.end > limit) {
                break;
            }
            self.pass(span.start, give);
            let (grows, cut) = (span.end > live || span.goes_on, span.end.min(limit));
            self.take_out(&mut span, cut, is_hurried || !grows, give);
            if grows {
                // Its certain part is not read again.
                let sure = live.min(cut).max(span.start);
                span.gone += self.chars(span.start, sure);
                span.start = sure;
            }
            self.spans[index] = span;
            if grows && !is_hurried {
                return self.close(live);
            }
        }
        self.pass(limit, give);
        self.close(live);
    }

    /// Removes the rest of a match up to `cut`. Its replacement is sent once: at the end of the match, unless text
    /// behind it cannot wait.
    fn take_out(&mut self, span: &mut Span, cut: usize, replaces: bool, give: &mut impl FnMut(Made<'_>)) {
        if self.settings.policy == Policy::Shadow {
            return;
        }
        let start = self.released.max(span.start).min(cut);
        span.taken += self.chars(start, cut);
        let is_owed = span.taken > 0 && !span.is_replaced;
        if replaces && (is_owed || start < cut) {
            let is_text = is_owed && self.settings.action == Action::Replace;
            let text = if is_text { self.replacement(span.rule) } else { "" };
            give(Made::Instead { start: self.base + start as u64, end: self.base + cut as u64, text });
            span.is_replaced = true;
        }
        self.released = self.released.max(cut);
    }

    /// Reports complete matches.
    fn close(&mut self, live: usize) {
        while let Some(&span) = self.spans.front()
            && span.end <= live
            && !span.goes_on
        {
            self.findings.push(span.finding(self.chars(span.start, span.end)));
            self.spans.pop_front();
        }
    }

    fn replacement(&self, rule: u32) -> &str {
        let known = &self.settings.replacements;
        known.get(rule as usize).or(known.first()).map_or("", String::as_str)
    }

    /// Drops the text that is no longer needed.
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
        for span in &mut self.spans {
            span.start -= keep;
            span.end -= keep;
        }
    }
}
