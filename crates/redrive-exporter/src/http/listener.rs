//! The accept loop. It survives every error, never waits for a client, and ends only when it is
//! stopped.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::listen;

use super::admission::{Admission, ConnectionId, Stage};
use super::capacity::Capacity;
use super::connection::{self, Connection};
use super::request::Request;
use super::response::Response;

/// How many connections the system keeps for us. The default of 128 is a twelfth of a second in a
/// flood, and a client that finds no room tries again only after a second.
const BACKLOG: i32 = 1024;
/// How many connections are accepted before others are served.
const ACCEPT_BATCH: usize = 64;
/// The pause after a failed `accept`.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// The minimum interval between two warnings about failed accepts.
const WARNING_INTERVAL: Duration = Duration::from_mins(1);
/// The stack of a connection's thread. Small, because there can be 64 of them.
const STACK_BYTES: usize = 256 * 1024;

/// Turns a request into a response.
type Handler = Arc<dyn Fn(&Request) -> Response + Send + Sync>;

/// Accepts connections, reads their requests, and answers each one on a thread.
pub(crate) struct Listener {
    socket: TcpListener,
    server: Server,
}

/// The open connections and their threads.
struct Server {
    admission: Admission,
    connections: BTreeMap<ConnectionId, Connection>,
    handler: Handler,
    reports: Receiver<Report>,
    reporter: Sender<Report>,
    /// Readable when there are reports.
    woken: UnixStream,
    waker: Arc<UnixStream>,
    /// When the last warning was logged.
    warned: Option<Instant>,
}

/// What the thread of a connection reports.
#[derive(Clone, Copy, Debug)]
enum Report {
    /// The client can read the response.
    Answered(ConnectionId),
    /// The thread ends.
    Ended(ConnectionId),
}

/// Reports what a connection's thread does, and its end when it is dropped.
struct Reporter {
    id: ConnectionId,
    reports: Sender<Report>,
    waker: Arc<UnixStream>,
}

impl Reporter {
    fn report(&self, report: Report) {
        // Nobody listens after the end of the server.
        _ = self.reports.send(report);
        // If the stream is full, the loop wakes up anyway.
        _ = (&*self.waker).write(&[0]);
    }
}

impl Drop for Reporter {
    fn drop(&mut self) {
        self.report(Report::Ended(self.id));
    }
}

/// What has happened while the accept loop waited.
#[derive(Debug, Default)]
struct Events {
    is_stopped: bool,
    has_newcomers: bool,
}

impl Listener {
    /// Creates a listener with these limits.
    pub(crate) fn new(
        socket: TcpListener,
        capacity: Capacity,
        handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> io::Result<Listener> {
        // A client may hang up between `poll` and `accept`, which would then block.
        socket.set_nonblocking(true)?;
        listen(&socket, BACKLOG)?;
        let (waker, woken) = UnixStream::pair()?;
        waker.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let (reporter, reports) = mpsc::channel();
        let server = Server {
            admission: Admission::new(capacity),
            connections: BTreeMap::new(),
            handler: Arc::new(handler),
            reports,
            reporter,
            woken,
            waker: Arc::new(waker),
            warned: None,
        };
        Ok(Listener { socket, server })
    }

    /// Serves until `stop` is readable, then closes the listening socket and waits up to `grace` for
    /// requests in flight.
    ///
    /// Returns whether all of them were answered.
    pub(crate) fn serve(self, stop: &UnixStream, grace: Duration) -> bool {
        let Listener { socket, mut server } = self;
        // When `accept` may be tried again after a failure.
        let mut retry_at = None;
        loop {
            let limit = server.refuse_late_requests();
            server.start_threads();
            let retry_in = retry_at.map(time_until).filter(|left| !left.is_zero());
            let listening = retry_in.is_none().then_some(&socket);
            let limit = limit.into_iter().chain(retry_in).min();
            let events = server.wait(Some(stop), listening, limit);
            if events.is_stopped {
                break;
            }
            if events.has_newcomers
                && let Err(error) = server.accept(&socket)
            {
                server.warn(&error);
                if let Some(id) = server.admission.make_room() {
                    server.close(id);
                }
                retry_at = Some(Instant::now() + RETRY_PAUSE);
            }
        }
        drop(socket);
        server.finish(Instant::now() + grace)
    }
}

impl Server {
    /// Ends the wait for requests that have taken too long. Returns how long the others may take.
    fn refuse_late_requests(&mut self) -> Option<Duration> {
        // In the order of arrival, so the first one in time ends the search.
        for id in self.admission.asking() {
            let connection = self.connections.get_mut(&id)?;
            let left = connection.time_left();
            if !left.is_zero() {
                return Some(left);
            }
            match connection.time_out() {
                true => self.admission.enter(id, Stage::Waiting),
                false => self.close(id),
            }
        }
        None
    }

