//! Limits: what one instance may take, and the limiter that says no.

use std::time::Duration;

use wasmtime::ResourceLimiter;

#[derive(Debug, Clone)]
pub struct Limits {
    /// Linear memory of all the guest's memories together; payloads it holds in the host count to the same size.
    pub memory_bytes: u64,
    pub memories: usize,
    pub tables: usize,
    pub table_elements: usize,
    /// Payloads that the guest may hold handles of at a time.
    pub handles: usize,
    pub call_timeout: Duration,
    /// For instantiation and `init` together.
    pub init_timeout: Duration,
    /// Instructions a call may execute; counting them needs the second engine.
    pub fuel: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory_bytes: 64 << 20,
            memories: 4,
            tables: 32,
            table_elements: 200_000,
            handles: 1024,
            call_timeout: Duration::from_secs(5),
            init_timeout: Duration::from_secs(5),
            fuel: None,
        }
    }
}

/// Payloads are no larger than this, whatever the budget.
pub const PAYLOAD_MAX: u64 = 16 << 20;

/// Keeps count of what the store's memories and tables take, and remembers what was refused: a guest that was refused
/// memory usually traps a moment later, and the error should say why.
pub struct Limiter {
    limits: Limits,
    memory_bytes: u64,
    table_elements: usize,
    pub refused: Option<String>,
}

impl Limiter {
    pub fn new(limits: Limits) -> Self {
        Self { limits, memory_bytes: 0, table_elements: 0, refused: None }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn memory_bytes(&self) -> u64 {
        self.memory_bytes
    }
}

impl ResourceLimiter for Limiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.memory_bytes + (desired - current) as u64;
        if total > self.limits.memory_bytes {
            self.refused =
                Some(format!("{total} bytes of memory, where the limit is {}", self.limits.memory_bytes));
            return Ok(false);
        }
        self.memory_bytes = total;
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.table_elements + (desired - current);
        if total > self.limits.table_elements {
            self.refused =
                Some(format!("{total} table elements, where the limit is {}", self.limits.table_elements));
            return Ok(false);
        }
        self.table_elements = total;
        Ok(true)
    }

    fn instances(&self) -> usize {
        512
    }

    fn tables(&self) -> usize {
        self.limits.tables
    }

    fn memories(&self) -> usize {
        self.limits.memories
    }
}
