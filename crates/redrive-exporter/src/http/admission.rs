//! Decides which connections stay, which one is served next and which one is evicted. Pure: no
//! sockets, no threads, no clock.
//!
//! A connection first *waits* and then holds one of the *places*, each of which is a thread. A client
//! that has sent nothing never gets a place. Both are shared by address:
//!
//! * If too many connections wait, the address with the most of them loses one: the oldest that has
//!   sent nothing, otherwise the newest.
//! * Addresses take turns at free places. An address takes another place only while it holds fewer
//!   than are free. One address alone therefore gets half of the places, and the next one half of
//!   the rest.
//! * If no address can take a place, the one with the most places loses the connection with the
//!   least progress, after a grace period.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use super::capacity::Capacity;

/// How long a connection keeps its place without progress while others wait.
pub(super) const EVICTION_GRACE: Duration = Duration::from_millis(200);
/// How long a client may send nothing.
pub(super) const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// The number of a connection, in the order of arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ConnectionId(u64);

/// The phase of a connection with a place, in the order of eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The response is sent; the client has not closed yet.
    Closing,
    /// The request is not complete.
    ReadingRequest,
    /// The client reads the response.
    WritingResponse,
    /// The handler works on the response. Never evicted: its thread ends only after the handler
    /// returns, so an eviction frees nothing sooner.
    Handling,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Waits, and the client has sent nothing yet.
    Silent,
    /// Waits for a place.
    Waiting,
    /// Holds a place.
    Served(Phase),
    /// Is shut down, but holds its place until its thread ends.
    Evicted,
}

#[derive(Clone, Copy, Debug)]
struct Connection {
    client: IpAddr,
    stage: Stage,
    /// When the stage or phase began.
    since: Instant,
}

/// What the accept loop does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Start a thread for this connection, which now holds a place.
    Serve(ConnectionId),
    /// Close this connection, which held no place and is forgotten.
    Close(ConnectionId),
    /// Shut this connection down so that its thread ends.
    Evict(ConnectionId),
    /// Wait for an event, at most for this time.
    Wait(Option<Duration>),
}

/// All open connections.
#[derive(Clone, Debug)]
pub(super) struct Admission {
    capacity: Capacity,
    /// In the order of arrival.
    connections: BTreeMap<ConnectionId, Connection>,
    last: ConnectionId,
    /// The address that took the last place.
    last_turn: Option<IpAddr>,
    is_closing: bool,
}

impl Admission {
    /// Starts without connections.
    pub(super) fn new(capacity: Capacity) -> Admission {
        Admission {
            capacity,
            connections: BTreeMap::new(),
            last: ConnectionId::default(),
            last_turn: None,
            is_closing: false,
        }
    }

    /// Adds a silent connection. Returns its number, and the connection to close if too many wait.
    pub(super) fn arrive(
        &mut self,
        client: IpAddr,
        now: Instant,
    ) -> (ConnectionId, Option<ConnectionId>) {
        self.last.0 += 1;
        let arrived = Connection {
            client: network(client),
            stage: Stage::Silent,
            since: now,
        };
        self.connections.insert(self.last, arrived);
        let is_full = self.waiting().count() > self.capacity.waiting;
        let closed = is_full.then(|| self.drop_waiting()).flatten();
        (self.last, closed)
    }

    /// Records that a silent client has sent something.
    pub(super) fn received(&mut self, id: ConnectionId, now: Instant) {
        if let Some(connection) = self.connections.get_mut(&id)
            && connection.stage == Stage::Silent
        {
            connection.stage = Stage::Waiting;
            connection.since = now;
        }
    }

    /// Records that a served connection enters a phase.
    pub(super) fn enter(&mut self, id: ConnectionId, phase: Phase, now: Instant) {
        if let Some(connection) = self.connections.get_mut(&id)
            && connection.stage != Stage::Evicted
        {
            connection.stage = Stage::Served(phase);
            connection.since = now;
        }
    }

    /// Forgets a connection whose client or thread has ended.
    pub(super) fn end(&mut self, id: ConnectionId) {
        self.connections.remove(&id);
    }

    /// Accepts no further connections: silent ones are closed, and those that wait for no response
    /// lose their places after the grace period.
    pub(super) fn close(&mut self) {
        self.is_closing = true;
    }

    /// Makes room at once, because descriptors have run out. Returns `None` if only handlers work.
    pub(super) fn make_room(&mut self) -> Option<Step> {
        if let Some(id) = self.drop_waiting() {
            return Some(Step::Close(id));
        }
        let held = self.places_by_client();
        let victim = self.least_progress(&held, self.connections.keys().copied())?;
        Some(self.evict(victim))
    }

    /// Returns the silent connections.
    pub(super) fn silent(&self) -> impl Iterator<Item = ConnectionId> {
        let silent = |connection: &Connection| connection.stage == Stage::Silent;
        let all = self.connections.iter();
        all.filter(move |(_, connection)| silent(connection))
            .map(|(id, _)| *id)
    }

    /// Whether connections wait for a place, or for the end of the others.
    pub(super) fn awaits_a_place(&self) -> bool {
        let mut all = self.connections.values();
        self.is_closing || all.any(|connection| connection.stage == Stage::Waiting)
    }

