//! A list that grows while other threads read it: an item stays where it is as long as the list lives.

use std::ops::Index;
use std::sync::OnceLock;

/// Most lists never grow, so the first items are found with the same bounds check as in a slice.
#[derive(Debug)]
pub struct Slots<T> {
    first: Box<[T]>,
    more: OnceLock<Box<Slots<T>>>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self::from_iter([])
    }
}

impl<T> FromIterator<T> for Slots<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self { first: items.into_iter().collect(), more: OnceLock::new() }
    }
}

impl<T> Slots<T> {
    /// Adds items at the end.
    pub fn extend(&self, items: impl IntoIterator<Item = T>) {
        let mut new = Box::new(items.into_iter().collect::<Self>());
        let mut last = self;
        while !new.first.is_empty() {
            match last.more.set(new) {
                Ok(()) => return,
                Err(back) => new = back,
            }
            last = last.more.get().map_or(last, |more| more);
        }
    }

    pub fn len(&self) -> usize {
        self.first.len() + self.more.get().map_or(0, |more| more.len())
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn heap_bytes(&self) -> usize {
        let parts = std::iter::successors(Some(self), |part| part.more.get().map(|more| &**more));
        parts.map(|part| size_of_val(&*part.first) + part.more.get().map_or(0, |_| size_of::<Self>())).sum()
    }

    pub fn get(&self, index: usize) -> Option<&T> {
        match self.first.get(index) {
            Some(item) => Some(item),
            None => self.more.get()?.get(index - self.first.len()),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &T> + Clone {
        let parts = std::iter::successors(Some(self), |part| part.more.get().map(|more| &**more));
        parts.flat_map(|part| part.first.iter())
    }

    #[cold]
    #[inline(never)]
    fn later(&self, index: usize) -> &T {
        match self.get(index) {
            Some(item) => item,
            None => panic!("there is no item {index}: the list has {}", self.len()),
        }
    }
}

impl<T> Index<usize> for Slots<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, index: usize) -> &T {
        match self.first.get(index) {
            Some(item) => item,
            None => self.later(index),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[test]
    fn items_keep_their_places_when_the_list_grows() {
        let slots: Slots<u32> = [0, 1].into_iter().collect();
        let second: *const u32 = &slots[1];
        slots.extend([2]);
        slots.extend([]);
        slots.extend([3, 4]);
        assert_eq!(slots.iter().copied().collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert_eq!((slots[3], slots.len(), slots.get(5)), (3, 5, None));
        assert_eq!(second, &raw const slots[1]);
    }
}
