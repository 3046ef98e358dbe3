//! A guard as a part of a flow: pieces of elements leave with what belongs to them.
//!
//! Elements of different kinds and choices are different streams of text. What was a token's own (its ids, its
//! probabilities) leaves with the last piece of its element, and only if nothing was taken out of it: it would tell
//! what was.

use std::collections::VecDeque;
use std::sync::Arc;

use torvyn_stream::{Call, Element, Emission, ErrorKind, Foreign, Outbox, Stage, StageError, Step};

use super::machine::Guard;
use super::rules::{Finding, Made, Settings};

/// Told of every match.
pub type Audit = Box<dyn Fn(&Finding) + Send>;

/// Where the text of one element ends, and what belongs to it.
struct Piece {
    end: u64,
    companion: Option<Foreign>,
    touched: bool,
}

/// One stream of text.
struct Lane {
    kind: Option<Box<str>>,
    choice: i64,
    guard: Guard,
    pieces: VecDeque<Piece>,
    end: u64,
}

pub struct GuardStage {
    settings: Arc<Settings>,
    name: String,
    /// The kinds that are guarded; what has none is `text`.
    kinds: Vec<String>,
    audit: Option<Audit>,
    lanes: Vec<Lane>,
    held: usize,
}

impl GuardStage {
    pub fn new(settings: Arc<Settings>, name: &str, kinds: Vec<String>, audit: Option<Audit>) -> Self {
        Self { settings, name: name.to_owned(), kinds, audit, lanes: Vec::new(), held: 0 }
    }

    fn lane(&mut self, kind: Option<&str>, choice: i64) -> usize {
        let same = |lane: &Lane| lane.kind.as_deref() == kind && lane.choice == choice;
        if let Some(known) = self.lanes.iter().position(same) {
            return known;
        }
        self.lanes.push(Lane {
            kind: kind.map(Into::into),
            choice,
            guard: Guard::new(self.settings.clone()),
            pieces: VecDeque::new(),
            end: 0,
        });
        self.lanes.len() - 1
    }

    /// Tells what was found, and whether the stream ends.
    fn report(&mut self, lane: usize, call: Call<'_>) -> Option<String> {
        let guard = &mut self.lanes[lane].guard;
        for finding in guard.take_findings() {
            call.ledger.findings.matches.add(1);
            call.ledger.findings.exposed_chars.add(finding.exposed);
            if let Some(audit) = &self.audit {
                audit(&finding);
            }
        }
        guard.blocked().map(|_| format!("`{}` has found what it blocks", self.name))
    }
}

impl Lane {
    fn put(&mut self, element: &Element, text: &str, out: &mut Outbox) -> bool {
        let waiting = !self.pieces.is_empty();
        self.end += text.len() as u64;
        self.pieces.push_back(Piece { end: self.end, companion: element.companion.clone(), touched: false });
        let pieces = &mut self.pieces;
        let before = out.made.len();
        let unchanged = self.guard.put(text, |made| place(pieces, made, out));
        if unchanged && !waiting {
            out.made.truncate(before);
        }
        unchanged && !waiting
    }

    fn finish(&mut self, out: &mut Outbox) {
        let pieces = &mut self.pieces;
        self.guard.finish(|made| place(pieces, made, out));
        self.pieces.clear();
        self.end = 0;
    }
}

/// Gives what leaves to the elements it comes from.
fn place(pieces: &mut VecDeque<Piece>, made: Made<'_>, out: &mut Outbox) {
    match made {
        Made::Text { start, text } => {
            let (mut at, mut rest) = (start, text);
            while !rest.is_empty() {
                let Some(piece) = pieces.front() else { return };
                let len = rest.len().min((piece.end - at) as usize);
                at += len as u64;
                let whole = at == piece.end && !piece.touched;
                let companion = piece.companion.as_ref();
                let companion = companion.and_then(|held| if whole { held.inherit() } else { held.bare() });
                emit(&rest[..len], companion, out);
                rest = &rest[len..];
                leave(pieces, at);
            }
        }
        Made::Instead { start, end, text } => {
            leave(pieces, start);
            if !text.is_empty() {
                let companion = pieces.front().and_then(|piece| piece.companion.as_ref()?.bare());
                emit(text, companion, out);
            }
            leave(pieces, end);
            if let Some(cut) = pieces.front_mut() {
                cut.touched = true;
            }
        }
    }
}

/// Elements whose text is all decided are done with.
fn leave(pieces: &mut VecDeque<Piece>, at: u64) {
    while pieces.front().is_some_and(|piece| piece.end <= at) {
        pieces.pop_front();
    }
}

fn emit(text: &str, companion: Option<Foreign>, out: &mut Outbox) {
    out.emit(Emission { companion, ..Emission::text(text) });
}

impl Stage for GuardStage {
    fn accept(
        &mut self,
        element: &mut Element,
        call: Call<'_>,
        out: &mut Outbox,
    ) -> Result<Step, StageError> {
        let (kind, choice) = element.companion.as_ref().map_or((None, 0), Foreign::stream);
        let kind = kind.filter(|kind| *kind != "text");
        if !self.kinds.iter().any(|guarded| guarded == kind.unwrap_or("text")) {
            return Ok(Step::Forward);
        }
        let lane = self.lane(kind, choice);
        let bytes = element
            .read(call.ledger)
            .ok_or_else(|| StageError::new(ErrorKind::InvalidInput, "the payload cannot be read"))?;
        let text = std::str::from_utf8(bytes).map_err(|error| {
            StageError::new(ErrorKind::InvalidInput, format!("the payload is not UTF-8: {error}"))
        })?;
        if text.is_empty() {
            return Ok(Step::Forward);
        }
        let unchanged = self.lanes[lane].put(element, text, out);
        if unchanged {
            return Ok(Step::Forward);
        }
        self.held = self.lanes.iter().map(|lane| lane.guard.held_bytes()).sum();
        Ok(self.report(lane, call).map_or(Step::Done, Step::Block))
    }

    fn flush(&mut self, call: Call<'_>, out: &mut Outbox) -> Result<Step, StageError> {
        let mut reason = None;
        for lane in 0..self.lanes.len() {
            self.lanes[lane].finish(out);
            reason = self.report(lane, call).or(reason);
        }
        self.held = 0;
        Ok(reason.map_or(Step::Done, Step::Block))
    }

    fn interrupt(&mut self) {
        self.lanes.clear();
        self.held = 0;
    }

    fn held_bytes(&self) -> usize {
        self.held
    }

    fn close(&mut self) {
        self.lanes.clear();
        self.audit = None;
    }
}
