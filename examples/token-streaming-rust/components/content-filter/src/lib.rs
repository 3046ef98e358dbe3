//! Drops the tokens that are on a list. It reads its payload in one copy and makes none.

use std::cell::{Cell, RefCell};

wit_bindgen::generate!({
    world: "content-filter",
    path: "../../wit",
});

use exports::torvyn::filtering::filter::Guest as Filter;
use exports::torvyn::streaming::lifecycle::Guest as Lifecycle;
use torvyn::streaming::types::{ProcessError, StreamElement};

thread_local! {
    static BLOCKED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
    static FILTERED: Cell<u64> = const { Cell::new(0) };
}

struct ContentFilter;

impl Lifecycle for ContentFilter {
    /// The config is a list of words, separated by commas.
    fn init(config: String) -> Result<(), ProcessError> {
        let words = config.split(',').map(|word| word.trim().to_owned()).filter(|word| !word.is_empty());
        let mut words: Vec<String> = words.collect();
        if words.is_empty() {
            // A filter must not pass everything by mistake.
            words.push("blocked_word".to_owned());
        }
        BLOCKED.set(words);
        Ok(())
    }

    fn teardown() {
        let filtered = FILTERED.get();
        if filtered > 0 {
            eprintln!("[content-filter] Filtered {filtered} token(s) during this flow.");
        }
    }
}

impl Filter for ContentFilter {
    fn evaluate(element: StreamElement) -> Result<bool, ProcessError> {
        let payload = element.payload.read_all();
        let token = String::from_utf8_lossy(&payload);
        let is_blocked = |word: &String| token.trim().eq_ignore_ascii_case(word);
        let is_filtered = BLOCKED.with_borrow(|words| words.iter().any(is_blocked));
        FILTERED.set(FILTERED.get() + u64::from(is_filtered));
        Ok(!is_filtered)
    }
}

export!(ContentFilter);
