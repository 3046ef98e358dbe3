//! The window of a search: final matches are reported, and what grows too long is reported in parts or given up.

use std::sync::Arc;

use regex_automata::nfa::thompson::State;

use super::pike::{PatternSearch, Pending, Place};
use super::{Found, View};

impl PatternSearch {
    /// The pending match is final: the search continues after it.
    pub(super) fn conclude(&mut self, found: &mut Vec<Found>) {
        if let Some(pending) = self.pending.take() {
            let (start, end) = (pending.start.byte, pending.end.byte);
            found.push(Found { start, end, rule: pending.rule, goes_on: false });
            self.restart(pending.end);
        }
        self.is_reported = false;
    }

    pub(super) fn restart(&mut self, at: Place) {
        self.threads.clear();
        self.waits = false;
        self.pending = None;
        self.at = at;
    }

    /// Gives up what began too long ago, and reports the beginning of a match that is too long to buffer.
    pub(super) fn give_up(&mut self, view: View<'_>, found: &mut Vec<Found>) {
        let Some(oldest) = self.threads.first().map(|thread| thread.start) else { return };
        let limit = 2 * self.rules.window;
        if self.at.char - oldest.char <= limit {
            return;
        }
        match self.pending {
            Some(pending) if self.at.char - pending.end.char > limit => self.conclude(found),
            Some(pending) if pending.origin == oldest => self.tell(pending, found),
            pending => {
                let back = view.text[..self.at.byte].char_indices().rev().take(self.rules.window as usize);
                let byte = back.last().map_or(0, |(byte, _)| byte);
                let recent = Place { byte, char: self.at.char - self.rules.window };
                let earlier = pending.filter(|pending| pending.origin.byte < byte);
                self.restart(earlier.map_or(recent, |pending| pending.origin));
            }
        }
    }

    fn tell(&mut self, pending: Pending, found: &mut Vec<Found>) {
        let (start, end) = (pending.start.byte, pending.end.byte);
        if end > start {
            found.push(Found { start, end, rule: pending.rule, goes_on: true });
        }
        self.is_reported = true;
        let rules = Arc::clone(&self.rules);
        self.threads.retain(|thread| !matches!(rules.nfa.state(thread.state), State::Match { .. }));
        for thread in &mut self.threads {
            thread.start = pending.end;
        }
        self.pending = Some(Pending { origin: pending.end, start: pending.end, ..pending });
    }

    /// The first bytes of the view were dropped.
    pub fn forget(&mut self, gone: &str) {
        if self.rules.needs_left {
            self.left.push(gone);
        }
        let bytes = gone.len();
        self.at.byte -= bytes;
        for thread in &mut self.threads {
            thread.start.byte -= bytes;
        }
        if let Some(pending) = &mut self.pending {
            // The beginning of its thread may have left the view; the match itself has not.
            pending.origin.byte = pending.origin.byte.saturating_sub(bytes);
            pending.start.byte -= bytes;
            pending.end.byte -= bytes;
        }
    }

    pub fn clear(&mut self) {
        self.restart(Place::default());
        self.is_reported = false;
        self.left.clear();
    }
}
