//! Limits: what one instance may use, and the account that refuses more.
//!
//! Linear memory and everything that the host keeps for the guest count against one limit.

use std::sync::Arc;
use std::time::Duration;

use torvyn_stream::Account;
use wasmtime::ResourceLimiter;

#[derive(Debug, Clone)]
pub struct Limits {
    /// The guest's linear memories together with what the host keeps for it: payloads, content type names, attributes.
    pub memory_bytes: u64,
    pub memories: usize,
    pub tables: usize,
    pub table_elements: usize,
    /// Payload handles that the guest may have at a time.
    pub handles: usize,
    pub call_timeout: Duration,
    /// For instantiation and `init` together.
    pub init_timeout: Duration,
    /// Instructions per call; counting them needs the fuel engine.
    pub fuel: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            memories: MEMORIES,
            tables: TABLES,
            table_elements: 200_000,
            handles: 1024,
            call_timeout: Duration::from_secs(5),
            init_timeout: Duration::from_secs(5),
            fuel: None,
        }
    }
}

pub const MEMORIES: usize = 4;
pub const TABLES: usize = 32;
pub const CORE_INSTANCES: usize = 512;

/// The largest payload, whatever the budget.
pub const PAYLOAD_MAX: u64 = 16 << 20;

/// Tracks what the guest uses, and remembers what was refused: a guest that was refused memory usually traps a moment
/// later, and the error should say why.
pub struct Limiter {
    limits: Limits,
    linear_bytes: u64,
    table_elements: usize,
    /// Payloads that the guest wrote and has not passed on, and their names.
    payload_bytes: u64,
    /// What the guest pays for until the host drops it, wherever it is by then.
    kept: Arc<Account>,
    pub refused: Option<String>,
}

impl Limiter {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            linear_bytes: 0,
            table_elements: 0,
            payload_bytes: 0,
            kept: Arc::default(),
            refused: None,
        }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn memory_bytes(&self) -> u64 {
        self.linear_bytes
    }

    /// The account of what outlives a call; charges return to it when they are dropped.
    pub fn kept(&self) -> &Arc<Account> {
        &self.kept
    }

    /// Whether the host may keep `bytes` more for the guest; the reason if not.
    #[inline]
    pub fn admit(&mut self, what: &str, bytes: u64) -> Result<(), String> {
        let total = self.total_bytes().saturating_add(bytes);
        if total > self.limits.memory_bytes { Err(self.refuse(what, bytes, total)) } else { Ok(()) }
    }

    #[cold]
    fn refuse(&mut self, what: &str, bytes: u64, total: u64) -> String {
        let limit = self.limits.memory_bytes;
        let refused = format!("{bytes} bytes of {what}, {total} bytes in total (the limit is {limit})");
        self.refused = Some(refused.clone());
        refused
    }

    #[inline]
    pub fn add_payload(&mut self, bytes: u64) {
        self.payload_bytes += bytes;
    }

    #[inline]
    pub fn remove_payload(&mut self, bytes: u64) {
        self.payload_bytes = self.payload_bytes.saturating_sub(bytes);
    }

    #[inline]
    fn total_bytes(&self) -> u64 {
        self.linear_bytes + self.payload_bytes + self.kept.bytes()
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let more = (desired - current) as u64;
        let total = self.total_bytes().saturating_add(more);
        if total > self.limits.memory_bytes {
            self.refused =
                Some(format!("{total} bytes of memory (the limit is {})", self.limits.memory_bytes));
            return Ok(false);
        }
        self.linear_bytes += more;
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.table_elements + (desired - current);
        if total > self.limits.table_elements {
            self.refused =
                Some(format!("{total} table elements (the limit is {})", self.limits.table_elements));
            return Ok(false);
        }
        self.table_elements = total;
        Ok(true)
    }

    fn instances(&self) -> usize {
        CORE_INSTANCES
    }

    fn tables(&self) -> usize {
        self.limits.tables
    }

    fn memories(&self) -> usize {
        self.limits.memories
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter() -> Limiter {
        Limiter::new(Limits { memory_bytes: 1000, ..Limits::default() })
    }

    #[test]
    fn memory_payloads_and_charges_share_one_limit() {
        let mut limiter = limiter();
        assert!(limiter.memory_growing(0, 400, None).is_ok_and(|grown| grown));
        assert!(limiter.admit("payload", 300).is_ok());
        limiter.add_payload(300);
        let charge = limiter.kept().charge(200);
        assert!(limiter.admit("attributes", 100).is_ok());
        assert_eq!(
            limiter.admit("attributes", 101),
            Err("101 bytes of attributes, 1001 bytes in total (the limit is 1000)".to_owned())
        );
        drop(charge);
        assert!(limiter.memory_growing(400, 700, None).is_ok_and(|grown| grown));
        assert!(limiter.memory_growing(700, 701, None).is_ok_and(|grown| !grown));
    }

    #[test]
    fn a_refusal_is_remembered_for_the_trap_that_follows() {
        let mut limiter = limiter();
        assert!(limiter.admit("payload", u64::MAX).is_err());
        assert!(limiter.refused.is_some_and(|refused| refused.contains("bytes of payload")));
    }
}
