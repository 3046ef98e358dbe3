//! Which batches have come, so that none comes twice.
//!
//! A batch is published again when its confirmation was lost, or when its writer has died. The broker recognizes it
//! within its window for duplicates, and the reader always: it keeps the numbers that it has seen as ranges, which are
//! few because the numbers of a series have no gaps.

use std::collections::HashMap;

use crate::batch_id::BatchId;

/// How many series of one writer are remembered. A new one begins when a writer has died.
const SERIES_KEPT: usize = 4;

/// First and last numbers, in order.
pub type Ranges = Vec<(u64, u64)>;
/// A writer, and a partition.
type Source = (u32, u32);
/// The series of a writer, by name; the one that was heard of last is at the end.
type Series = Vec<(String, Ranges)>;

#[derive(Debug, Clone, Default)]
pub struct SeenBatches {
    pub series: Vec<(Source, Series)>,
    places: HashMap<Source, usize>,
    /// Whether the first numbers of a series are not missed: a reader that was told to forget what it has read does not
    /// know where they begin.
    pub ignores_start: bool,
}

impl SeenBatches {
    /// Notes a series as it was saved.
    pub fn restore(&mut self, writer: u32, partition: u32, series: String, ranges: Ranges) {
        *self.ranges(writer, partition, &series) = ranges;
    }

    /// Notes a batch; false if it has come before.
    pub fn add(&mut self, batch: &BatchId) -> bool {
        let last = batch.first + u64::from(batch.elements) - 1;
        add_range(self.ranges(batch.writer, batch.partition, &batch.series), batch.first, last)
    }

    /// The writer has ended: all numbers before that of its end were sent.
    pub fn add_end(&mut self, batch: &BatchId) {
        let Some(before) = batch.first.checked_sub(1) else { return };
        let ranges = self.ranges(batch.writer, batch.partition, &batch.series);
        if ranges.last().is_none_or(|(_, last)| batch.first > last + 1) {
            ranges.push((batch.first, before));
        }
    }

    fn ranges(&mut self, writer: u32, partition: u32, series: &str) -> &mut Ranges {
        let all = &mut self.series;
        let place = *self.places.entry((writer, partition)).or_insert_with(|| {
            all.push(((writer, partition), Vec::new()));
            all.len() - 1
        });
        let known = &mut all[place].1;
        match known.iter().position(|(name, _)| name == series) {
            Some(at) if at + 1 == known.len() => {}
            Some(at) => known[at..].rotate_left(1),
            None => {
                known.push((series.to_owned(), Ranges::new()));
                if known.len() > SERIES_KEPT {
                    known.remove(0);
                }
            }
        }
        let at = known.len() - 1;
        &mut known[at].1
    }

    /// How many numbers have not come although later ones have. With `of`: of this series only, from the number of
    /// each partition on that the function returns.
    pub fn missing(&self, of: Option<(&str, &dyn Fn(u32) -> u64)>) -> u64 {
        let mut count = 0;
        for ((_, partition), known) in &self.series {
            let start = of.map_or(0, |(_, first)| first(*partition));
            for (name, ranges) in known {
                if of.is_none_or(|(series, _)| series == name) {
                    let begin =
                        if self.ignores_start { ranges.first().map_or(0, |first| first.0) } else { 0 };
                    count += gaps(ranges, start.max(begin));
                }
            }
        }
        count
    }
}

/// How many numbers from `start` on are between the ranges. The range of an end has no numbers.
fn gaps(ranges: &[(u64, u64)], start: u64) -> u64 {
    let mut following = start;
    let mut count = 0;
    for (first, last) in ranges {
        count += first.saturating_sub(following);
        following = following.max(last + 1);
    }
    count
}

/// Adds a range that is new as a whole, or not at all.
fn add_range(ranges: &mut Ranges, first: u64, last: u64) -> bool {
    match ranges.last_mut() {
        Some((_, end)) if first == *end + 1 => {
            *end = last;
            return true;
        }
        Some((_, end)) if first <= *end => {}
        _ => {
            ranges.push((first, last));
            return true;
        }
    }
    let at = ranges.partition_point(|range| range.0 <= first);
    if at > 0 && first <= ranges[at - 1].1 {
        return false;
    }
    ranges.insert(at, (first, last));
    merge(ranges, at);
    true
}

/// Joins a range with its neighbours, if they touch.
fn merge(ranges: &mut Ranges, at: usize) {
    if at + 1 < ranges.len() && ranges[at].1 + 1 == ranges[at + 1].0 {
        ranges[at].1 = ranges.remove(at + 1).1;
    }
    if at > 0 && ranges[at - 1].1 + 1 == ranges[at].0 {
        ranges[at - 1].1 = ranges.remove(at).1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn batch(series: &str, first: u64, elements: u32) -> BatchId {
        let (series, generation) = (series.to_owned(), "g1".to_owned());
        BatchId { writer: 0, series, generation, partition: 0, first, elements }
    }

    #[test]
    fn a_writer_that_ends_tells_what_is_missing() {
        let mut seen = SeenBatches::default();
        assert!(seen.add(&batch("a", 0, 3)));
        seen.add_end(&batch("a", 10, 0));
        assert_eq!(seen.missing(None), 7);
        assert!(seen.add(&batch("a", 3, 7)));
        assert_eq!(seen.missing(None), 0);
    }

    #[test]
    fn only_the_last_series_of_a_writer_are_remembered() {
        let mut seen = SeenBatches::default();
        for series in ["a", "b", "c", "a", "d", "e"] {
            seen.add(&batch(series, 0, 1));
        }
        let names: Vec<&str> = seen.series[0].1.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["c", "a", "d", "e"]);
    }

    /// As after a restart: what was saved is read again.
    fn restarted(seen: &SeenBatches) -> SeenBatches {
        let mut next = SeenBatches::default();
        for ((writer, partition), known) in seen.series.clone() {
            for (series, ranges) in known {
                next.restore(writer, partition, series, ranges);
            }
        }
        next
    }

    proptest! {
        /// Whatever the order in which the others come, and after a restart in between.
        #[test]
        fn what_never_comes_is_missing(
            order in Just((0..12u64).collect::<Vec<_>>()).prop_shuffle(),
            lost in prop::collection::btree_set(0..12u64, 0..12),
        ) {
            let mut seen = SeenBatches::default();
            for number in order.into_iter().filter(|number| !lost.contains(number)) {
                prop_assert!(seen.add(&batch("c", 10 * number, 10)));
                seen = restarted(&seen);
                prop_assert!(!seen.add(&batch("c", 10 * number, 10)));
            }
            seen.add_end(&batch("c", 120, 0));
            seen.add_end(&batch("c", 120, 0));
            let late = lost.iter().filter(|number| **number >= 6).count() as u64;
            prop_assert_eq!(seen.missing(None), 10 * lost.len() as u64);
            prop_assert_eq!(seen.missing(Some(("c", &|_| 60))), 10 * late);
            prop_assert_eq!(seen.missing(Some(("other", &|_| 0))), 0);
        }

        /// Batches of two each, in any order, some of them twice.
        #[test]
        fn each_batch_is_new_once(order in prop::collection::vec(0..30u64, 0..80)) {
            let mut seen = SeenBatches::default();
            let mut known = std::collections::BTreeSet::new();
            for at in order {
                prop_assert_eq!(seen.add(&batch("s", 2 * at, 2)), known.insert(at));
                let most = known.last().map_or(0, |last| last + 1);
                prop_assert_eq!(seen.missing(None), 2 * (most - known.len() as u64));
            }
        }
    }
}
