//! The open connections: the sockets to which [`Admission`] refers.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write as _};
use std::net::{IpAddr, Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::admission::{Admission, ConnectionId, Phase, Step};
use super::capacity::Capacity;

/// The open connections. The accept loop adds them and takes the steps; the threads report their
/// phases. No call blocks.
#[derive(Debug)]
pub(super) struct Connections {
    table: Mutex<Table>,
    /// Wakes the accept loop up.
    waker: UnixStream,
}

#[derive(Debug)]
struct Table {
    admission: Admission,
    streams: BTreeMap<ConnectionId, Arc<TcpStream>>,
}

/// What the accept loop does next.
#[derive(Debug)]
pub(super) enum LoopStep {
    /// Start a thread for this connection.
    Serve(ConnectionGuard),
    /// Wait for an event, at most for this time.
    Wait(Option<Duration>),
}

impl Connections {
    /// Creates an empty table, and the stream that becomes readable when the accept loop should
    /// take the next steps.
    pub(super) fn new(capacity: Capacity) -> io::Result<(Arc<Connections>, UnixStream)> {
        let (waker, woken) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let table = Table {
            admission: Admission::new(capacity),
            streams: BTreeMap::new(),
        };
        let connections = Connections {
            table: Mutex::new(table),
            waker,
        };
        Ok((Arc::new(connections), woken))
    }

    /// Adds a connection, and closes another one if too many wait.
    pub(super) fn add(&self, stream: TcpStream, client: IpAddr) {
        // `receive` must not block.
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let mut table = self.table();
        let (id, closed) = table.admission.arrive(client, Instant::now());
        table.streams.insert(id, Arc::new(stream));
        if let Some(closed) = closed {
            table.streams.remove(&closed);
        }
    }

    /// Returns the connections whose clients have sent nothing.
    pub(super) fn silent(&self) -> Vec<(ConnectionId, Arc<TcpStream>)> {
        let table = self.table();
        let silent = table.admission.silent();
        silent
            .filter_map(|id| Some((id, Arc::clone(table.streams.get(&id)?))))
            .collect()
    }

    /// Checks whether a silent client has sent something or has gone away.
    pub(super) fn receive(&self, id: ConnectionId, stream: &TcpStream) {
        let has_sent = match stream.peek(&mut [0]) {
            Ok(count) => count > 0,
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return;
            }
            Err(_) => false,
        };
        let mut table = self.table();
        match has_sent {
            true => table.admission.received(id, Instant::now()),
            false => table.remove(id),
        }
    }

    /// Takes all steps that need no thread and returns the next one.
    pub(super) fn next(self: &Arc<Connections>) -> LoopStep {
        let mut table = self.table();
        loop {
            match table.admission.next(Instant::now()) {
                Step::Serve(id) => {
                    let stream = table.streams.get(&id).map(Arc::clone);
                    match stream.filter(|stream| stream.set_nonblocking(false).is_ok()) {
                        Some(stream) => {
                            return LoopStep::Serve(ConnectionGuard {
                                connections: Arc::clone(self),
                                id,
                                stream,
                            });
                        }
                        None => table.remove(id),
                    }
                }
                Step::Wait(limit) => return LoopStep::Wait(limit),
                step @ (Step::Close(_) | Step::Evict(_)) => table.take(step),
            }
        }
    }

    /// Closes one connection without a grace period, because descriptors have run out.
    pub(super) fn make_room(&self) {
        let mut table = self.table();
        if let Some(step) = table.admission.make_room() {
            table.take(step);
        }
    }

    /// Closes silent connections, and from now on those that wait for no response.
    pub(super) fn close(&self) {
        self.table().admission.close();
    }

    /// Whether all connections have ended.
    pub(super) fn is_empty(&self) -> bool {
        self.table().admission.is_empty()
    }

    /// Changes the table from a connection's thread, and wakes the accept loop up if it waits for
    /// that.
    fn report(&self, change: impl FnOnce(&mut Table)) {
        let mut table = self.table();
        change(&mut table);
        let is_awaited = table.admission.awaits_a_place();
        drop(table);
        if is_awaited {
            // If the stream is full, the loop wakes up anyway.
            _ = (&self.waker).write(&[0]);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Every change is a single step, so the table is consistent after a panic.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    fn take(&mut self, step: Step) {
        match step {
            Step::Close(id) => self.remove(id),
            Step::Evict(id) => {
                if let Some(stream) = self.streams.get(&id) {
                    // Ends the thread that reads or writes it. The client may have closed it already.
                    _ = stream.shutdown(Shutdown::Both);
                }
            }
            Step::Serve(_) | Step::Wait(_) => {}
        }
    }

    fn remove(&mut self, id: ConnectionId) {
        self.admission.end(id);
        self.streams.remove(&id);
    }
}

/// A connection with a place. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct ConnectionGuard {
    connections: Arc<Connections>,
    id: ConnectionId,
    stream: Arc<TcpStream>,
}

impl ConnectionGuard {
    /// Returns the socket.
    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Records that the connection enters a phase.
    pub(super) fn enter(&self, phase: Phase) {
        let now = Instant::now();
        self.connections
            .report(|table| table.admission.enter(self.id, phase, now));
    }
}

impl Drop for ConnectionGuard {
    fn drop(&mut self) {
        self.connections.report(|table| table.remove(self.id));
    }
}
