//! Capabilities: what a component requests and a manifest grants, parsed and comparable.

use std::net::IpAddr;
use std::path::{Component, Path, PathBuf};

use crate::capabilities::address::{AddressScope, address_scope};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Capability {
    Filesystem { path: PathBuf, write: bool },
    Network { http: bool, hosts: Vec<String>, ports: Vec<(u16, u16)> },
    ClockWall,
    ClockMonotonic,
    RandomCrypto,
    RandomInsecure,
    Environment(Vec<String>),
    Stdout,
    Stderr,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct BadCapability {
    pub reason: String,
}

fn bad(reason: impl Into<String>) -> BadCapability {
    BadCapability { reason: reason.into() }
}

impl Capability {
    /// Parses `filesystem:read:<path>` and the like; relative paths are resolved in `folder`.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, BadCapability> {
        let mut parts = text.splitn(3, ':');
        let (area, what, rest) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""), parts.next());
        let capability = match (area, what) {
            ("filesystem", "read" | "write") => {
                let path = rest.filter(|path| !path.is_empty()).ok_or_else(|| bad("a path is missing"))?;
                Self::Filesystem { path: normal(&folder.join(path)), write: what == "write" }
            }
            ("network", "tcp-connect" | "http-outgoing") => {
                let (hosts, ports) = rest
                    .and_then(|rest| rest.rsplit_once(':'))
                    .ok_or_else(|| bad("it needs hosts and ports: `network:tcp-connect:<hosts>:<ports>`"))?;
                Self::Network {
                    http: what == "http-outgoing",
                    hosts: hosts_of(hosts)?,
                    ports: ports_of(ports)?,
                }
            }
            ("environment", "read") => {
                Self::Environment(names(rest.ok_or_else(|| bad("variable names are missing"))?)?)
            }
            ("clock", "wall") => Self::ClockWall,
            ("clock", "monotonic") => Self::ClockMonotonic,
            ("random", "crypto") => Self::RandomCrypto,
            ("random", "insecure") => Self::RandomInsecure,
            ("stdio", "stdout") => Self::Stdout,
            ("stdio", "stderr") => Self::Stderr,
            _ => return Err(bad(format!("unknown capability `{area}:{what}`"))),
        };
        let bare =
            !matches!(capability, Self::Filesystem { .. } | Self::Network { .. } | Self::Environment(_));
        if bare && rest.is_some() {
            return Err(bad(format!("`{area}:{what}` takes nothing after it")));
        }
        Ok(capability)
    }

    /// Whether this capability includes `other`: it is at least as wide in every part.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Filesystem { path, write }, Self::Filesystem { path: request, write: writes }) => {
                request.starts_with(path) && (*write || !writes)
            }
            (
                Self::Network { http, hosts, ports },
                Self::Network { http: asked_http, hosts: asked_hosts, ports: asked_ports },
            ) => {
                http == asked_http
                    && asked_hosts.iter().all(|host| hosts.iter().any(|grant| host_covers(grant, host)))
                    && asked_ports.iter().all(|(from, to)| ports.iter().any(|(a, b)| a <= from && to <= b))
            }
            (Self::Environment(names), Self::Environment(request)) => {
                request.iter().all(|name| names.iter().any(|granted| granted == "*" || granted == name))
            }
            _ => self == other,
        }
    }
}

/// A wildcard covers public addresses only, so it does not cover names and addresses of other scopes.
fn host_covers(grant: &str, host: &str) -> bool {
    if grant == host {
        return true;
    }
    match (grant.strip_prefix('*'), host.parse::<IpAddr>()) {
        (Some(""), Ok(address)) => address_scope(address) == AddressScope::Public,
        (Some(""), Err(_)) => host != "localhost" && !host.ends_with(".localhost"),
        (Some(domain), Err(_)) => host.len() > domain.len() && host.ends_with(domain),
        _ => false,
    }
}

/// Hosts in the form that is compared: names in lower case without the final dot, addresses in canonical form.
fn hosts_of(text: &str) -> Result<Vec<String>, BadCapability> {
    let hosts: Vec<String> = names(text)?.iter().map(|host| host_name(host)).collect();
    let odd = |host: &&String| host.strip_prefix("*.").unwrap_or(host).contains('*') && *host != "*";
    match hosts.iter().find(odd) {
        Some(host) => {
            Err(bad(format!("`{host}` is not a host: `*` may stand only alone or before the first dot")))
        }
        None => Ok(hosts),
    }
}

pub(crate) fn host_name(text: &str) -> String {
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    match bare.parse::<IpAddr>() {
        Ok(address) => address.to_canonical().to_string(),
        Err(_) => bare.strip_suffix('.').unwrap_or(bare).to_ascii_lowercase(),
    }
}

fn names(text: &str) -> Result<Vec<String>, BadCapability> {
    let names: Vec<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    if names.iter().any(String::is_empty) { Err(bad("a name is empty")) } else { Ok(names) }
}

