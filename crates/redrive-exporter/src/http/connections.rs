//! The open connections, and which of them to evict when the limit is reached.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The phase of a connection, in the order of eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// The response is sent; the client has not closed yet.
    Closing,
    /// The request is not complete.
    ReadingRequest,
    /// The client reads the response.
    WritingResponse,
    /// The handler works on the response.
    Handling,
}

/// The open connections, up to a limit.
#[derive(Debug)]
pub(crate) struct Connections {
    max: usize,
    /// How long a connection may stay in a phase before it can be evicted.
    grace: Duration,
    table: Mutex<ConnectionTable>,
    closed: Condvar,
}

#[derive(Debug, Default)]
struct ConnectionTable {
    /// In the order of arrival.
    entries: Vec<Entry>,
    last_id: u64,
    /// Evicted connections whose threads have not ended yet.
    evicted: usize,
}

#[derive(Debug)]
struct Entry {
    id: u64,
    phase: Phase,
    /// When the phase began.
    since: Instant,
    is_evicted: bool,
    stream: Arc<TcpStream>,
}

impl Connections {
    /// Creates an empty table for `max` connections.
    pub(crate) fn new(max: usize, grace: Duration) -> Arc<Connections> {
        Arc::new(Connections {
            max,
            grace,
            table: Mutex::default(),
            closed: Condvar::new(),
        })
    }

