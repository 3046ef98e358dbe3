//! A guard as a stage of a flow: parts of elements are sent with their attributes.
//!
//! Attributes of single tokens (ids, probabilities) go with the last part of their element, and only if nothing was
//! removed from it: they would reveal it.

use std::sync::Arc;

use torvyn_stream::{Call, Delivery, Element, Emission, ErrorKind, Foreign, Outbox, Stage, StageError, Step};

use super::order::{Address, GuardedTexts, Passage};
use super::pending_element::Divisible;
use super::rules::{Finding, Settings};

/// Receives every match.
pub type Audit = Box<dyn Fn(&Finding) + Send>;

/// An element that is kept until its text is decided and all elements before it were sent.
enum Kept {
    Guarded(Option<Foreign>),
    Passing(Emission),
}

impl Divisible for Kept {
    type Output = Emission;

    fn part(&self, text: &str, is_rest: bool) -> Emission {
        let companion = match self {
            Kept::Guarded(Some(companion)) if is_rest => companion.inherit(),
            Kept::Guarded(Some(companion)) => companion.bare(),
            _ => None,
        };
        Emission { companion, ..Emission::text(text) }
    }

    fn whole(self) -> Emission {
        match self {
            Kept::Guarded(companion) => Emission { companion, ..Emission::text("") },
            Kept::Passing(emission) => emission,
        }
    }
}

impl Kept {
    fn passing(element: &Element) -> Self {
        let copy = element.detached();
        Kept::Passing(Emission {
            payload: copy.payload,
            len: copy.len,
            content_type: copy.content_type,
            companion: element.companion.as_ref().and_then(Foreign::inherit),
            delivery: Delivery::kept_if(element.keep()),
        })
    }
}

pub struct GuardStage {
    texts: GuardedTexts<Kept>,
    name: String,
    audit: Option<Audit>,
    buffered_bytes: usize,
}

impl GuardStage {
    pub fn new(settings: Arc<Settings>, name: &str, kinds: Vec<String>, audit: Option<Audit>) -> Self {
        Self { texts: GuardedTexts::new(settings, kinds), name: name.to_owned(), audit, buffered_bytes: 0 }
    }

    /// Reports the findings.
    fn report(&mut self, call: Call<'_>) {
        self.buffered_bytes = self.texts.held_bytes();
        let audit = &self.audit;
        self.texts.take_findings(|finding| {
            call.ledger.note_findings(1, finding.exposed);
            if let Some(audit) = audit {
                audit(finding);
            }
        });
    }

    fn block(&self) -> Step {
        Step::Block(format!("`{}` found a match", self.name))
    }

    fn take(
        &mut self,
        element: &Element,
        call: Call<'_>,
        out: &mut Vec<Emission>,
    ) -> Result<Passage, StageError> {
        let stream = element.companion.as_ref().map_or(Ok((None, 0)), Foreign::stream);
        let (kind, choice) = stream.map_err(|message| StageError::new(ErrorKind::InvalidInput, message))?;
        let address = Address { kind: kind.filter(|kind| *kind != "text"), choice };
        if !self.texts.guards(address.kind) || element.len == 0 {
            let bytes = element.len as usize;
            return Ok(self.texts.pass(address, bytes, || Kept::passing(element), out));
        }
        let bytes = element
            .read(call.ledger)
            .ok_or_else(|| StageError::new(ErrorKind::InvalidInput, "the payload cannot be read"))?;
        let text = std::str::from_utf8(bytes).map_err(|error| {
            StageError::new(ErrorKind::InvalidInput, format!("the payload is not UTF-8: {error}"))
        })?;
        Ok(self.texts.put(address, text, || Kept::Guarded(element.companion.clone()), out))
    }
}

impl Stage for GuardStage {
    fn accept(
        &mut self,
        element: &mut Element,
        call: Call<'_>,
        out: &mut Outbox,
    ) -> Result<Step, StageError> {
        let passage = self.take(element, call, &mut out.made)?;
        if passage == Passage::Unchanged {
            return Ok(Step::Forward);
        }
        self.report(call);
        Ok(if passage == Passage::Blocked { self.block() } else { Step::Done })
    }

    fn flush(&mut self, call: Call<'_>, out: &mut Outbox) -> Result<Step, StageError> {
        let is_blocked = self.texts.finish(&mut out.made);
        self.report(call);
        Ok(if is_blocked { self.block() } else { Step::Done })
    }

    fn interrupt(&mut self) {
        self.texts.clear();
        self.buffered_bytes = 0;
    }

    fn held_bytes(&self) -> usize {
        self.buffered_bytes
    }

    fn close(&mut self) {
        self.texts.clear();
        self.audit = None;
    }
}
