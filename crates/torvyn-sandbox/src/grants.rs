//! Grants: the capabilities of one component, opened exactly. What is not granted is not there.

use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, ToSocketAddrs};
use std::path::Path;

use wasmtime_wasi::sockets::SocketAddrUse;
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxBuilder};

use crate::capability::Capability;
use crate::print::{Channel, Pen, Printed};

#[derive(Debug, Clone, Default)]
pub struct Grants {
    pub capabilities: Vec<Capability>,
}

impl Grants {
    /// Whether a guest has what it names; text that is no capability is not granted.
    pub fn has(&self, name: &str) -> bool {
        Capability::parse(name, Path::new("/")).is_ok_and(|asked| self.covers(&asked))
    }

    pub fn covers(&self, asked: &Capability) -> bool {
        // Clocks and insecure random tell nothing and change nothing: everybody has them.
        let harmless =
            matches!(asked, Capability::ClockWall | Capability::ClockMonotonic | Capability::RandomInsecure);
        harmless || self.capabilities.iter().any(|grant| grant.covers(asked))
    }

    pub fn open_files(&self) -> bool {
        self.capabilities.iter().any(|grant| matches!(grant, Capability::Filesystem { .. }))
    }

    pub fn open_sockets(&self) -> bool {
        self.capabilities.iter().any(|grant| matches!(grant, Capability::Network { .. }))
    }

    /// The guest's world: empty but for what is granted.
    pub(crate) fn open(&self, printed: &Printed) -> wasmtime::Result<WasiCtx> {
        let mut wasi = WasiCtx::builder();
        for (channel, capability) in
            [(Channel::Stdout, Capability::Stdout), (Channel::Stderr, Capability::Stderr)]
        {
            let granted = self.covers(&capability);
            let pen = Pen { channel, granted, printed: printed.clone() };
            match channel {
                Channel::Stdout => wasi.stdout(pen),
                Channel::Stderr => wasi.stderr(pen),
            };
        }
        wasi.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
        for capability in &self.capabilities {
            match capability {
                Capability::Filesystem { path, write } => open_folder(&mut wasi, path, *write)?,
                Capability::Environment(names) => {
                    let granted = |name: &String| names.iter().any(|grant| grant == "*" || grant == name);
                    let held: Vec<_> = std::env::vars().filter(|(name, _)| granted(name)).collect();
                    wasi.envs(&held);
                }
                _ => {}
            }
        }
        self.open_network(&mut wasi);
        Ok(wasi.build())
    }

    /// Connections to the addresses that the granted hosts have now, on the granted ports. A name that later points
    /// elsewhere does not help: addresses are compared, not names.
    fn open_network(&self, wasi: &mut WasiCtxBuilder) {
        let mut open: Vec<Reach> = Vec::new();
        for capability in &self.capabilities {
            if let Capability::Network { http: false, hosts, ports } = capability {
                let everywhere = hosts.iter().any(|host| host == "*");
                open.push(((!everywhere).then(|| addresses(hosts)), ports.clone()));
            }
        }
        if open.is_empty() {
            return;
        }
        wasi.allow_tcp(true).allow_ip_name_lookup(true);
        wasi.socket_addr_check(move |address, usage| {
            let connects = matches!(usage, SocketAddrUse::TcpConnect);
            let granted = connects
                && open.iter().any(|(hosts, ports)| {
                    hosts.as_ref().is_none_or(|hosts| hosts.contains(&address.ip()))
                        && ports.iter().any(|(from, to)| (*from..=*to).contains(&address.port()))
                });
            // Binding to any port of one's own is part of connecting.
            let binds = matches!(usage, SocketAddrUse::TcpBind)
                && address.ip().is_unspecified()
                && address.port() == 0;
            Box::pin(async move { granted || binds })
        });
    }
}

/// Addresses, or all of them, and the ports on them.
type Reach = (Option<HashSet<IpAddr>>, Vec<(u16, u16)>);

fn addresses(hosts: &[String]) -> HashSet<IpAddr> {
    let found = |host: &String| (host.as_str(), 0).to_socket_addrs().ok();
    hosts.iter().filter_map(found).flatten().map(|address| address.ip()).collect()
}

/// A granted file is reached through the folder it is in only if that folder is granted: so grants name folders.
fn open_folder(wasi: &mut WasiCtxBuilder, path: &Path, write: bool) -> wasmtime::Result<()> {
    if !fs::metadata(path).is_ok_and(|facts| facts.is_dir()) {
        wasmtime::bail!("the granted path `{}` is no folder", path.display());
    }
    let perms = if write { FsPerms::ReadWrite } else { FsPerms::ReadOnly };
    wasi.preopened_dir(path, path.to_string_lossy(), perms)?;
    Ok(())
}
