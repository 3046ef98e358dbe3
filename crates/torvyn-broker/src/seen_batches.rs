//! Which batches have come, so that none comes twice.
//!
//! A batch is published again when its confirmation was lost, or when its writer has died. The broker recognizes it
//! within its window for duplicates, and the reader always: it keeps the numbers that it has seen as ranges, which are
//! few because the numbers of a series have no gaps.
//!
//! A number that is missing has expired on the broker. Of a series of which nothing has come only its writer knows how
//! many numbers it had: `note_sent` is told.

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
    /// The missing numbers of series that are not remembered.
    pub forgotten: u64,
    /// The last start of a writer of which the missing numbers are known, or do not matter: by partition, and for all.
    pub known_starts: HashMap<Source, u64>,
    pub ignored_starts: HashMap<u32, u64>,
    /// By writer: the last start of which something has come.
    last_starts: HashMap<u32, u64>,
}

/// Which start of a segment has begun the series; 0 if it is continued by later starts.
fn start_of(series: &str) -> u64 {
    series.strip_prefix('g').and_then(|number| number.parse().ok()).unwrap_or(0)
}

impl SeenBatches {
    /// Notes a series as it was saved.
    pub fn restore(&mut self, writer: u32, partition: u32, series: String, ranges: Ranges) {
        *self.ranges(writer, partition, &series) = ranges;
    }

    fn note_start(&mut self, writer: u32, series: &str) {
        let start = start_of(series);
        let last = self.last_starts.entry(writer).or_default();
        *last = start.max(*last);
        if self.ignores_start {
            self.ignored_starts.entry(writer).or_insert(start.saturating_sub(1));
        }
    }

    /// Notes a batch; false if it has come before.
    pub fn add(&mut self, batch: &BatchId) -> bool {
        let last = batch.first + u64::from(batch.elements) - 1;
        add_range(self.ranges(batch.writer, batch.partition, &batch.series), batch.first, last)
    }

    /// The writer has ended: all numbers before that of its end were sent.
    pub fn add_end(&mut self, batch: &BatchId) {
        self.note_start(batch.writer, &batch.series);
        let Some(before) = batch.first.checked_sub(1) else { return };
        let ranges = self.ranges(batch.writer, batch.partition, &batch.series);
        if ranges.last().is_none_or(|(_, last)| batch.first > last + 1) {
            ranges.push((batch.first, before));
        }
    }

    fn ranges(&mut self, writer: u32, partition: u32, series: &str) -> &mut Ranges {
        let source = (writer, partition);
        let all = &mut self.series;
        let place = *self.places.entry(source).or_insert_with(|| {
            all.push((source, Vec::new()));
            all.len() - 1
        });
        let found = all[place].1.iter().position(|(name, _)| name == series);
        match found {
            Some(at) => all[place].1[at..].rotate_left(1),
            None => {
                self.note_start(writer, series);
                self.series[place].1.push((series.to_owned(), Ranges::new()));
                self.forget_oldest(place);
            }
        }
        let known = &mut self.series[place].1;
        let at = known.len() - 1;
        &mut known[at].1
    }

    fn forget_oldest(&mut self, place: usize) {
        let (source, known) = &mut self.series[place];
        if known.len() > SERIES_KEPT {
            let (source, (oldest, ranges)) = (*source, known.remove(0));
            self.forgotten += self.missing_of(&ranges, 0);
            let done = self.known_starts.entry(source).or_default();
            *done = start_of(&oldest).max(*done);
        }
    }

    fn missing_of(&self, ranges: &[(u64, u64)], start: u64) -> u64 {
        let begin = if self.ignores_start { ranges.first().map_or(0, |first| first.0) } else { 0 };
        gaps(ranges, start.max(begin))
    }

    /// `sent`: how many numbers each series of a writer has had. What has come is in the order of the starts, so of those
    /// before the last one nothing comes any more.
    pub fn note_sent(&mut self, writer: u32, partition: u32, sent: &HashMap<String, u64>) {
        let source = (writer, partition);
        let last = self.last_starts.get(&writer).copied().unwrap_or(0);
        let known_start = self.known_starts.get(&source).copied().unwrap_or(0);
        let done = self.ignored_starts.get(&writer).copied().unwrap_or(0).max(known_start);
        let mut starts: Vec<_> = sent.iter().map(|(name, count)| (start_of(name), name, *count)).collect();
        starts.sort();
        for (start, name, count) in starts {
            if start <= done || start >= last {
                continue;
            }
            self.known_starts.insert(source, start);
            let known = self.places.get(&source).map(|place| &mut self.series[*place].1);
            let ranges = known.and_then(|known| known.iter_mut().find(|(series, _)| series == name));
            match ranges {
                None => self.forgotten += count,
                Some((_, ranges)) => {
                    let is_more = ranges.last().is_none_or(|(_, end)| count > end + 1);
                    if let (true, Some(before)) = (is_more, count.checked_sub(1)) {
                        ranges.push((count, before));
                    }
                }
            }
        }
    }

    /// How many numbers have not come although later ones have. With `of`: of this series only, from the number of
    /// each partition on that the function returns.
    pub fn missing(&self, of: Option<(&str, &dyn Fn(u32) -> u64)>) -> u64 {
        let mut count = if of.is_none() { self.forgotten } else { 0 };
        for ((_, partition), known) in &self.series {
            let start = of.map_or(0, |(_, first)| first(*partition));
            for (name, ranges) in known {
                if of.is_none_or(|(series, _)| series == name) {
                    count += self.missing_of(ranges, start);
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
        next.forgotten = seen.forgotten;
        next.known_starts.clone_from(&seen.known_starts);
        next.ignored_starts.clone_from(&seen.ignored_starts);
        next
    }

    #[test]
    fn what_was_read_and_is_not_remembered_is_not_missing() {
        let mut seen = SeenBatches::default();
        let sent: HashMap<String, u64> = (1..=12).map(|start| (format!("g{start}"), 10)).collect();
        for start in 1..=12 {
            seen.add(&batch(&format!("g{start}"), 0, 10));
        }
        seen.note_sent(0, 0, &sent);
        assert_eq!(seen.missing(None), 0);
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

        /// Whichever starts have expired, with a look at the writer and a restart after each of them.
        #[test]
        fn each_number_that_never_came_is_counted_once(
            starts in prop::collection::vec((0..10u32, any::<bool>()), 1..12),
        ) {
            let (mut seen, mut lost) = (SeenBatches::default(), 0);
            let mut sent = HashMap::new();
            for (number, (count, has_come)) in starts.iter().enumerate() {
                let series = format!("g{}", number + 1);
                sent.insert(series.clone(), u64::from(*count));
                if *count > 0 && *has_come {
                    prop_assert!(seen.add(&batch(&series, 0, *count)));
                } else {
                    lost += u64::from(*count);
                }
                seen.note_sent(0, 0, &sent);
                seen.note_sent(0, 0, &sent);
                seen = restarted(&seen);
                prop_assert!(seen.missing(None) <= lost);
            }
            seen.add_end(&batch(&format!("g{}", starts.len() + 1), 0, 0));
            seen.note_sent(0, 0, &sent);
            prop_assert_eq!(seen.missing(None), lost);
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
