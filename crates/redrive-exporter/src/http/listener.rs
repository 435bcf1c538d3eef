//! The accept loop. It survives every error and ends only when it is stopped.

use std::io::{self, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::connection;
use super::connections::{ConnectionGuard, Connections};
use super::request::Request;
use super::response::Response;

/// The pause after a failed `accept`.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// The minimum interval between two warnings about failed accepts.
const WARNING_INTERVAL: Duration = Duration::from_mins(1);
/// How long a connection may stay in a phase before it can be evicted.
const EVICTION_GRACE: Duration = Duration::from_millis(200);
/// The stack of a connection's thread. Small, because there can be 64 of them.
const STACK_BYTES: usize = 256 * 1024;

/// Turns a request into a response.
type Handler = Arc<dyn Fn(&Request) -> Response + Send + Sync>;

/// Accepts connections and serves each one on a thread.
pub(crate) struct Listener {
    socket: TcpListener,
    connections: Arc<Connections>,
    handler: Handler,
    /// When the last warning was logged.
    warned: Option<Instant>,
}

impl Listener {
    /// Creates a listener that serves at most `max_connections` at once.
    pub(crate) fn new(
        socket: TcpListener,
        max_connections: usize,
        handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> io::Result<Listener> {
        // A client may hang up between `poll` and `accept`, which would then block.
        socket.set_nonblocking(true)?;
        Ok(Listener {
            socket,
            connections: Connections::new(max_connections, EVICTION_GRACE),
            handler: Arc::new(handler),
            warned: None,
        })
    }

    /// Serves until `stop` is readable, then closes the listening socket and waits up to `grace` for
    /// requests in flight.
    ///
    /// Returns whether all of them were answered.
    pub(crate) fn serve(mut self, stop: &UnixStream, grace: Duration) -> bool {
        while !wait_or_stop(stop, Some(&self.socket), None) {
            match self.socket.accept() {
                Ok((stream, _)) => self.start_connection(stream),
                // The client has hung up, or a signal arrived.
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock
                            | ErrorKind::ConnectionAborted
                            | ErrorKind::ConnectionReset
                            | ErrorKind::Interrupted
                    ) => {}
                Err(error) => {
                    self.warn(&error);
                    self.connections.evict_one();
                    if wait_or_stop(stop, None, Some(RETRY_PAUSE)) {
                        break;
                    }
                }
            }
        }
        let Listener {
            socket,
            connections,
            ..
        } = self;
        drop(socket);
        connections.close(grace)
    }

    fn start_connection(&mut self, stream: TcpStream) {
        if stream.set_nonblocking(false).is_err() {
            return;
        }
        self.connections.wait_for_evicted(RETRY_PAUSE);
        let guard = self.connections.add(stream);
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

/// Waits for a client or until the timeout. Returns whether to stop.
fn wait_or_stop(
    stop: &UnixStream,
    listener: Option<&TcpListener>,
    timeout: Option<Duration>,
) -> bool {
    let mut descriptors = vec![PollFd::new(stop, PollFlags::IN)];
    descriptors.extend(listener.map(|listener| PollFd::new(listener, PollFlags::IN)));
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    match poll(&mut descriptors, timeout.as_ref()) {
        Ok(_) => !descriptors[0].revents().is_empty(),
        Err(rustix::io::Errno::INTR) => false,
        // The kernel is out of memory for a moment; pause so that the loop does not spin.
        Err(_) => {
            thread::sleep(RETRY_PAUSE);
            false
        }
    }
}
