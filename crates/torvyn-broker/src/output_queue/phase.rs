//! The batches between two ends of the stream: those that wait for their subjects, and those that may go together.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::FIRST_RETRY;
use super::joint::Joint;

/// The batches of one subject.
#[derive(Default)]
pub(super) struct SubjectQueue {
    pub numbers: VecDeque<u64>,
    pub is_sent: bool,
    pub is_ready: bool,
    /// When it is tried again, and how long it waited.
    retry: Option<(Instant, Duration)>,
}

#[derive(Default)]
pub(super) struct Phase {
    pub is_end: bool,
    pub left: usize,
    pub subjects: HashMap<Arc<str>, SubjectQueue>,
    pub ready: VecDeque<Arc<str>>,
    /// How many subjects wait for another try.
    pub refused: usize,
    /// By partition: batches that may go together.
    pub joints: BTreeMap<u32, Joint>,
}

impl Phase {
    /// Adds a batch that goes alone.
    pub fn add(&mut self, subject: &Arc<str>, number: u64) {
        self.left += 1;
        self.queue(subject, number);
    }

    /// Adds a batch that was never sent, and may go together with others. `goes_apart`: it does so only if it must not
    /// pass those before it.
    pub fn add_new(&mut self, partition: u32, subject: &Arc<str>, number: u64, goes_apart: bool) {
        let has_others = self.joints.contains_key(&partition);
        if self.subjects.contains_key(subject) || goes_apart && !has_others {
            self.add(subject, number);
            return;
        }
        self.left += 1;
        self.joints.entry(partition).or_default().push(number);
    }

    fn queue(&mut self, subject: &Arc<str>, number: u64) {
        let queue = self.subjects.entry(subject.clone()).or_default();
        queue.numbers.push_back(number);
        if !queue.is_sent && !queue.is_ready && queue.retry.is_none() {
            queue.is_ready = true;
            self.ready.push_back(subject.clone());
        }
    }

    pub fn make_ready(&mut self) {
        // In the order of their batches, so that none is passed by later ones for ever.
        let mut idle: Vec<_> = self.subjects.iter_mut().filter(|(_, queue)| queue.is_idle()).collect();
        idle.sort_by_key(|(_, queue)| queue.numbers.front().copied());
        for (subject, queue) in idle {
            queue.is_ready = true;
            self.ready.push_back(subject.clone());
        }
    }

    pub fn retry(&mut self, now: Instant) {
        if self.refused == 0 {
            return;
        }
        for (subject, queue) in &mut self.subjects {
            let is_due = queue.retry.is_some_and(|(at, _)| at <= now);
            if is_due && !queue.is_ready && !queue.is_sent {
                queue.is_ready = true;
                self.ready.push_back(subject.clone());
            }
        }
    }

    pub fn retry_at(&self) -> Option<Instant> {
        let waiting = self.subjects.values().filter(|queue| !queue.is_sent && !queue.is_ready);
        waiting.filter_map(|queue| queue.retry.map(|(at, _)| at)).min()
    }

    pub fn confirm(&mut self, subject: &Arc<str>) {
        let Some(queue) = self.subjects.get_mut(subject) else { return };
        self.left -= 1;
        self.refused -= usize::from(queue.retry.take().is_some());
        queue.numbers.pop_front();
        queue.is_sent = false;
        if queue.numbers.is_empty() {
            self.subjects.remove(subject);
        } else if !queue.is_ready {
            queue.is_ready = true;
            self.ready.push_back(subject.clone());
        }
    }

    /// The batches that a message has brought to the broker, if it was sent for several.
    pub fn confirm_joint(&mut self, partition: u32, number: u64) -> Option<Vec<u64>> {
        let joint = self.joints.get_mut(&partition)?;
        let numbers = joint.confirm(number)?;
        self.left -= numbers.len();
        if joint.is_empty() {
            self.joints.remove(&partition);
        }
        Some(numbers)
    }

    /// The broker has refused a message: its batches go apart, and those behind them that must not pass them. Returns
    /// whether there were several, and None if it was not on its way. Then all others go apart as well.
    pub fn split(
        &mut self,
        partition: u32,
        number: u64,
        subject_of: impl Fn(u64) -> Option<Arc<str>>,
    ) -> Option<bool> {
        self.joints.get(&partition).filter(|joint| joint.has_sent(number))?;
        let (numbers, waiting) = self.joints.remove(&partition)?.into_parts();
        let were_several = numbers.len() > 1;
        let mut left = Joint::default();
        for (number, is_first) in
            numbers.into_iter().map(|number| (number, true)).chain(waiting.into_iter().map(|n| (n, false)))
        {
            let Some(subject) = subject_of(number) else { continue };
            if is_first || were_several || self.subjects.contains_key(&subject) {
                self.queue(&subject, number);
            } else {
                left.push(number);
            }
        }
        if !left.is_empty() {
            self.joints.insert(partition, left);
        }
        Some(were_several)
    }

    /// Returns whether the batch was on its way.
    pub fn refuse(&mut self, subject: &Arc<str>, now: Instant, longest: Duration) -> bool {
        let Some(queue) = self.subjects.get_mut(subject) else { return false };
        if !std::mem::take(&mut queue.is_sent) {
            return false;
        }
        self.refused += usize::from(queue.retry.is_none());
        let waited = queue.retry.map_or(Duration::ZERO, |(_, waited)| waited);
        let delay = (2 * waited).max(FIRST_RETRY).min(longest);
        queue.retry = Some((now + delay, delay));
        true
    }
}

impl SubjectQueue {
    fn is_idle(&self) -> bool {
        !self.is_sent && !self.is_ready && self.retry.is_none() && !self.numbers.is_empty()
    }
}
