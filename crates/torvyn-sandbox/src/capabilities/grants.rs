//! Grants: the capabilities of one component. It gets access to exactly what is granted.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use wasmtime_wasi::sockets::SocketAddrUse;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};

use crate::capabilities::capability::Capability;
use crate::capabilities::denial::{Denials, Kind};
use crate::capabilities::deterministic_world::{self, Clock};
use crate::capabilities::network_policy::NetworkPolicy;
use crate::capabilities::print::{Channel, PrintBuffer, PrintChannel};

#[derive(Debug, Clone, Default)]
pub struct Grants {
    pub capabilities: Vec<Capability>,
    /// With a seed, clocks and random numbers derive from it and runs are reproducible.
    pub seed: Option<u64>,
}

/// Random bytes per call: the host generates all of them before the guest gets one.
const RANDOM_MAX: u64 = 1 << 20;

/// The resources that were opened for one instance.
pub(crate) struct OpenedGrants {
    pub wasi: WasiCtx,
    pub tcp: Arc<NetworkPolicy>,
    pub http: Arc<NetworkPolicy>,
    /// The clock of a guest that has a seed.
    pub clock: Option<Clock>,
}

impl Grants {
    /// Whether a capability is granted, by its text; invalid text is not granted.
    pub fn has(&self, name: &str) -> bool {
        Capability::parse(name, Path::new("/")).is_ok_and(|request| self.covers(&request))
    }

    pub fn covers(&self, request: &Capability) -> bool {
        // Clocks and insecure random numbers reveal nothing and change nothing: every guest has them.
        let harmless = matches!(
            request,
            Capability::ClockWall | Capability::ClockMonotonic | Capability::RandomInsecure
        );
        harmless || self.capabilities.iter().any(|grant| grant.covers(request))
    }

    pub fn open_files(&self) -> bool {
        self.capabilities.iter().any(|grant| matches!(grant, Capability::Filesystem { .. }))
    }

    pub fn open_sockets(&self) -> bool {
        self.capabilities.iter().any(|grant| matches!(grant, Capability::Network { http: false, .. }))
    }

    pub fn open_http(&self) -> bool {
        self.capabilities.iter().any(|grant| matches!(grant, Capability::Network { http: true, .. }))
    }

    /// Opens everything that is granted, and nothing else.
    pub(crate) fn open(
        &self,
        printed: &PrintBuffer,
        denials: &Arc<Denials>,
    ) -> wasmtime::Result<OpenedGrants> {
        let mut wasi = WasiCtx::builder();
        wasi.max_random_size(RANDOM_MAX);
        for (channel, capability) in
            [(Channel::Stdout, Capability::Stdout), (Channel::Stderr, Capability::Stderr)]
        {
            let granted = self.covers(&capability);
            let pen = PrintChannel { channel, granted, printed: printed.clone() };
            match channel {
                Channel::Stdout => wasi.stdout(pen),
                Channel::Stderr => wasi.stderr(pen),
            };
        }
        for capability in &self.capabilities {
            match capability {
                Capability::Filesystem { path, write } => open_folder(&mut wasi, path, *write)?,
                Capability::Environment(names) => {
                    let granted = |name: &String| names.iter().any(|grant| grant == "*" || grant == name);
                    // A variable that is not text cannot be passed on, which is no reason to fail.
                    let text = |(name, value): (OsString, OsString)| {
                        Some((name.into_string().ok()?, value.into_string().ok()?))
                    };
                    let variables: Vec<_> =
                        std::env::vars_os().filter_map(text).filter(|(name, _)| granted(name)).collect();
                    wasi.envs(&variables);
                }
                _ => {}
            }
        }
        let tcp = Arc::new(NetworkPolicy::of(&self.capabilities, false));
        open_sockets(&mut wasi, tcp.clone(), denials.clone());
        let clock = self.seed.map(|seed| deterministic_world::install(&mut wasi, seed));
        let http = Arc::new(NetworkPolicy::of(&self.capabilities, true));
        Ok(OpenedGrants { wasi: wasi.build(), tcp, http, clock })
    }
}

/// Allows connections by policy. Guests cannot listen or send datagrams.
fn open_sockets(wasi: &mut WasiCtxBuilder, policy: Arc<NetworkPolicy>, denials: Arc<Denials>) {
    let open = !policy.is_empty();
    wasi.allow_tcp(open).allow_ip_name_lookup(open).allow_udp(false);
    wasi.socket_addr_check(move |address, usage| {
        let (kind, granted) = match usage {
            SocketAddrUse::TcpConnect => (Kind::Connect, policy.allows(address.ip(), address.port())),
            // Binding to any local port is part of connecting.
            SocketAddrUse::TcpBind => (Kind::Listen, address.ip().is_unspecified() && address.port() == 0),
            SocketAddrUse::TcpListen | SocketAddrUse::TcpAccept => (Kind::Listen, false),
            _ => (Kind::Datagram, false),
        };
        if !granted {
            denials.note(kind, || address.to_string());
        }
        Box::pin(async move { granted })
    });
}

/// WASI opens folders, not files, so grants name folders.
fn open_folder(wasi: &mut WasiCtxBuilder, path: &Path, write: bool) -> wasmtime::Result<()> {
    if !fs::metadata(path).is_ok_and(|facts| facts.is_dir()) {
        wasmtime::bail!("the granted path `{}` is not a folder", path.display());
    }
    let perms = if write { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
    wasi.preopened_dir(path, path.to_string_lossy(), perms)?;
    Ok(())
}