    /// Whether there is no connection.
    pub(super) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Returns the next step. Call it again after each one until it is [`Step::Wait`].
    pub(super) fn next(&mut self, now: Instant) -> Step {
        let silence = match self.is_closing {
            true => Duration::ZERO,
            false => SILENCE_TIMEOUT,
        };
        // The first one is the oldest.
        let first = self.silent().next();
        let silence_left = first.map(|id| (id, silence.saturating_sub(self.age(id, now))));
        if let Some((id, Duration::ZERO)) = silence_left {
            self.end(id);
            return Step::Close(id);
        }
        let held = self.places_by_client();
        if let Some(id) = self.next_turn(&held) {
            self.serve(id, now);
            return Step::Serve(id);
        }
        let evictable = self.evictable(&held);
        let overdue = |id: &ConnectionId| self.age(*id, now) >= EVICTION_GRACE;
        if let Some(victim) = self.least_progress(&held, evictable.iter().copied().filter(overdue))
        {
            return self.evict(victim);
        }
        let grace_left = evictable
            .iter()
            .map(|id| EVICTION_GRACE.saturating_sub(self.age(*id, now)));
        let limits = silence_left.map(|(_, left)| left).into_iter();
        Step::Wait(limits.chain(grace_left).min())
    }

    /// Returns the oldest connection of the address whose turn it is.
    fn next_turn(&self, held: &BTreeMap<IpAddr, usize>) -> Option<ConnectionId> {
        let free = self.capacity.places.saturating_sub(held.values().sum());
        let mut turns: BTreeMap<IpAddr, ConnectionId> = BTreeMap::new();
        for (id, connection) in &self.connections {
            if connection.stage == Stage::Waiting && places(held, connection.client) < free {
                turns.entry(connection.client).or_insert(*id);
            }
        }
        let after = turns
            .iter()
            .find(|(client, _)| Some(**client) > self.last_turn);
        after.or(turns.first_key_value()).map(|(_, id)| *id)
    }

    fn serve(&mut self, id: ConnectionId, now: Instant) {
        self.enter(id, Phase::ReadingRequest, now);
        self.last_turn = self.connections.get(&id).map(|served| served.client);
    }

    /// Returns the connections that make room for those that wait, after their grace period.
    ///
    /// An address makes room for itself, and for one that holds fewer places. At most as many
    /// connections are evicted at once as wait.
    fn evictable(&self, held: &BTreeMap<IpAddr, usize>) -> Vec<ConnectionId> {
        let all = self.connections.values();
        let evicted = all
            .clone()
            .filter(|one| one.stage == Stage::Evicted)
            .count();
        let waiting: Vec<IpAddr> = all
            .filter(|one| one.stage == Stage::Waiting)
            .map(|one| one.client)
            .collect();
        let fewest = waiting.iter().map(|client| places(held, *client)).min();
        let fewest = fewest.filter(|_| evicted < waiting.len());
        let makes_room = |client| {
            fewest.is_some_and(|fewest| {
                let its = places(held, client);
                its > fewest || its == fewest && waiting.contains(&client)
            })
        };
        let is_evictable = |connection: &Connection| match connection.stage {
            Stage::Served(Phase::Closing | Phase::ReadingRequest) => {
                self.is_closing || makes_room(connection.client)
            }
            Stage::Served(Phase::WritingResponse) => makes_room(connection.client),
            Stage::Served(Phase::Handling) => false,
            Stage::Silent | Stage::Waiting | Stage::Evicted => false,
        };
        let all = self.connections.iter();
        all.filter(|(_, connection)| is_evictable(connection))
            .map(|(id, _)| *id)
            .collect()
    }

    /// Returns the first in the order of eviction: of the address with the most places, in the
    /// earliest phase, the oldest.
    fn least_progress(
        &self,
        held: &BTreeMap<IpAddr, usize>,
        candidates: impl Iterator<Item = ConnectionId>,
    ) -> Option<ConnectionId> {
        let ordered = candidates.filter_map(|id| {
            let connection = self.connections.get(&id)?;
            let Stage::Served(phase) = connection.stage else {
                return None;
            };
            let places = places(held, connection.client);
            (phase != Phase::Handling).then_some(((Reverse(places), phase, id), id))
        });
        ordered.min().map(|(_, id)| id)
    }

    fn evict(&mut self, id: ConnectionId) -> Step {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.stage = Stage::Evicted;
        }
        Step::Evict(id)
    }

    /// Forgets a connection without a place, of the address that has the most of them.
    fn drop_waiting(&mut self) -> Option<ConnectionId> {
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for (_, connection) in self.waiting() {
            *counts.entry(connection.client).or_default() += 1;
        }
        let most = *counts.values().max()?;
        let of_most = || {
            let all = self.waiting();
            all.filter(|(_, connection)| counts.get(&connection.client) == Some(&most))
        };
        let oldest_silent = of_most().find(|(_, connection)| connection.stage == Stage::Silent);
        let (id, _) = oldest_silent.or_else(|| of_most().last())?;
        self.end(id);
        Some(id)
    }

    /// Returns the connections without a place.
    fn waiting(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        let waits = |stage| matches!(stage, Stage::Silent | Stage::Waiting);
        let all = self.connections.iter().map(|(id, one)| (*id, one));
        all.filter(move |(_, connection)| waits(connection.stage))
    }

    /// Returns how many places each address holds.
    fn places_by_client(&self) -> BTreeMap<IpAddr, usize> {
        let mut held = BTreeMap::new();
        for connection in self.connections.values() {
            if matches!(connection.stage, Stage::Served(_) | Stage::Evicted) {
                *held.entry(connection.client).or_default() += 1;
            }
        }
        held
    }

    fn age(&self, id: ConnectionId, now: Instant) -> Duration {
        let since = self.connections.get(&id).map(|connection| connection.since);
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }
}

fn places(held: &BTreeMap<IpAddr, usize>, client: IpAddr) -> usize {
    held.get(&client).copied().unwrap_or(0)
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
mod proptests;
#[cfg(test)]
mod tests;
