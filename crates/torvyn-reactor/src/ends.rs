//! How streams end. Nearly all of them end in one of three ways without more to say: these ends exist once.

use std::sync::{Arc, LazyLock};

use torvyn_stream::End;

static PLAIN: LazyLock<[Arc<End>; 3]> =
    LazyLock::new(|| ["stop", "cancelled", "error"].map(|reason| Arc::new(End::because(reason))));

/// The end with this reason and nothing else.
pub fn because(reason: &str) -> Arc<End> {
    let known = PLAIN.iter().find(|end| end.finish_reason == reason);
    known.cloned().unwrap_or_else(|| Arc::new(End::because(reason)))
}

/// The end as nodes and edges share it.
pub fn shared(end: End) -> Arc<End> {
    if end.detail.is_none() && end.object.is_none() {
        return because(&end.finish_reason);
    }
    Arc::new(end)
}

/// What these ends take, of which many may be the same one.
pub fn size_bytes<'a>(ends: impl Iterator<Item = &'a Arc<End>>) -> usize {
    let is_own = |end: &&Arc<End>| !PLAIN.iter().any(|plain| Arc::ptr_eq(plain, end));
    let mut ends: Vec<_> = ends.filter(is_own).collect();
    ends.sort_by_key(|end| Arc::as_ptr(end));
    ends.dedup_by_key(|end| Arc::as_ptr(end));
    ends.iter().map(|end| 2 * size_of::<usize>() + size_of::<End>() + end.heap_bytes()).sum()
}
