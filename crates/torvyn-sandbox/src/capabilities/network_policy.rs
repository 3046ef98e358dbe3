//! The network policy: where a guest may connect, by its grants.
//!
//! A granted address is exact. A granted name covers what it resolves to, also on this machine and its site, but never
//! a special address. A wildcard covers public addresses only. Addresses are checked when the connection is made, so a
//! name that later points elsewhere gives no access.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use crate::capabilities::address::{AddressScope, address_scope};
use crate::capabilities::capability::{Capability, host_name};

type Ports = Vec<(u16, u16)>;

/// How many resolved names are remembered. When there are more, all are forgotten and the guest must look up again.
const RESOLVED_MAX: usize = 1024;

#[derive(Default)]
pub struct NetworkPolicy {
    grants: Vec<(Vec<String>, Ports)>,
    resolved: Mutex<ResolvedNames>,
}

#[derive(Default)]
struct ResolvedNames {
    /// Lookups in progress, by their handle.
    pending: HashMap<u32, String>,
    names: HashMap<IpAddr, HashSet<String>>,
    count: usize,
}

impl NetworkPolicy {
    /// The grants for plain connections, or for HTTP.
    pub fn of(capabilities: &[Capability], for_http: bool) -> Self {
        let opened = |capability: &Capability| match capability {
            Capability::Network { http, hosts, ports } if *http == for_http => {
                Some((hosts.clone(), ports.clone()))
            }
            _ => None,
        };
        Self { grants: capabilities.iter().filter_map(opened).collect(), resolved: Mutex::default() }
    }

    pub fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    /// Whether the name may be looked up: a lookup reveals it to name servers.
    pub fn names(&self, name: &str) -> bool {
        let name = host_name(name);
        self.grants.iter().any(|(hosts, _)| hosts.iter().any(|grant| stands_for(grant, &name)))
    }

    /// The widest scope that a connection to this host and port may reach; None if it is not granted.
    pub fn bound(&self, host: &str, port: u16) -> Option<AddressScope> {
        let name = host_name(host);
        let open = |ports: &Ports| ports.iter().any(|(from, to)| (*from..=*to).contains(&port));
        let hosts = self.grants.iter().filter(|(_, ports)| open(ports)).flat_map(|(hosts, _)| hosts);
        hosts.filter_map(|grant| bound_of(grant, &name)).max()
    }

    /// Whether a connection to the address is granted, directly or through a name that resolved to it.
    pub fn allows(&self, address: IpAddr, port: u16) -> bool {
        let address = address.to_canonical();
        let near = address_scope(address);
        if self.bound(&address.to_string(), port).is_some_and(|bound| near <= bound) {
            return true;
        }
        let resolved = self.resolved.lock().unwrap_or_else(PoisonError::into_inner);
        let names = resolved.names.get(&address).into_iter().flatten();
        names.filter_map(|name| self.bound(name, port)).any(|bound| near <= bound)
    }

    pub fn note_lookup(&self, lookup: u32, name: &str) {
        let mut resolved = self.resolved.lock().unwrap_or_else(PoisonError::into_inner);
        resolved.pending.insert(lookup, host_name(name));
    }

    pub fn note_address(&self, lookup: u32, address: IpAddr) {
        let mut resolved = self.resolved.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(name) = resolved.pending.get(&lookup).cloned() else { return };
        if resolved.count >= RESOLVED_MAX {
            resolved.names.clear();
            resolved.count = 0;
        }
        let is_new = resolved.names.entry(address.to_canonical()).or_default().insert(name);
        resolved.count += usize::from(is_new);
    }
}

fn stands_for(grant: &str, name: &str) -> bool {
    bound_of(grant, name).is_some()
}

fn bound_of(grant: &str, name: &str) -> Option<AddressScope> {
    if grant == name {
        let is_address = name.parse::<IpAddr>().is_ok();
        return Some(if is_address { AddressScope::Special } else { AddressScope::Local });
    }
    let domain = grant.strip_prefix('*')?;
    (domain.is_empty() || (name.len() > domain.len() && name.ends_with(domain)))
        .then_some(AddressScope::Public)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::Path;

    use super::*;

    fn policy(grants: &[&str]) -> NetworkPolicy {
        let parse = |text: &&str| Capability::parse(text, Path::new("/")).unwrap();
        NetworkPolicy::of(&grants.iter().map(parse).collect::<Vec<_>>(), false)
    }

    fn allows(policy: &NetworkPolicy, address: &str, port: u16) -> bool {
        policy.allows(address.parse().unwrap(), port)
    }

    #[test]
    fn an_address_is_reached_on_the_granted_ports_and_no_other() {
        let policy = policy(&["network:tcp-connect:127.0.0.1,169.254.1.1:80,90-91"]);
        assert!(allows(&policy, "127.0.0.1", 80) && allows(&policy, "169.254.1.1", 91));
        assert!(!allows(&policy, "127.0.0.1", 81) && !allows(&policy, "127.0.0.2", 80));
    }

    #[test]
    fn a_wildcard_reaches_public_addresses_only() {
        let policy = policy(&["network:tcp-connect:*:80"]);
        assert!(allows(&policy, "8.8.8.8", 80));
        for address in
            ["127.0.0.1", "10.1.2.3", "169.254.169.254", "::1", "::ffff:10.0.0.1", "64:ff9b::a00:1"]
        {
            assert!(!allows(&policy, address, 80), "{address}");
        }
    }

    #[test]
    fn a_name_reaches_what_it_was_looked_up_to_be() {
        let policy = policy(&["network:tcp-connect:db.local:5432", "network:tcp-connect:*.example.org:80"]);
        assert!(policy.names("DB.local.") && policy.names("a.example.org") && !policy.names("example.org"));
        for (lookup, name) in [(1, "db.local"), (2, "a.example.org")] {
            policy.note_lookup(lookup, name);
            for address in ["10.0.0.7", "9.9.9.9", "169.254.169.254"] {
                assert!(!allows(&policy, address, 1));
                policy.note_address(lookup, address.parse().unwrap());
            }
        }
        assert!(allows(&policy, "10.0.0.7", 5432) && allows(&policy, "9.9.9.9", 80));
        assert!(!allows(&policy, "10.0.0.7", 80), "a wildcard does not policy the site");
        assert!(!allows(&policy, "169.254.169.254", 5432), "no name leads to a link-local address");
    }

    #[test]
    fn grants_for_http_open_no_plain_connections() {
        assert!(policy(&["network:http-outgoing:*:*"]).is_empty());
    }
}
