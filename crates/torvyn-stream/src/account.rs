//! Accounts of bytes, and charges to them that end when they are dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub struct Account(AtomicU64);

impl Account {
    #[inline]
    pub fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub fn charge(self: &Arc<Self>, bytes: u64) -> Charge {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Charge { account: self.clone(), bytes }
    }
}

/// Bytes on an account until this charge is dropped.
#[derive(Debug)]
pub struct Charge {
    account: Arc<Account>,
    bytes: u64,
}

impl Charge {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_charge_ends_when_it_is_dropped() {
        let account = Arc::<Account>::default();
        let (one, two) = (account.charge(3), account.charge(4));
        assert_eq!(account.bytes(), 7);
        drop(one);
        assert_eq!(account.bytes(), two.bytes());
        drop(two);
        assert_eq!(account.bytes(), 0);
    }
}