fn ports_of(text: &str) -> Result<Vec<(u16, u16)>, BadCapability> {
    if text == "*" {
        return Ok(vec![(1, u16::MAX)]);
    }
    let port = |text: &str| {
        text.trim()
            .parse::<u16>()
            .ok()
            .filter(|port| *port > 0)
            .ok_or_else(|| bad(format!("`{text}` is not a port")))
    };
    let range = |part: &str| match part.split_once('-') {
        Some((from, to)) => match (port(from)?, port(to)?) {
            (from, to) if from <= to => Ok((from, to)),
            _ => Err(bad(format!("`{part}` is not a range of ports"))),
        },
        None => port(part).map(|one| (one, one)),
    };
    text.split(',').map(range).collect()
}

/// The path without `.` and `..`, by its text alone.
fn normal(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Capability, BadCapability> {
        Capability::parse(text, Path::new("/project"))
    }

    fn covers(grant: &str, request: &str) -> bool {
        match (parse(grant), parse(request)) {
            (Ok(grant), Ok(request)) => grant.covers(&request),
            other => panic!("not capabilities: {other:?}"),
        }
    }

    #[test]
    fn a_grant_covers_what_is_as_narrow_in_every_part() {
        assert!(covers("filesystem:write:data", "filesystem:read:data/in"));
        assert!(covers("network:tcp-connect:*.example.org:1-100", "network:tcp-connect:a.example.org:80"));
        assert!(covers("environment:read:A,B", "environment:read:B"));
        assert!(covers("stdio:stdout", "stdio:stdout"));
    }

    #[test]
    fn a_grant_covers_nothing_wider() {
        assert!(!covers("filesystem:read:data", "filesystem:write:data"));
        assert!(!covers("filesystem:read:data", "filesystem:read:data/../secret"));
        assert!(!covers("filesystem:read:data", "filesystem:read:database"));
        assert!(!covers("network:tcp-connect:*.example.org:80", "network:tcp-connect:badexample.org:80"));
        assert!(!covers("network:tcp-connect:example.org:80", "network:tcp-connect:example.org:80,81"));
        assert!(!covers("network:tcp-connect:example.org:80", "network:http-outgoing:example.org:80"));
        assert!(!covers("stdio:stdout", "stdio:stderr"));
    }

    #[test]
    fn a_wildcard_covers_neither_this_machine_nor_its_site() {
        let request = |host: &str| format!("network:http-outgoing:{host}:80");
        for host in ["a.org", "8.8.8.8", "[2606:4700::1111]"] {
            assert!(covers("network:http-outgoing:*:*", &request(host)), "{host}");
        }
        for host in ["localhost", "127.0.0.1", "::1", "169.254.169.254", "10.0.0.1", "[::ffff:127.0.0.1]"] {
            assert!(!covers("network:http-outgoing:*:*", &request(host)), "{host}");
            assert!(covers(&request(host), &request(host)), "{host}");
        }
        assert!(parse("network:tcp-connect:a.*.org:80").is_err());
    }

    #[test]
    fn hosts_are_compared_in_one_form() {
        assert!(covers("network:tcp-connect:Example.ORG.:80", "network:tcp-connect:example.org:80"));
        assert!(covers("network:tcp-connect:::1:80", "network:tcp-connect:[0:0:0:0:0:0:0:1]:80"));
        assert!(covers("network:tcp-connect:127.0.0.1:80", "network:tcp-connect:[::ffff:127.0.0.1]:80"));
    }

    proptest! {
        #[test]
        fn a_folder_covers_a_path_when_its_parts_are_the_paths_first(
            grant in prop::collection::vec("[abc.]{1,3}", 0..4),
            request in prop::collection::vec("[abc.]{1,3}", 0..6),
        ) {
            let (granted, wanted) = (grant.join("/"), request.join("/"));
            let covered = covers(&format!("filesystem:read:/{granted}"), &format!("filesystem:read:/{wanted}"));
            let walk = |parts: &[String]| {
                let mut walked: Vec<String> = Vec::new();
                for part in parts {
                    match part.as_str() {
                        "." => {}
                        ".." => drop(walked.pop()),
                        name => walked.push(name.to_owned()),
                    }
                }
                walked
            };
            prop_assert_eq!(covered, walk(&request).starts_with(&walk(&grant)));
        }

        #[test]
        fn what_is_no_capability_is_refused_and_never_a_panic(text in "\\PC{0,40}") {
            let _ = parse(&text);
            let _ = parse(&format!("network:tcp-connect:{text}"));
        }
    }

    #[test]
    fn text_that_is_no_capability_is_refused() {
        for text in
            ["", "disk", "filesystem:read", "filesystem:read:", "clock:wall:now", "network:tcp-connect:x"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
        for ports in ["0", "70000", "a", "1-", "9-8"] {
            assert!(parse(&format!("network:tcp-connect:host:{ports}")).is_err(), "{ports}");
        }
    }
}
