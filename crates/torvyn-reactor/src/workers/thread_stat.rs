//! What the operating system knows about a thread: whether it sleeps, and its processor time.
//!
//! Without Linux's `/proc`, nothing is known.

use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadStat {
    /// Whether it could use a core, whether or not it has one.
    pub is_runnable: bool,
    pub cpu_ticks: u64,
}

/// The path of the calling thread's statistics.
pub(crate) fn own_stat_path() -> Option<PathBuf> {
    let thread = std::fs::read_link("/proc/thread-self").ok()?;
    Some(Path::new("/proc").join(thread).join("stat"))
}

pub(crate) fn read_stat(path: &Path) -> Option<ThreadStat> {
    parse(&std::fs::read_to_string(path).ok()?)
}

/// `1234 (any name) R 1 2 3 ...`: the state follows the name, the times are the 12th and 13th field from it.
fn parse(line: &str) -> Option<ThreadStat> {
    let (_, rest) = line.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(ThreadStat { is_runnable: *fields.first()? == "R", cpu_ticks: ticks(11)? + ticks(12)? })
}

#[cfg(test)]
mod tests {
    use super::{ThreadStat, own_stat_path, parse, read_stat};

    #[test]
    fn the_state_and_both_times_are_read_whatever_the_name() {
        let line = "77 (a) b (c)) S 1 77 77 0 -1 4194368 1 0 0 0 15 27 0 0 20 0 4 0 99 1 1";
        assert_eq!(parse(line), Some(ThreadStat { is_runnable: false, cpu_ticks: 42 }));
        assert_eq!(parse("77 (a) R 1 2"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_thread_that_looks_itself_up_is_runnable() {
        let path = own_stat_path().unwrap();
        assert!(read_stat(&path).unwrap().is_runnable);
    }
}
