//! Decides which connection makes room for another one. Pure: no sockets, no threads, no clock.
//!
//! The address with the most connections loses its oldest, so a flood from one address keeps no scrape
//! from another out.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The client sends its request, or reads the response.
    Open,
    /// The handler works on the response. Never closed: its thread ends only after the handler
    /// returns, so that would free nothing sooner.
    Handled,
    /// It made room, and its thread is about to end.
    Closed,
}

/// The connections that have a thread, in the order of arrival, with their sockets.
#[derive(Debug)]
pub(super) struct Admission<S> {
    connections: BTreeMap<u64, Connection<S>>,
    last: u64,
}

#[derive(Debug)]
struct Connection<S> {
    client: IpAddr,
    stage: Stage,
    socket: S,
}

impl<S> Admission<S> {
    /// Starts without connections.
    pub(super) fn new() -> Admission<S> {
        Admission {
            connections: BTreeMap::new(),
            last: 0,
        }
    }

    /// Returns the number of connections.
    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    /// Returns the sockets of all connections.
    pub(super) fn sockets(&self) -> impl Iterator<Item = &S> {
        self.connections.values().map(|one| &one.socket)
    }

    /// Adds a connection. Returns its number.
    pub(super) fn arrive(&mut self, client: IpAddr, socket: S) -> u64 {
        self.last += 1;
        let connection = Connection {
            client: network(client),
            stage: Stage::Open,
            socket,
        };
        self.connections.insert(self.last, connection);
        self.last
    }

    /// Records what a connection does now. Returns `false` if it was closed.
    pub(super) fn enter(&mut self, id: u64, stage: Stage) -> bool {
        match self.connections.get_mut(&id) {
            Some(connection) if connection.stage != Stage::Closed => {
                connection.stage = stage;
                true
            }
            _ => false,
        }
    }

    /// Forgets a connection whose thread ends.
    pub(super) fn end(&mut self, id: u64) {
        self.connections.remove(&id);
    }

    /// Returns the socket of the connection to close, so that there is room: the oldest one of the address with the
    /// most. `None` if only handlers work.
    pub(super) fn close_one(&mut self) -> Option<&S> {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        let all = self.connections.values();
        for connection in all.filter(|one| one.stage != Stage::Closed) {
            *counts.entry(connection.client).or_default() += 1;
        }
        let all = self.connections.iter_mut();
        let (_, closed) = all
            .filter(|(_, one)| one.stage == Stage::Open)
            .max_by_key(|(id, one)| (counts.get(&one.client).copied(), Reverse(**id)))?;
        closed.stage = Stage::Closed;
        Some(&closed.socket)
    }
}

/// Returns the address that counts as one client: of IPv6 the network of 64 bits, because one host
/// usually has a whole one.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let bits = address.to_bits() & (u128::MAX << 64);
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Connections of these addresses, whose sockets are the numbers of their places.
    fn of(addresses: &[u8]) -> Admission<u64> {
        let mut admission = Admission::new();
        for (place, number) in (1..).zip(addresses) {
            let id = admission.arrive(IpAddr::from([192, 0, 2, *number]), place);
            assert_eq!(id, place);
        }
        admission
    }

    #[test]
    fn the_address_with_the_most_connections_loses_the_oldest() {
        let mut admission = of(&[1, 2, 3, 2, 3, 3]);
        // Then there are two of address 3, as of address 2, and then one each.
        for closed in [3, 2, 5, 1, 4, 6] {
            assert_eq!(admission.close_one(), Some(&closed));
        }
        assert_eq!(admission.close_one(), None);
    }

    #[test]
    fn a_connection_counts_until_it_is_closed_and_takes_room_until_it_ends() {
        let mut admission = of(&[1, 1, 2]);
        admission.enter(1, Stage::Handled);
        assert_eq!(
            admission.close_one(),
            Some(&2),
            "the handler of the first works"
        );
        for stage in [Stage::Handled, Stage::Open] {
            assert!(!admission.enter(2, stage), "no handler works for it");
        }
        assert!(admission.enter(1, Stage::Open));
        assert_eq!(
            admission.close_one(),
            Some(&1),
            "the second one is closed already"
        );
        assert_eq!(admission.len(), 3);
        admission.end(2);
        assert_eq!(admission.sockets().collect::<Vec<_>>(), [&1, &3]);
    }

    #[test]
    fn a_connection_that_cannot_be_closed_counts_for_its_address() {
        let mut admission = of(&[1, 1, 1, 2, 2]);
        admission.enter(1, Stage::Handled);
        admission.enter(2, Stage::Handled);
        assert_eq!(admission.close_one(), Some(&3));
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_client() {
        let of = |address: &str| network(address.parse().expect("an address"));
        assert_eq!(of("2001:db8:1:2::1"), of("2001:db8:1:2:ffff::9"));
        assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
        assert_eq!(of("::ffff:10.0.0.1"), of("10.0.0.1"));
        assert_ne!(of("10.0.0.1"), of("10.0.0.2"));
    }
}
