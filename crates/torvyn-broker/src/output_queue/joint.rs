//! Batches of one partition that were never sent. Those that follow each other leave in one message, whatever their
//! keys: a broker has as much work with a token as with the tokens of a thousand sessions.
//!
//! The reader takes a message as a whole or not at all. So one that may have been stored is sent again as it was, and
//! what was sent on its own never joins others.

use std::collections::{BTreeMap, VecDeque};

use torvyn_log::join;

use super::{Identity, Message, OwedBatch};
use crate::names::EdgeNames;

/// The index of an element in its message has 16 bits.
const MOST_ELEMENTS: u32 = 65_535;

#[derive(Default)]
pub(super) struct Joint {
    waiting: VecDeque<u64>,
    sealed: Option<Sealed>,
}

/// A message that is on its way, or that must be sent again, and the numbers of its batches.
struct Sealed {
    numbers: Vec<u64>,
    message: Message,
    is_sent: bool,
}

impl Joint {
    pub fn push(&mut self, number: u64) {
        self.waiting.push_back(number);
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.sealed.is_none()
    }

    /// Whether there is something to send. `released`: batches with smaller numbers may be sent; None for all.
    pub fn is_due(&self, released: Option<u64>) -> bool {
        match &self.sealed {
            Some(sealed) => !sealed.is_sent,
            None => self.waiting.front().is_some_and(|number| released.is_none_or(|most| *number < most)),
        }
    }

    /// The message that is sent now, under the number of its first batch.
    pub fn send(
        &mut self,
        batches: &BTreeMap<u64, OwedBatch>,
        names: &EdgeNames,
        identity: &Identity,
        released: Option<u64>,
        most_bytes: usize,
    ) -> Option<(u64, Message)> {
        if self.sealed.is_none() {
            let numbers = self.next_run(batches, released, most_bytes);
            let run: Vec<&OwedBatch> = numbers.iter().filter_map(|number| batches.get(number)).collect();
            let first = run.first()?;
            let joined = (run.len() > 1).then(|| joined(&run, names, identity)).flatten();
            let numbers = if joined.is_some() { numbers } else { numbers[..1].to_vec() };
            let message = joined.unwrap_or_else(|| first.message(identity));
            self.waiting.drain(..numbers.len());
            self.sealed = Some(Sealed { numbers, message, is_sent: false });
        }
        let sealed = self.sealed.as_mut().filter(|sealed| !sealed.is_sent)?;
        sealed.is_sent = true;
        Some((sealed.numbers[0], sealed.message.clone()))
    }

    /// The first batches whose elements follow each other and that fit into one message.
    fn next_run(
        &self,
        batches: &BTreeMap<u64, OwedBatch>,
        released: Option<u64>,
        most_bytes: usize,
    ) -> Vec<u64> {
        let (mut numbers, mut bytes, mut elements, mut next) = (Vec::new(), 0, 0, None);
        for number in &self.waiting {
            let Some((batch, place)) = batches.get(number).and_then(|batch| Some((batch, batch.place()?)))
            else {
                break;
            };
            bytes += batch.body.len();
            elements += batch.count;
            let is_too_large = bytes > most_bytes || elements > MOST_ELEMENTS;
            let follows = next.is_none_or(|next| next == place.first);
            let is_held = released.is_some_and(|released| *number >= released);
            if is_held || !numbers.is_empty() && (is_too_large || !follows) {
                break;
            }
            numbers.push(*number);
            next = Some(place.first + u64::from(batch.count));
        }
        numbers
    }

    /// The message was lost, or its answer.
    pub fn forget_sent(&mut self) {
        if let Some(sealed) = &mut self.sealed {
            sealed.is_sent = false;
        }
    }

    /// The broker has stored the message with this number: its batches are none of ours any more.
    pub fn confirm(&mut self, number: u64) -> Option<Vec<u64>> {
        self.sealed.take_if(|sealed| sealed.numbers[0] == number).map(|sealed| sealed.numbers)
    }

    pub fn has_sent(&self, number: u64) -> bool {
        self.sealed.as_ref().is_some_and(|sealed| sealed.is_sent && sealed.numbers[0] == number)
    }

    /// The batches of the message, and those behind them.
    pub fn into_parts(self) -> (Vec<u64>, VecDeque<u64>) {
        (self.sealed.map(|sealed| sealed.numbers).unwrap_or_default(), self.waiting)
    }
}

/// None if the batches cannot be read.
fn joined(run: &[&OwedBatch], names: &EdgeNames, identity: &Identity) -> Option<Message> {
    let place = run.first()?.place()?;
    let body = join(run.iter().map(|batch| &*batch.body)).ok()?;
    let id = identity.id(place, run.iter().map(|batch| batch.count).sum());
    Some(Message { subject: names.subject(place.partition, None), id, body: body.into() })
}
