//! Which connections there are, and which of them makes room for a new one.
//!
//! A connection is unknown until it has brought a request with a valid key. Unknown ones have a limit of their own, in
//! total and per address, so that they never take the places of callers with a key. At a limit the connection that has
//! been idle longest is closed. Where keys are required, an answer to an unknown caller is a refusal or a public page, and
//! may be cut; where they are not, no answer is.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use slab::Slab;

use crate::connection::{Connection, Worth};
use crate::options::Options;
use crate::reactor::lock;
use crate::server::Shared;

/// How many connections there are and were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub open: usize,
    /// Of those, how many have brought a valid key.
    pub known: usize,
    /// Closed to make room.
    pub evicted: u64,
    /// Closed at once, because there was no room.
    pub refused: u64,
}

#[derive(Default)]
pub struct OpenConnections {
    connections: Slab<Arc<Connection>>,
    /// Unknown ones.
    by_address: HashMap<IpAddr, usize>,
    unknown: usize,
    evicted: u64,
    refused: u64,
}

impl OpenConnections {
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Connection>> {
        self.connections.iter().map(|(_, connection)| connection)
    }

    pub fn counts(&self) -> Counts {
        let open = self.connections.len();
        Counts { open, known: open - self.unknown, evicted: self.evicted, refused: self.refused }
    }

    /// Makes room for a connection from that address; false if there is none.
    pub fn make_room(&mut self, address: IpAddr, options: &Options) -> bool {
        let of_address = self.by_address.get(&address).copied().unwrap_or(0);
        let is_spared = |worth| worth == Worth::UnknownAnswered && !options.has_keys;
        let has_room = if of_address >= options.max_unknown_per_address {
            self.evict(|one, worth| !one.is_known() && one.peer.ip() == address && !is_spared(worth))
        } else if self.unknown >= options.max_unknown {
            self.evict(|one, worth| !one.is_known() && !is_spared(worth))
        } else {
            self.connections.len() < options.max_connections || self.evict(|_, worth| !is_spared(worth))
        };
        self.refused += u64::from(!has_room);
        has_room
    }

    /// Closes the connection of those that has the least worth, for the longest time; false if there is none.
    fn evict(&mut self, may_be: impl Fn(&Connection, Worth) -> bool) -> bool {
        let candidates = self.iter().filter_map(|one| one.worth().map(|worth| (worth, one)));
        let found = candidates
            .filter(|((worth, _), one)| may_be(one, *worth))
            .min_by_key(|(worth, _)| *worth)
            .map(|(_, one)| one.reset());
        self.evicted += u64::from(found.is_some());
        found.is_some()
    }

    pub fn recognise(&mut self, connection: &Connection) {
        if connection.recognise() {
            self.forget_unknown(connection.peer.ip());
        }
    }

    fn insert(&mut self, connection: Arc<Connection>) -> usize {
        *self.by_address.entry(connection.peer.ip()).or_default() += 1;
        self.unknown += 1;
        self.connections.insert(connection)
    }

    fn remove(&mut self, key: usize) {
        let connection = self.connections.remove(key);
        if !connection.is_known() {
            self.forget_unknown(connection.peer.ip());
        }
    }

    fn forget_unknown(&mut self, address: IpAddr) {
        self.unknown -= 1;
        if let Some(count) = self.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
    }
}

/// The place of a connection, until it is dropped.
pub struct Place {
    shared: Arc<Shared>,
    key: usize,
}

pub fn enter(shared: &Arc<Shared>, connection: Arc<Connection>) -> Place {
    let key = lock(&shared.open).insert(connection);
    Place { shared: shared.clone(), key }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.shared.open).remove(self.key);
    }
}
