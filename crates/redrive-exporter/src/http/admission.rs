//! Decides which connections stay and which request is served next. Pure: no sockets, no threads, no
//! clock.
//!
//! A connection has one of the *places*, each of which is a thread, only from its complete request to
//! the end of its response. A client that sends nothing, or slowly, never has one. Addresses share
//! what there is, so a flood from one keeps no scrape from another out:
//!
//! * If too many connections have no place, the address with the most of them loses its oldest.
//! * The next place goes to the address with the fewest places, and there to the oldest request.
//! * If no place is free, the address with the most places loses its oldest response that its client
//!   has not read yet, but never to an address that has more places.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use super::capacity::Capacity;

/// The number of a connection, in the order of arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ConnectionId(u64);

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its request is not complete.
    Asking,
    /// Its request waits for a place.
    Waiting,
    /// The handler works on the response. Never closed: its thread ends only after the handler
    /// returns, so that would free nothing sooner.
    Handled,
    /// The client reads the response.
    Answered,
}

impl Stage {
    fn has_place(self) -> bool {
        matches!(self, Stage::Handled | Stage::Answered)
    }

    fn has_no_place(self) -> bool {
        !self.has_place()
    }

    fn is_answered(self) -> bool {
        self == Stage::Answered
    }
}

/// All open connections.
#[derive(Debug)]
pub(super) struct Admission {
    capacity: Capacity,
    /// In the order of arrival.
    connections: BTreeMap<ConnectionId, (IpAddr, Stage)>,
    last: ConnectionId,
}

impl Admission {
    /// Starts without connections.
    pub(super) fn new(capacity: Capacity) -> Admission {
        Admission {
            capacity,
            connections: BTreeMap::new(),
            last: ConnectionId::default(),
        }
    }

    /// Adds a connection. Returns its number, and the connection to close if too many have no place.
    pub(super) fn arrive(&mut self, client: IpAddr) -> (ConnectionId, Option<ConnectionId>) {
        self.last.0 += 1;
        let arrived = (network(client), Stage::Asking);
        self.connections.insert(self.last, arrived);
        let without: usize = self.counts(Stage::has_no_place).values().sum();
        let is_full = without > self.capacity.waiting;
        let closed = is_full.then(|| self.close(Stage::has_no_place)).flatten();
        (self.last, closed)
    }

    /// Records what a connection does now.
    pub(super) fn enter(&mut self, id: ConnectionId, stage: Stage) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.1 = stage;
        }
    }

    /// Forgets a connection that has ended.
    pub(super) fn end(&mut self, id: ConnectionId) {
        self.connections.remove(&id);
    }

    /// Gives a place to a request that waits. Returns it, and the connection to close for it.
    pub(super) fn next(&mut self) -> Option<(ConnectionId, Option<ConnectionId>)> {
        let held = self.counts(Stage::has_place);
        let all = self.connections.iter();
        let waiting = all.filter(|(_, (_, stage))| *stage == Stage::Waiting);
        let (has, id) = waiting
            .map(|(id, (client, _))| (count(&held, client), *id))
            .min()?;
        let is_full = held.values().sum::<usize>() >= self.capacity.places;
        let closed = if is_full {
            let (most, closed) = self.first_to_go(Stage::is_answered)?;
            if most < has {
                return None;
            }
            self.end(closed);
            Some(closed)
        } else {
            None
        };
        self.enter(id, Stage::Handled);
        Some((id, closed))
    }

    /// Returns the connections whose requests are not complete, in the order of arrival.
    pub(super) fn asking(&self) -> Vec<ConnectionId> {
        let all = self.connections.iter();
        all.filter(|(_, (_, stage))| *stage == Stage::Asking)
            .map(|(id, _)| *id)
            .collect()
    }

    /// Returns the connection to close because descriptors have run out; `None` if only handlers work.
    pub(super) fn make_room(&mut self) -> Option<ConnectionId> {
        self.close(Stage::has_no_place)
            .or_else(|| self.close(Stage::is_answered))
    }

    fn close(&mut self, of: fn(Stage) -> bool) -> Option<ConnectionId> {
        let (_, id) = self.first_to_go(of)?;
        self.end(id);
        Some(id)
    }

    /// Returns the oldest connection in these stages of the address with the most connections, with
    /// or without a place as theirs. Also returns how many those are.
    fn first_to_go(&self, of: fn(Stage) -> bool) -> Option<(usize, ConnectionId)> {
        let all = self.connections.iter();
        let candidates = all.filter(|(_, (_, stage))| of(*stage));
        let counts = match of(Stage::Answered) {
            true => self.counts(Stage::has_place),
            false => self.counts(Stage::has_no_place),
        };
        candidates
            .map(|(id, (client, _))| (count(&counts, client), Reverse(*id)))
            .max()
            .map(|(most, Reverse(id))| (most, id))
    }

    /// Counts the connections in these stages, by address.
    fn counts(&self, of: fn(Stage) -> bool) -> BTreeMap<IpAddr, usize> {
        let mut counts = BTreeMap::new();
        for (client, stage) in self.connections.values() {
            if of(*stage) {
                *counts.entry(*client).or_default() += 1;
            }
        }
        counts
    }
}

