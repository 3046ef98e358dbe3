//! The ring of a queue: slots that grow by doubling. Elements enter and leave without passing through the stack.
//!
//! A 64-byte element that is assembled on the stack and then copied stalls the processor on every hop. Here it is
//! written into its slot, processed in place, and moved from slot to slot; that is what the unsafe code is for.

use std::mem::MaybeUninit;

use crate::element::Element;
use crate::stage::Emission;

const FIRST: usize = 4;

/// Invariant: the `len` slots from `head` on, modulo the capacity (a power of two or zero), are initialised.
#[derive(Default)]
pub struct Ring {
    slots: Box<[MaybeUninit<Element>]>,
    head: u32,
    len: u32,
}

impl Ring {
    #[inline]
    pub fn len(&self) -> usize {
        self.len as usize
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn heap_bytes(&self) -> usize {
        size_of_val(&*self.slots)
    }

    #[inline]
    fn at(&self, offset: usize) -> usize {
        (self.head as usize + offset) & (self.slots.len() - 1)
    }

    /// The slot after the last element. The caller must fill it before doing anything else with the ring.
    #[inline(always)]
    fn next_slot(&mut self) -> &mut MaybeUninit<Element> {
        if self.len() == self.slots.len() {
            self.grow();
        }
        let at = self.at(self.len());
        self.len += 1;
        &mut self.slots[at]
    }

    #[cold]
    fn grow(&mut self) {
        let wider = (self.slots.len() * 2).max(FIRST);
        let mut slots: Box<[MaybeUninit<Element>]> = Box::new_uninit_slice(wider);
        for offset in 0..self.len() {
            // A bitwise move: the old slots are never read again.
            slots[offset] = std::mem::replace(&mut self.slots[self.at(offset)], MaybeUninit::uninit());
        }
        self.slots = slots;
        self.head = 0;
    }

    #[inline(always)]
    pub fn push(&mut self, element: Element) {
        self.next_slot().write(element);
    }

    /// Builds an element in its slot and leaves the emission empty.
    #[inline(always)]
    pub fn emplace(&mut self, emission: &mut Emission, owner: u16, sequence: u64, timestamp_ns: u64) {
        let slot = self.next_slot();
        slot.write(Element::made(emission.take(), owner, sequence, timestamp_ns));
    }

    #[inline(always)]
    pub fn pop(&mut self) -> Option<Element> {
        if self.len == 0 {
            return None;
        }
        let at = self.head as usize;
        self.forget_front();
        // SAFETY: the ring was not empty, so the slot is initialised; it is outside the ring now and read once.
        Some(unsafe { self.slots[at].assume_init_read() })
    }

    #[inline(always)]
    fn forget_front(&mut self) {
        self.head = self.at(1) as u32;
        self.len -= 1;
    }

    #[inline(always)]
    pub fn front(&self) -> Option<&Element> {
        // SAFETY: when the ring is not empty its first slot is initialised.
        (self.len > 0).then(|| unsafe { self.slots[self.head as usize].assume_init_ref() })
    }

    #[inline(always)]
    pub fn front_mut(&mut self) -> Option<&mut Element> {
        // SAFETY: as above.
        (self.len > 0).then(|| unsafe { self.slots[self.head as usize].assume_init_mut() })
    }

    /// The first elements, at most `most`, in the two parts of the ring.
    pub fn front_slices(&mut self, most: usize) -> (&mut [Element], &mut [Element]) {
        let (count, head) = (self.len().min(most), self.head as usize);
        let first = count.min(self.slots.len() - head);
        let (before, after) = self.slots.split_at_mut(head);
        let (after, before) = (&mut after[..first], &mut before[..count - first]);
        // SAFETY: the `len` slots from `head` on are initialised, and `MaybeUninit` has the layout of its content.
        unsafe {
            (
                &mut *(std::ptr::from_mut(after) as *mut [Element]),
                &mut *(std::ptr::from_mut(before) as *mut [Element]),
            )
        }
    }

    /// Drops the first element in place.
    #[inline(always)]
    pub fn drop_front(&mut self) {
        if self.len > 0 {
            let at = self.head as usize;
            self.forget_front();
            // SAFETY: the slot was initialised and is outside the ring now.
            unsafe { self.slots[at].assume_init_drop() };
        }
    }

    /// Moves the first element to the end of another ring, slot to slot.
    #[inline(always)]
    pub fn move_front(&mut self, to: &mut Ring) {
        if self.len > 0 {
            let at = self.head as usize;
            self.forget_front();
            let from: *const MaybeUninit<Element> = &self.slots[at];
            // SAFETY: two different rings, so the slots do not overlap; the source slot is outside its ring now.
            unsafe { std::ptr::copy_nonoverlapping(from, to.next_slot(), 1) };
        }
    }

    /// Moves the first `count` elements, or all, to the end of another ring.
    pub fn move_run(&mut self, to: &mut Ring, count: usize) {
        let mut left = count.min(self.len());
        while to.slots.len() < to.len() + left {
            to.grow();
        }
        while left > 0 {
            let (head, at) = (self.head as usize, to.at(to.len()));
            let part = left.min(self.slots.len() - head).min(to.slots.len() - at);
            let (from, into) = (&raw const self.slots[head], &raw mut to.slots[at]);
            // SAFETY: `part` slots lie in one piece in both rings, which are different; those of the source are
            // initialised and outside its ring from now on.
            unsafe { std::ptr::copy_nonoverlapping(from, into, part) };
            self.head = self.at(part) as u32;
            self.len -= part as u32;
            to.len += part as u32;
            left -= part;
        }
    }

    /// Drops the first `count` elements, or all, in place.
    pub fn drop_run(&mut self, count: usize) {
        for _ in 0..count.min(self.len()) {
            self.drop_front();
        }
    }

    /// Removes everything and frees the slots.
    pub fn take_all(&mut self) -> Vec<Element> {
        let all = std::iter::from_fn(|| self.pop()).collect();
        self.slots = Box::default();
        self.head = 0;
        all
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        while self.len > 0 {
            self.drop_front();
        }
    }
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Ring({} of {})", self.len, self.slots.len())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;
    use crate::Payload;

    fn element(number: u64) -> Element {
        let text = "x".repeat((number % 40) as usize);
        Element::made(Emission::text(&text), 0, number, 0)
    }

    proptest! {
        /// Two rings under random pushes, pops, drops and moves agree with two `VecDeque`s.
        #[test]
        fn rings_behave_like_deques(steps in prop::collection::vec(0u8..8, 1..400)) {
            let (mut a, mut b) = (Ring::default(), Ring::default());
            let (mut x, mut y) = (VecDeque::new(), VecDeque::new());
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    0 | 1 => {
                        a.push(element(number as u64));
                        x.push_back(number as u64);
                    }
                    2 => prop_assert_eq!(a.pop().map(|e| e.sequence), x.pop_front()),
                    3 => {
                        b.drop_front();
                        y.pop_front();
                    }
                    4 => {
                        a.move_front(&mut b);
                        y.extend(x.pop_front());
                    }
                    5 => {
                        a.move_run(&mut b, 3);
                        y.extend(x.drain(..x.len().min(3)));
                    }
                    6 => {
                        b.drop_run(2);
                        y.drain(..y.len().min(2));
                    }
                    _ => {
                        prop_assert_eq!(a.front().map(|e| e.sequence), x.front().copied());
                        prop_assert_eq!(b.front_mut().map(|e| e.sequence), y.front().copied());
                    }
                }
                prop_assert_eq!((a.len(), b.len()), (x.len(), y.len()));
            }
            let left: Vec<u64> = b.take_all().iter().map(|e| e.sequence).collect();
            prop_assert_eq!(left, Vec::from(y));
        }
    }

    #[test]
    fn elements_that_are_left_are_dropped_once() {
        let payload: std::sync::Arc<[u8]> = vec![7; 100].into();
        let mut ring = Ring::default();
        for _ in 0..9 {
            let mut emission = Emission::text("");
            emission.payload = Payload::Shared(payload.clone());
            ring.push(Element::made(emission, 0, 0, 0));
        }
        ring.drop_front();
        assert_eq!(std::sync::Arc::strong_count(&payload), 9);
        drop(ring);
        assert_eq!(std::sync::Arc::strong_count(&payload), 1);
    }
}
