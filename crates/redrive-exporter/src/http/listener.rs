//! The accept loop. It survives every error, never waits for a client, and ends only when it is
//! stopped.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::listen;

use super::admission::{Admission, Stage};
use super::connection;
use super::request::Request;
use super::response::Response;

/// How many connections the system keeps for us. The default of 128 is a twelfth of a second in a
/// flood, and a client that finds no room tries again only after a second.
const BACKLOG: i32 = 1024;
/// How long to wait for room before another connection is closed.
const PAUSE: Duration = Duration::from_millis(50);
/// The minimum interval between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_mins(1);
/// The stack of a connection's thread. Small, because there can be 256 of them.
const STACK_BYTES: usize = 256 * 1024;

/// Turns a request into a response.
type Handler = Box<dyn Fn(&Request) -> Response + Send + Sync>;

/// Accepts connections and serves each one on a thread.
pub(crate) struct Listener {
    socket: TcpListener,
    /// The most connections, each with its thread.
    most: usize,
    server: Arc<Server>,
    /// When the last warning was logged.
    warned: Option<Instant>,
}

/// What the connections share.
struct Server {
    handler: Handler,
    open: Mutex<Open>,
    /// The thread of a connection ends.
    ended: Condvar,
}

/// The open connections.
type Open = Admission<Arc<TcpStream>>;

/// Reports the end of a connection's thread when it is dropped, also after a panic.
struct End {
    server: Arc<Server>,
    id: u64,
}

impl Drop for End {
    fn drop(&mut self) {
        self.server.open().end(self.id);
        self.server.ended.notify_all();
    }
}

impl Listener {
    /// Creates a listener that has at most this many connections.
    pub(crate) fn new(
        socket: TcpListener,
        most: usize,
        handler: impl Fn(&Request) -> Response + Send + Sync + 'static,
    ) -> io::Result<Listener> {
        // A client may hang up between `poll` and `accept`, which would then block.
        socket.set_nonblocking(true)?;
        listen(&socket, BACKLOG)?;
        let server = Arc::new(Server {
            handler: Box::new(handler),
            open: Mutex::new(Admission::new()),
            ended: Condvar::new(),
        });
        Ok(Listener {
            socket,
            most,
            server,
            warned: None,
        })
    }

    /// Serves until `stop` is readable, then closes the listening socket and waits up to `grace` for
    /// requests in flight.
    ///
    /// Returns whether all of them were answered.
    pub(crate) fn serve(mut self, stop: &UnixStream, grace: Duration) -> bool {
        loop {
            let mut waited = [
                PollFd::new(stop, PollFlags::IN),
                PollFd::new(&self.socket, PollFlags::IN),
            ];
            if let Err(error) = poll(&mut waited, None) {
                // Otherwise the kernel is out of memory for a moment.
                if error != rustix::io::Errno::INTR {
                    thread::sleep(PAUSE);
                }
                continue;
            }
            let [is_stopped, has_newcomer] = waited.map(|one| !one.revents().is_empty());
            if is_stopped {
                break;
            }
            if has_newcomer {
                self.accept();
            }
        }
        drop(self.socket);
        self.server.finish(grace)
    }

    fn accept(&mut self) {
        match self.socket.accept() {
            Ok((stream, client)) => self.admit(stream, client.ip()),
            // The client has hung up, or a signal arrived.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock
                        | ErrorKind::ConnectionAborted
                        | ErrorKind::ConnectionReset
                        | ErrorKind::Interrupted
                ) => {}
            // Usually, descriptors have run out.
            Err(error) => {
                self.warn(&error);
                drop(self.server.make_room(self.server.open()));
            }
        }
    }

    /// Starts the thread of a connection. If there are too many, waits until one has ended.
    fn admit(&mut self, stream: TcpStream, client: IpAddr) {
        let stream = Arc::new(stream);
        let id = self.server.open().arrive(client, Arc::clone(&stream));
        let end = End {
            server: Arc::clone(&self.server),
            id,
        };
        let started = thread::Builder::new()
            .name("connection".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                if let Err(error) = connection::serve(&stream, |request| end.handle(request)) {
                    log::debug!("the client disconnected early: {error}");
                }
            });
        // Without a thread, the client sees a closed connection.
        if let Err(error) = started {
            self.warn(&error);
        }
        let mut open = self.server.open();
        while open.len() > self.most {
            open = self.server.make_room(open);
        }
    }

    fn warn(&mut self, error: &io::Error) {
        if self
            .warned
            .is_none_or(|warned| warned.elapsed() >= WARNING_INTERVAL)
        {
            self.warned = Some(Instant::now());
            log::warn!("could not accept a connection: {error}");
        }
    }
}

impl End {
    /// Answers a request, unless its connection made room while it arrived: nobody would read the response.
    fn handle(&self, request: &Request) -> io::Result<Response> {
        if !self.server.open().enter(self.id, Stage::Handled) {
            return Err(ErrorKind::ConnectionAborted.into());
        }
        let response = (self.server.handler)(request);
        self.server.open().enter(self.id, Stage::Open);
        Ok(response)
    }
}

impl Server {
    fn open(&self) -> MutexGuard<'_, Open> {
        // Every change is a single step, so the state is consistent after a panic.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes a connection, and waits a moment until one has ended.
    fn make_room<'a>(&'a self, mut open: MutexGuard<'a, Open>) -> MutexGuard<'a, Open> {
        if let Some(stream) = open.close_one() {
            // Fails if the client has closed it already.
            _ = stream.shutdown(Shutdown::Both);
        }
        self.wait(open, PAUSE)
    }

    /// Answers the requests that have arrived. Returns whether all were answered in time.
    fn finish(&self, grace: Duration) -> bool {
        let end = Instant::now() + grace;
        let mut open = self.open();
        for stream in open.sockets() {
            // What has arrived can still be read.
            _ = stream.shutdown(Shutdown::Read);
        }
        while open.len() > 0 {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            open = self.wait(open, left);
        }
        true
    }

    /// Waits until the thread of a connection ends, at most this long.
    fn wait<'a>(&'a self, open: MutexGuard<'a, Open>, limit: Duration) -> MutexGuard<'a, Open> {
        self.ended
            .wait_timeout(open, limit)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }
}