fn count(counts: &BTreeMap<IpAddr, usize>, client: &IpAddr) -> usize {
    counts.get(client).copied().unwrap_or(0)
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

    fn admission(places: usize, waiting: usize) -> Admission {
        Admission::new(Capacity { places, waiting })
    }

    impl Admission {
        /// Adds a connection of an address, which closes none.
        fn ask(&mut self, number: u8) -> ConnectionId {
            let (id, closed) = self.arrive(IpAddr::from([192, 0, 2, number]));
            assert_eq!(closed, None);
            id
        }

        /// Adds a connection with a complete request.
        fn request(&mut self, number: u8) -> ConnectionId {
            let id = self.ask(number);
            self.enter(id, Stage::Waiting);
            id
        }

        /// Adds a connection in a stage with a place.
        fn place(&mut self, number: u8, stage: Stage) -> ConnectionId {
            let id = self.request(number);
            assert_eq!(self.next(), Some((id, None)));
            self.enter(id, stage);
            id
        }
    }

    #[test]
    fn a_client_gets_a_place_when_its_request_is_complete() {
        let mut admission = admission(1, 2);
        let id = admission.ask(1);
        assert_eq!(admission.next(), None);
        admission.enter(id, Stage::Waiting);
        assert_eq!(admission.next(), Some((id, None)));
        let second = admission.request(1);
        assert_eq!(admission.next(), None, "the handler keeps the place");
        admission.end(id);
        assert_eq!(admission.next(), Some((second, None)));
    }

    #[test]
    fn the_address_with_the_most_connections_without_a_place_loses_the_oldest() {
        let mut admission = admission(2, 3);
        let served = admission.place(1, Stage::Handled);
        let first = admission.request(1);
        admission.ask(2);
        let second = admission.ask(1);
        let of = |number: u8| IpAddr::from([192, 0, 2, number]);
        assert_eq!(admission.arrive(of(1)).1, Some(first));
        assert_eq!(admission.arrive(of(3)).1, Some(second));
        // One each: the oldest of all.
        let (newest, closed) = admission.arrive(of(4));
        assert!(closed.is_some_and(|closed| closed > served && closed < newest));
    }

    #[test]
    fn addresses_take_turns_at_the_places() {
        let mut admission = admission(4, 20);
        let ids = [3, 3, 3, 1, 1, 2].map(|number| admission.request(number));
        let order: Vec<_> = std::iter::from_fn(|| admission.next()).collect();
        let expected = [0, 3, 5, 1].map(|index| (ids[index], None::<ConnectionId>));
        assert_eq!(order, expected);
    }

    #[test]
    fn a_response_that_is_not_read_makes_room() {
        let mut admission = admission(4, 20);
        let handled = admission.place(1, Stage::Handled);
        let [first, second] = [1, 1].map(|number| admission.place(number, Stage::Answered));
        let other = admission.place(2, Stage::Answered);
        let [own, of_the_other] = [1, 2].map(|number| admission.request(number));
        let of_another = admission.request(3);
        // The address with the most places loses its oldest response, for itself too.
        assert_eq!(admission.next(), Some((of_another, Some(first))));
        assert_eq!(admission.next(), Some((of_the_other, Some(second))));
        // Address 2 has more places than address 1 now, which only works on a response.
        assert_eq!(admission.next(), Some((own, Some(other))));
        assert_eq!(admission.next(), None);
        admission.enter(own, Stage::Answered);
        let next = admission.request(1);
        assert_eq!(admission.next(), Some((next, Some(own))));
        assert!(admission.connections.contains_key(&handled));
    }

    #[test]
    fn an_address_takes_no_place_from_one_with_fewer() {
        let mut admission = admission(3, 20);
        admission.place(1, Stage::Handled);
        admission.place(1, Stage::Handled);
        let other = admission.place(2, Stage::Answered);
        admission.request(1);
        assert_eq!(admission.next(), None);
        let own = admission.request(2);
        assert_eq!(admission.next(), Some((own, Some(other))));
    }

    #[test]
    fn no_flood_from_one_address_delays_a_request_from_another() {
        for stage in [Stage::Asking, Stage::Waiting] {
            let mut admission = admission(4, 8);
            for _ in 0..100 {
                let (id, _) = admission.arrive(IpAddr::from([192, 0, 2, 1]));
                admission.enter(id, stage);
                while let Some((id, _)) = admission.next() {
                    admission.enter(id, Stage::Answered);
                }
            }
            let (scrape, closed) = admission.arrive(IpAddr::from([192, 0, 2, 2]));
            assert_ne!(closed, Some(scrape));
            admission.enter(scrape, Stage::Waiting);
            let served = admission.next().map(|(id, _)| id);
            assert_eq!(served, Some(scrape), "{stage:?}");
        }
    }

    #[test]
    fn descriptors_that_run_out_take_connections_without_a_place_first() {
        let mut admission = admission(8, 100);
        admission.place(1, Stage::Handled);
        let answered = admission.place(1, Stage::Answered);
        let asking = admission.ask(2);
        for closed in [Some(asking), Some(answered), None] {
            assert_eq!(admission.make_room(), closed);
        }
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
