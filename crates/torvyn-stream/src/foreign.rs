//! Objects of a host language carried through native queues without being looked into.
//!
//! The host (Python) supplies the table; this crate only clones and drops. One pointer and one table: 16 bytes, so an
//! element stays 64. This is the only unsafe code of the crate.

use std::ptr::NonNull;

/// How to handle a foreign pointer. Each function gets a pointer that the same table's owner handed in.
#[derive(Debug)]
pub struct ForeignTable {
    /// Takes one more reference. Callable from any thread: guests give companions to elements of detached flows.
    pub retain: unsafe fn(NonNull<()>),
    /// Gives one reference back. Must be callable from any thread.
    pub release: unsafe fn(NonNull<()>),
    /// The object's bytes, valid while it lives, and whether the host had to copy them; null if it has none.
    pub view: unsafe fn(NonNull<()>) -> (*const u8, usize, bool),
    /// The part of the object that outputs made from it inherit (its attributes), as a new reference.
    pub inherit: unsafe fn(NonNull<()>) -> Option<NonNull<()>>,
    /// The same without what tells the tokens of its text: for a part of it, or for other text in its place.
    pub bare: unsafe fn(NonNull<()>) -> Option<NonNull<()>>,
    /// Which stream of text it belongs to: the kind, valid while the object lives and null if it has none, and the
    /// choice.
    pub stream: unsafe fn(NonNull<()>) -> (*const u8, usize, i64),
}

/// An owned reference to an object of the host language.
#[derive(Debug)]
pub struct Foreign {
    pointer: NonNull<()>,
    table: &'static ForeignTable,
}

// SAFETY: the table's `retain`, `release` and `inherit` may be called from any thread; `view` is called only inside turns,
// which the border attaches to the host when a flow carries foreign payloads.
unsafe impl Send for Foreign {}
unsafe impl Sync for Foreign {}

impl Foreign {
    /// # Safety
    /// `pointer` is an owned reference that `table` knows how to handle.
    #[inline]
    pub unsafe fn from_owned(pointer: NonNull<()>, table: &'static ForeignTable) -> Self {
        Self { pointer, table }
    }

    #[inline]
    pub fn as_ptr(&self) -> NonNull<()> {
        self.pointer
    }

    /// Hands the reference to the caller, who must release it.
    pub fn into_ptr(self) -> NonNull<()> {
        let pointer = self.pointer;
        std::mem::forget(self);
        pointer
    }

    /// The bytes of a str or bytes object, and whether they had to be copied to be read.
    #[inline]
    pub fn view(&self) -> Option<(&[u8], bool)> {
        // SAFETY: the pointer came with this table; the bytes live as long as the object, which `self` keeps.
        unsafe {
            let (data, len, copied) = (self.table.view)(self.pointer);
            (!data.is_null()).then(|| (std::slice::from_raw_parts(data, len), copied))
        }
    }

    #[inline]
    pub fn inherit(&self) -> Option<Foreign> {
        // SAFETY: the pointer came with this table.
        unsafe { (self.table.inherit)(self.pointer) }.map(|pointer| Foreign { pointer, table: self.table })
    }

    /// What a part of the text inherits, or text that takes its place.
    #[inline]
    pub fn bare(&self) -> Option<Foreign> {
        // SAFETY: the pointer came with this table.
        unsafe { (self.table.bare)(self.pointer) }.map(|pointer| Foreign { pointer, table: self.table })
    }

    /// The kind and the choice: elements that agree in both are one stream of text.
    #[inline]
    pub fn stream(&self) -> (Option<&str>, i64) {
        // SAFETY: the pointer came with this table; the bytes live as long as the object, which `self` keeps.
        unsafe {
            let (data, len, choice) = (self.table.stream)(self.pointer);
            let kind = (!data.is_null()).then(|| std::slice::from_raw_parts(data, len));
            (kind.and_then(|kind| std::str::from_utf8(kind).ok()), choice)
        }
    }
}

impl Clone for Foreign {
    fn clone(&self) -> Self {
        // SAFETY: the pointer came with this table.
        unsafe { (self.table.retain)(self.pointer) };
        Self { pointer: self.pointer, table: self.table }
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        // SAFETY: the pointer came with this table and this is its last use here.
        unsafe { (self.table.release)(self.pointer) };
    }
}
