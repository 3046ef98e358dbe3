//! The host's state for one instance: payloads, counters, the flow, grants and printed lines.

pub mod details;
pub mod imports;
pub mod json_footprint;
pub mod limits;
pub mod slab;

use std::sync::Arc;
use std::time::{Duration, Instant};

use torvyn_stream::{Charge, CopyReason, Ledger};
use wasmtime::component::ResourceTable;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpView};

use crate::capabilities::denial::Denials;
use crate::capabilities::descriptors::Connections;
use crate::capabilities::deterministic_world::Clock;
use crate::capabilities::grants::Grants;
use crate::capabilities::http::{OutgoingHttp, resolver};
use crate::capabilities::network_policy::NetworkPolicy;
use crate::capabilities::print::PrintBuffer;
use crate::fault::MemoryExceeded;
use crate::host::details::CallDetails;
use crate::host::limits::{Limiter, Limits, PAYLOAD_MAX};
use crate::host::slab::{Readable, Slab, Slot};

/// The flow, as its components see it.
#[derive(Debug, Clone, Default)]
pub struct FlowInfo {
    pub flow_id: String,
    pub flow_name: String,
    pub trace_id: String,
    pub span_id: String,
    pub deadline: Option<Instant>,
}

/// Copies since the last call was posted to the ledger.
#[derive(Default)]
pub struct CopyCounts {
    pub to_guest: (u64, u64),
    pub to_host: (u64, u64),
    pub to_native: (u64, u64),
    pub within_host: (u64, u64),
}

impl CopyCounts {
    #[inline]
    pub fn note(count: &mut (u64, u64), bytes: u64) {
        count.0 += 1;
        count.1 += bytes;
    }

    #[inline]
    fn post(&mut self, ledger: &Ledger) {
        for (reason, (copies, bytes)) in [
            (CopyReason::HostToGuest, self.to_guest),
            (CopyReason::GuestToHost, self.to_host),
            (CopyReason::HostToNative, self.to_native),
            (CopyReason::HostToHost, self.within_host),
        ] {
            if copies > 0 {
                ledger.copy_many(reason, copies, bytes);
            }
        }
        *self = CopyCounts::default();
    }
}

struct Wasi {
    ctx: WasiCtx,
    table: ResourceTable,
    http: WasiHttpCtx,
    outgoing: OutgoingHttp,
}

/// The time of one call. A call that ends before the first tick reads no clock. Later the clock counts, not the ticks,
/// which are late on a busy machine.
#[derive(Default)]
pub struct Stopwatch {
    limit: Duration,
    until: Option<Instant>,
}

impl Stopwatch {
    #[inline]
    pub fn begin(&mut self, limit: Duration) {
        *self = Self { limit, until: None };
    }

    /// A tick has passed during the call: whether its time is over.
    pub fn is_over(&mut self) -> bool {
        let now = Instant::now();
        now >= *self.until.get_or_insert(now + self.limit)
    }
}

pub struct Host {
    pub stopwatch: Stopwatch,
    pub slab: Slab,
    pub copies: CopyCounts,
    pub limiter: Limiter,
    pub facts: FlowInfo,
    pub grants: Arc<Grants>,
    pub denials: Arc<Denials>,
    /// Where plain connections may go.
    pub tcp: Arc<NetworkPolicy>,
    /// The clock of a guest that has a seed.
    pub clock: Option<Clock>,
    pub printed: PrintBuffer,
    pub details: CallDetails,
    wasi: Option<Box<Wasi>>,
}

/// How many WASI handles a guest may have.
const WASI_HANDLES: usize = 1024;
/// The size of one request's headers in memory. Every handle may be one, so they are smaller where no request is
/// granted.
const FIELDS_BYTES: usize = 32 << 10;
const IDLE_FIELDS_BYTES: usize = 4 << 10;

impl Host {
    pub fn new(limits: Limits, grants: Arc<Grants>, denials: Arc<Denials>, facts: FlowInfo) -> Self {
        Self {
            stopwatch: Stopwatch::default(),
            slab: Slab::new(limits.handles),
            copies: CopyCounts::default(),
            limiter: Limiter::new(limits),
            facts,
            grants,
            denials,
            tcp: Arc::default(),
            clock: None,
            printed: PrintBuffer::default(),
            details: CallDetails::default(),
            wasi: None,
        }
    }

