//! The accept loop. It survives every error, never waits for a client, and ends only when it is
//! stopped.

use std::io::{self, ErrorKind, Read as _};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::listen;

use super::capacity::Capacity;
use super::connection;
use super::connections::{ConnectionGuard, Connections, LoopStep};
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

/// Accepts connections and serves each one on a thread.
pub(crate) struct Listener {
    socket: TcpListener,
    server: Server,
}

/// The open connections and their threads.
struct Server {
    connections: Arc<Connections>,
    /// Readable when a place may be free.
    woken: UnixStream,
    handler: Handler,
    /// When the last warning was logged.
    warned: Option<Instant>,
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
        let (connections, woken) = Connections::new(capacity)?;
        let server = Server {
            connections,
            woken,
            handler: Arc::new(handler),
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
            let limit = server.start_threads();
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
                server.connections.make_room();
                retry_at = Some(Instant::now() + RETRY_PAUSE);
            }
        }
        drop(socket);
        server.finish(Instant::now() + grace)
    }
}

impl Server {
    /// Starts a thread for each connection that can be served. Returns how long the others may wait.
    fn start_threads(&mut self) -> Option<Duration> {
        loop {
            let guard = match self.connections.next() {
                LoopStep::Serve(guard) => guard,
                LoopStep::Wait(limit) => return limit,
            };
            let handler = Arc::clone(&self.handler);
            let started = thread::Builder::new()
                .name("connection".to_owned())
                .stack_size(STACK_BYTES)
                .spawn(move || serve(&guard, &handler));
            // Without a thread, the guard is dropped and the client sees a closed connection.
            if let Err(error) = started {
                self.warn(&error);
            }
        }
    }

    /// Waits for an event, and notes which clients have sent something.
    fn wait(
        &self,
        stop: Option<&UnixStream>,
        listening: Option<&TcpListener>,
        limit: Option<Duration>,
    ) -> Events {
        let silent = self.connections.silent();
        let mut descriptors = vec![PollFd::new(&self.woken, PollFlags::IN)];
        descriptors.extend(stop.map(|stop| PollFd::new(stop, PollFlags::IN)));
        descriptors.extend(listening.map(|socket| PollFd::new(socket, PollFlags::IN)));
        descriptors.extend(
            silent
                .iter()
                .map(|(_, stream)| PollFd::new(&**stream, PollFlags::IN)),
        );
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
        let mut ready = descriptors.iter().map(|one| !one.revents().is_empty());
        if ready.next() == Some(true) {
            // Nothing else is in it. If bytes are left, the next wait ends at once.
            _ = (&self.woken).read(&mut [0; 512]);
        }
        let is_stopped = stop.is_some() && ready.next() == Some(true);
        let has_newcomers = listening.is_some() && ready.next() == Some(true);
        for ((id, stream), is_ready) in silent.iter().zip(ready) {
            if is_ready {
                self.connections.receive(*id, stream);
            }
        }
        Events {
            is_stopped,
            has_newcomers,
        }
    }

    /// Accepts connections until there are no more, or until others should be served first. Call it
    /// when there is one: an error then means that it could not be accepted.
    fn accept(&self, socket: &TcpListener) -> io::Result<()> {
        for accepted in 0..ACCEPT_BATCH {
            match socket.accept() {
                Ok((stream, client)) => self.connections.add(stream, client.ip()),
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

    /// Answers the requests that have arrived. Returns whether all were answered in time.
    fn finish(mut self, end: Instant) -> bool {
        self.connections.close();
        loop {
            let limit = self.start_threads();
            if self.connections.is_empty() {
                return true;
            }
            let left = time_until(end);
            if left.is_zero() {
                return false;
            }
            self.wait(None, None, limit.into_iter().chain([left]).min());
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

fn serve(guard: &ConnectionGuard, handler: &Handler) {
    if let Err(error) = connection::serve(guard, |request| handler(request)) {
        log::debug!("the client disconnected early: {error}");
    }
}

fn time_until(end: Instant) -> Duration {
    end.saturating_duration_since(Instant::now())
}
