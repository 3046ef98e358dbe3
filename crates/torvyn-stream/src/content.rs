//! Content types, interned: an element carries two bytes instead of a string.

use std::sync::{PoisonError, RwLock};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentType(pub u16);

/// Names beyond the two built-in ones. Few in a process and kept for good; a hostile peer that invents them is stopped
/// at the limits of number and length.
static NAMES: RwLock<Vec<&'static str>> = RwLock::new(Vec::new());
const BUILT_IN: [&str; 2] = ["text/plain; charset=utf-8", "application/octet-stream"];
const LIMIT: usize = 4096;
const LONGEST: usize = 256;

impl ContentType {
    pub const TEXT: ContentType = ContentType(0);
    pub const BINARY: ContentType = ContentType(1);

    /// The id of `name`; `None` when it is too long or the process already knows too many.
    pub fn intern(name: &str) -> Option<ContentType> {
        if let Some(index) = BUILT_IN.iter().position(|known| *known == name) {
            return Some(ContentType(index as u16));
        }
        let find = |names: &Vec<&str>| names.iter().position(|known| *known == name);
        if let Some(index) = find(&NAMES.read().unwrap_or_else(PoisonError::into_inner)) {
            return Some(ContentType((index + BUILT_IN.len()) as u16));
        }
        let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
        let index = match find(&names) {
            Some(index) => index,
            None if names.len() < LIMIT && name.len() <= LONGEST => {
                names.push(name.to_owned().leak());
                names.len() - 1
            }
            None => return None,
        };
        Some(ContentType((index + BUILT_IN.len()) as u16))
    }

    pub fn name(self) -> String {
        self.label().to_owned()
    }

    pub fn label(self) -> &'static str {
        let index = usize::from(self.0);
        match BUILT_IN.get(index) {
            Some(name) => name,
            None => NAMES.read().unwrap_or_else(PoisonError::into_inner)[index - BUILT_IN.len()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_name_has_the_same_id() {
        let first = ContentType::intern("application/json");
        assert_eq!(first, ContentType::intern("application/json"));
        assert_eq!(first.map(ContentType::name).as_deref(), Some("application/json"));
        assert_eq!(ContentType::intern("text/plain; charset=utf-8"), Some(ContentType::TEXT));
    }
}