    /// Opens what is granted. Only for guests that import WASI.
    pub fn open_wasi(&mut self) -> wasmtime::Result<()> {
        let opened = self.grants.open(&self.printed, &self.denials)?;
        self.tcp = opened.tcp;
        self.clock = opened.clock;
        self.wasi = Some(Box::new(wasi(opened.wasi, opened.http, &self.denials)));
        Ok(())
    }

    /// Whether `bytes` more may be written; the reason if not.
    #[inline]
    pub fn may_make(&mut self, bytes: u64) -> Result<(), String> {
        if bytes > PAYLOAD_MAX {
            let refused = format!("{bytes} bytes of payload (the limit per element is {PAYLOAD_MAX})");
            self.limiter.refused = Some(refused.clone());
            return Err(refused);
        }
        self.limiter.admit("payload", bytes)
    }

    /// A handle for a slot; the reason if the guest has too many.
    #[inline]
    pub fn hand_out(&mut self, slot: Slot) -> Result<u32, String> {
        self.slab.insert(slot).ok_or_else(|| {
            let refused = format!("more than {} payload handles", self.limiter.limits().handles);
            self.limiter.refused = Some(refused.clone());
            refused
        })
    }

    /// Takes a payload that the guest passed on.
    #[inline]
    pub fn take(&mut self, handle: u32) -> Option<Readable> {
        match self.slab.remove(handle)? {
            Slot::Readable(readable) => {
                self.limiter.remove_payload(readable.held_bytes());
                Some(readable)
            }
            Slot::Writing(_) | Slot::UsedUp => None,
        }
    }

    /// The guest has dropped a handle.
    pub fn let_go(&mut self, handle: u32) {
        let bytes = match self.slab.remove(handle) {
            Some(Slot::Readable(readable)) => readable.held_bytes(),
            Some(Slot::Writing(writing)) => writing.held_bytes(),
            Some(Slot::UsedUp) | None => 0,
        };
        self.limiter.remove_payload(bytes);
    }

    /// Charges what a guest leaves with the host. The error names it and ends the guest.
    pub fn charge(&mut self, what: &str, bytes: u64) -> wasmtime::Result<Charge> {
        match self.limiter.admit(what, bytes) {
            Ok(()) => Ok(self.limiter.kept().charge(bytes)),
            Err(_) => Err(wasmtime::Error::new(MemoryExceeded)),
        }
    }

    #[inline]
    pub fn post(&mut self, ledger: &Ledger) {
        self.copies.post(ledger);
    }
}

fn wasi(ctx: WasiCtx, policy: Arc<NetworkPolicy>, denials: &Arc<Denials>) -> Wasi {
    let mut table = ResourceTable::new();
    table.set_max_capacity(WASI_HANDLES);
    let mut http = WasiHttpCtx::new();
    http.set_field_size_limit(if policy.is_empty() { IDLE_FIELDS_BYTES } else { FIELDS_BYTES });
    let connections = Connections::default();
    let outgoing = OutgoingHttp { policy, denials: denials.clone(), resolver: resolver(), connections };
    Wasi { ctx, table, http, outgoing }
}

impl Host {
    fn wasi(&mut self) -> &mut Wasi {
        // A guest that gets here without `open_wasi` has no grants at all.
        let denials = &self.denials;
        let nothing = || Box::new(wasi(WasiCtx::builder().build(), Arc::default(), denials));
        self.wasi.get_or_insert_with(nothing)
    }
}

impl WasiView for Host {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let wasi = self.wasi();
        WasiCtxView { ctx: &mut wasi.ctx, table: &mut wasi.table }
    }
}

impl WasiHttpView for Host {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        let wasi = self.wasi();
        WasiHttpCtxView { hooks: &mut wasi.outgoing, table: &mut wasi.table, ctx: &mut wasi.http }
    }
}