    /// Starts a thread for each request that can be served.
    fn start_threads(&mut self) {
        while let Some((id, closed)) = self.admission.next() {
            if let Some(closed) = closed {
                self.close(closed);
            }
            let reporter = Reporter {
                id,
                reports: self.reporter.clone(),
                waker: Arc::clone(&self.waker),
            };
            let Some(connection) = self.connections.get_mut(&id) else {
                continue;
            };
            let Some(asked) = connection.take_request() else {
                continue;
            };
            let stream = Arc::clone(&connection.stream);
            let handler = Arc::clone(&self.handler);
            let started = thread::Builder::new()
                .name("connection".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || {
                    let answered = || reporter.report(Report::Answered(id));
                    let served = connection::serve(&stream, asked, &*handler, answered);
                    if let Err(error) = served {
                        log::debug!("the client disconnected early: {error}");
                    }
                });
            // Without a thread, the reporter is dropped and the client sees a closed connection.
            if let Err(error) = started {
                self.warn(&error);
            }
        }
    }

    /// Waits for an event, reads what clients have sent, and notes what threads have reported.
    fn wait(
        &mut self,
        stop: Option<&UnixStream>,
        listening: Option<&TcpListener>,
        limit: Option<Duration>,
    ) -> Events {
        let asking: Vec<(ConnectionId, Arc<TcpStream>)> = self
            .admission
            .asking()
            .into_iter()
            .filter_map(|id| Some((id, Arc::clone(&self.connections.get(&id)?.stream))))
            .collect();
        let mut descriptors = vec![PollFd::new(&self.woken, PollFlags::IN)];
        descriptors.extend(stop.map(|stop| PollFd::new(stop, PollFlags::IN)));
        descriptors.extend(listening.map(|socket| PollFd::new(socket, PollFlags::IN)));
        let streams = asking.iter().map(|(_, stream)| &**stream);
        descriptors.extend(streams.map(|stream| PollFd::new(stream, PollFlags::IN)));
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        match poll(&mut descriptors, limit.as_ref()) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Events::default(),
            // The kernel is out of memory for a moment; pause so that the loop does not spin.
            Err(_) => {
                thread::sleep(RETRY_PAUSE);
                return Events::default();
            }
        }
        let ready: Vec<bool> = descriptors
            .iter()
            .map(|one| !one.revents().is_empty())
            .collect();
        let mut ready = ready.into_iter();
        if ready.next() == Some(true) {
            self.take_reports();
        }
        let is_stopped = stop.is_some() && ready.next() == Some(true);
        let has_newcomers = listening.is_some() && ready.next() == Some(true);
        for ((id, _), is_ready) in asking.iter().zip(ready) {
            if is_ready {
                self.receive(*id);
            }
        }
        Events {
            is_stopped,
            has_newcomers,
        }
    }

    fn take_reports(&mut self) {
        // Nothing else is in it. If bytes are left, the next wait ends at once.
        _ = (&self.woken).read(&mut [0; 512]);
        while let Ok(report) = self.reports.try_recv() {
            match report {
                Report::Answered(id) => self.admission.enter(id, Stage::Answered),
                Report::Ended(id) => self.close(id),
            }
        }
    }

    /// Reads what a client has sent.
    fn receive(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        match connection.receive() {
            Ok(true) => self.admission.enter(id, Stage::Waiting),
            Ok(false) => {}
            Err(_) => self.close(id),
        }
    }

    /// Accepts connections until there are no more, or until others should be served first. Call it
    /// when there is one: an error then means that it could not be accepted.
    fn accept(&mut self, socket: &TcpListener) -> io::Result<()> {
        for accepted in 0..ACCEPT_BATCH {
            match socket.accept() {
                Ok((stream, client)) => self.add(stream, client.ip()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                // The client has hung up, or a signal arrived.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::ConnectionAborted
                            | ErrorKind::ConnectionReset
                            | ErrorKind::Interrupted
                    ) => {}
                // Linux reserves a descriptor before it looks for a connection. Without a free one,
                // this error does not say that another client waits.
                Err(_) if accepted > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Adds a connection, and closes another one if too many have no place.
    fn add(&mut self, stream: TcpStream, client: IpAddr) {
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        let (id, closed) = self.admission.arrive(client);
        self.connections.insert(id, Connection::new(stream));
        if let Some(closed) = closed {
            self.close(closed);
        }
    }

    /// Forgets a connection, and ends its thread if it has one.
    fn close(&mut self, id: ConnectionId) {
        self.admission.end(id);
        if let Some(connection) = self.connections.remove(&id) {
            // Fails if the client has closed it already.
            _ = connection.stream.shutdown(Shutdown::Both);
        }
    }

    /// Answers the requests that have arrived. Returns whether all were answered in time.
    fn finish(mut self, end: Instant) -> bool {
        for id in self.admission.asking() {
            self.receive(id);
        }
        for id in self.admission.asking() {
            self.close(id);
        }
        loop {
            self.start_threads();
            if self.connections.is_empty() {
                return true;
            }
            let left = time_until(end);
            if left.is_zero() {
                return false;
            }
            self.wait(None, None, Some(left));
        }
    }

    fn warn(&mut self, error: &io::Error) {
        if self
            .warned
            .is_none_or(|warned| warned.elapsed() >= WARNING_INTERVAL)
        {
            self.warned = Some(Instant::now());
            log::warn!("could not accept a connection, retrying in {RETRY_PAUSE:?}: {error}");
        }
    }
}

fn time_until(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}
