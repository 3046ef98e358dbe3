//! Content types, interned: an element carries two bytes instead of a string.

use std::sync::{PoisonError, RwLock};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentType(pub u16);

/// Names beyond the two built-in ones. Few in a process; a hostile peer that invents them is stopped at the limit.
static NAMES: RwLock<Vec<String>> = RwLock::new(Vec::new());
const BUILT_IN: [&str; 2] = ["text/plain; charset=utf-8", "application/octet-stream"];
const LIMIT: usize = 4096;

impl ContentType {
    pub const TEXT: ContentType = ContentType(0);
    pub const BINARY: ContentType = ContentType(1);

    /// The id of `name`; `None` when the process already knows too many.
    pub fn intern(name: &str) -> Option<ContentType> {
        if let Some(index) = BUILT_IN.iter().position(|known| *known == name) {
            return Some(ContentType(index as u16));
        }
        let find = |names: &Vec<String>| names.iter().position(|known| known == name);
        if let Some(index) = find(&NAMES.read().unwrap_or_else(PoisonError::into_inner)) {
            return Some(ContentType((index + BUILT_IN.len()) as u16));
        }
        let mut names = NAMES.write().unwrap_or_else(PoisonError::into_inner);
        let index = match find(&names) {
            Some(index) => index,
            None if names.len() < LIMIT => {
                names.push(name.to_owned());
                names.len() - 1
            }
            None => return None,
        };
        Some(ContentType((index + BUILT_IN.len()) as u16))
    }

    pub fn name(self) -> String {
        let index = usize::from(self.0);
        match BUILT_IN.get(index) {
            Some(name) => (*name).to_owned(),
            None => NAMES.read().unwrap_or_else(PoisonError::into_inner)[index - BUILT_IN.len()].clone(),
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