    /// Adds a connection. When the limit is reached, waits until another one closes or may be
    /// evicted.
    pub(crate) fn add(self: &Arc<Connections>, stream: TcpStream) -> ConnectionGuard {
        let stream = Arc::new(stream);
        let mut table = self.table();
        while table.entries.len() - table.evicted >= self.max {
            let Some(index) = table.next_to_evict() else {
                break;
            };
            let grace_left = self
                .grace
                .saturating_sub(table.entries[index].since.elapsed());
            if grace_left.is_zero() {
                table.evict(index);
            } else {
                table = self
                    .closed
                    .wait_timeout(table, grace_left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
        }
        table.last_id += 1;
        let id = table.last_id;
        table.entries.push(Entry {
            id,
            phase: Phase::ReadingRequest,
            since: Instant::now(),
            is_evicted: false,
            stream: Arc::clone(&stream),
        });
        drop(table);
        ConnectionGuard {
            connections: Arc::clone(self),
            id,
            stream,
        }
    }

    /// Evicts one connection without a grace period. Called when descriptors run out.
    pub(crate) fn evict_one(&self) {
        let mut table = self.table();
        if let Some(index) = table.next_to_evict() {
            table.evict(index);
        }
    }

    /// Waits until most evicted connections have ended, so that a flood of new ones cannot pile up
    /// threads.
    pub(crate) fn wait_for_evicted(&self, timeout: Duration) {
        self.wait_until(timeout, |table| table.evicted * 4 <= self.max);
    }

    /// Closes connections that wait for no response, and waits for the others.
    ///
    /// Returns whether all have ended within `timeout`.
    pub(crate) fn close(&self, timeout: Duration) -> bool {
        let mut table = self.table();
        for entry in &mut table.entries {
            if matches!(entry.phase, Phase::Closing | Phase::ReadingRequest) {
                entry.evict();
            }
        }
        drop(table);
        self.wait_until(timeout, |table| table.entries.is_empty())
    }

    fn wait_until(&self, timeout: Duration, condition: impl Fn(&ConnectionTable) -> bool) -> bool {
        let end = Instant::now() + timeout;
        let mut table = self.table();
        while !condition(&table) {
            let Some(left) = end.checked_duration_since(Instant::now()) else {
                return false;
            };
            table = self
                .closed
                .wait_timeout(table, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    fn table(&self) -> MutexGuard<'_, ConnectionTable> {
        // Every change is a single step, so the table is consistent after a panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionTable {
    /// Returns the oldest connection of the first phase in the order of eviction.
    ///
    /// Connections that wait for the handler come last: their threads end only after the handler
    /// returns, so evicting them frees nothing sooner.
    fn next_to_evict(&self) -> Option<usize> {
        let entries = self.entries.iter().enumerate();
        // `min_by_key` returns the first minimum, and entries are in the order of arrival.
        entries
            .filter(|(_, entry)| !entry.is_evicted)
            .min_by_key(|(_, entry)| entry.phase)
            .map(|(index, _)| index)
    }

    fn evict(&mut self, index: usize) {
        if let Some(entry) = self.entries.get_mut(index) {
            entry.evict();
            self.evicted += 1;
        }
    }
}

impl Entry {
    /// Shuts the socket down, which ends the thread that reads or writes it.
    fn evict(&mut self) {
        self.is_evicted = true;
        // The client may have closed it already.
        _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// An open connection. Dropping it frees its place.
#[derive(Debug)]
pub(crate) struct ConnectionGuard {
    connections: Arc<Connections>,
    id: u64,
    stream: Arc<TcpStream>,
}

impl ConnectionGuard {
    /// Returns the socket.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Records that the connection enters a phase.
    pub(crate) fn enter(&self, phase: Phase) {
        let mut table = self.connections.table();
        let mut entries = table.entries.iter_mut();
        if let Some(entry) = entries.find(|entry| entry.id == self.id) {
            entry.phase = phase;
            entry.since = Instant::now();
        }
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        let mut table = self.connections.table();
        let mut entries = table.entries.iter();
        if let Some(index) = entries.position(|entry| entry.id == self.id) {
            let entry = table.entries.remove(index);
            if entry.is_evicted {
                table.evicted = table.evicted.saturating_sub(1);
            }
        }
        drop(table);
        self.connections.closed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;

    struct Server(TcpListener);

    impl Server {
        fn new() -> Server {
            Server(TcpListener::bind("127.0.0.1:0").expect("a port"))
        }

        /// Opens a connection and returns both ends.
        fn connect(&self, connections: &Arc<Connections>) -> (ConnectionGuard, TcpStream) {
            let address = self.0.local_addr().expect("an address");
            let client = TcpStream::connect(address).expect("it connects");
            let (accepted, _) = self.0.accept().expect("it is accepted");
            (connections.add(accepted), client)
        }
    }

    /// Whether our side has shut the socket down. Does not block.
    fn is_evicted(guard: &ConnectionGuard) -> bool {
        guard.stream().set_nonblocking(true).expect("a socket");
        matches!(guard.stream().read(&mut [0]), Ok(0))
    }

    #[test]
    fn at_the_limit_the_connection_with_least_progress_is_evicted() {
        let (server, connections) = (Server::new(), Connections::new(3, Duration::ZERO));
        let (handling, _client_1) = server.connect(&connections);
        handling.enter(Phase::Handling);
        let (first, _client_2) = server.connect(&connections);
        let (second, _client_3) = server.connect(&connections);
        assert!(!is_evicted(&first), "three fit");

        let (third, _client_4) = server.connect(&connections);
        assert!(is_evicted(&first) && !is_evicted(&second), "the oldest");
        third.enter(Phase::Closing);
        let (fourth, _client_5) = server.connect(&connections);
        assert!(is_evicted(&third) && !is_evicted(&second), "the answered");
        assert!(!is_evicted(&handling) && !is_evicted(&fourth));

        second.enter(Phase::Handling);
        fourth.enter(Phase::WritingResponse);
        let (fifth, _client_6) = server.connect(&connections);
        assert!(
            is_evicted(&fourth) && !is_evicted(&handling),
            "the slow reader"
        );
        fifth.enter(Phase::Handling);
        let (_sixth, _client_7) = server.connect(&connections);
        assert!(
            is_evicted(&handling) && !is_evicted(&second),
            "the one handled for longest"
        );
    }

    #[test]
    fn a_new_connection_has_a_grace_period() {
        let (server, connections) = (Server::new(), Connections::new(1, Duration::from_mins(1)));
        let (first, _client_1) = server.connect(&connections);
        let closes = std::thread::spawn(move || drop(first));
        // The second enters because the first one closes, not because a minute has passed.
        let begin = Instant::now();
        let (second, _client_2) = server.connect(&connections);
        assert!(!is_evicted(&second) && begin.elapsed() < Duration::from_secs(50));
        closes.join().expect("it closed");
    }

    #[test]
    fn close_waits_for_requests_in_flight() {
        let (server, connections) = (Server::new(), Connections::new(3, Duration::ZERO));
        let (reading, _client_1) = server.connect(&connections);
        let (handling, _client_2) = server.connect(&connections);
        handling.enter(Phase::Handling);
        assert!(!connections.close(Duration::ZERO), "two are open");
        assert!(is_evicted(&reading) && !is_evicted(&handling));
        drop(reading);
        assert!(!connections.close(Duration::ZERO), "one is open");
        drop(handling);
        assert!(connections.close(Duration::ZERO));
    }
}
