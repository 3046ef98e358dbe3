//! Objects of a host language that native queues carry without reading them.
//!
//! The host (Python) supplies the table; this crate only clones and drops. One pointer and one table take 16 bytes, so
//! an element stays at 64.

use std::ptr::NonNull;

/// The bytes of the kind, how many they are, and the choice.
pub type TextStream = (*const u8, usize, i64);

/// How to use a foreign pointer. Every function takes a live pointer that came with the same table, on any thread: a
/// flow that runs detached from the host may carry the attributes that its guests set.
#[derive(Debug)]
pub struct ForeignTable {
    /// Adds a reference.
    pub retain: unsafe fn(NonNull<()>),
    /// Removes a reference.
    pub release: unsafe fn(NonNull<()>),
    /// The object's bytes, valid while it lives, and whether the host had to copy them; null if it has none.
    pub view: unsafe fn(NonNull<()>) -> (*const u8, usize, bool),
    /// The attributes that outputs made from the object inherit, as a new reference.
    pub inherit: unsafe fn(NonNull<()>) -> Option<NonNull<()>>,
    /// The same without the attributes of single tokens: for a part of the text, or for text that replaces it.
    pub bare: unsafe fn(NonNull<()>) -> Option<NonNull<()>>,
    /// The text stream it belongs to: its kind (valid while the object lives; null if it has none) and its choice. An
    /// error says which of them does not name a stream.
    pub stream: unsafe fn(NonNull<()>) -> Result<TextStream, String>,
}

/// An owned reference to an object of the host language.
#[derive(Debug)]
pub struct Foreign {
    pointer: NonNull<()>,
    table: &'static ForeignTable,
}

// SAFETY: every function of the table may be called on any thread.
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

    /// Passes the reference to the caller, who must release it.
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

    /// The attributes of a part of the text, or of text that replaces it.
    #[inline]
    pub fn bare(&self) -> Option<Foreign> {
        // SAFETY: the pointer came with this table.
        unsafe { (self.table.bare)(self.pointer) }.map(|pointer| Foreign { pointer, table: self.table })
    }

    /// The kind and the choice. Elements that agree in both belong to one stream of text.
    #[inline]
    pub fn stream(&self) -> Result<(Option<&str>, i64), String> {
        // SAFETY: the pointer came with this table; the bytes live as long as the object, which `self` keeps.
        unsafe {
            let (data, len, choice) = (self.table.stream)(self.pointer)?;
            let kind = (!data.is_null()).then(|| std::slice::from_raw_parts(data, len));
            Ok((kind.and_then(|kind| std::str::from_utf8(kind).ok()), choice))
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
