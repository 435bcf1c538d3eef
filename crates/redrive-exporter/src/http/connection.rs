//! One connection: read a request, write the response, close.

use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tiny_http::Method;

use super::request::{Invalid, Request};
use super::response::Response;

/// How long a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client may take to read the response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long we drain what the client still sends. Closing a socket with unread bytes resets it, and
/// the client may then lose the response.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A complete request, or the response to one that is refused.
pub(super) type Asked = Result<Request, Response>;

/// A connection whose request is read without waiting for the client.
#[derive(Debug)]
pub(super) struct Connection {
    /// The socket.
    pub(super) stream: Arc<TcpStream>,
    arrived: Instant,
    received: Vec<u8>,
    asked: Option<Asked>,
}

impl Connection {
    /// Starts with a socket that does not block.
    pub(super) fn new(stream: TcpStream) -> Connection {
        Connection {
            stream: Arc::new(stream),
            arrived: Instant::now(),
            received: Vec::new(),
            asked: None,
        }
    }

    /// Reads what the client has sent. Returns whether its request is complete. An error means that
    /// the client has gone away.
    pub(super) fn receive(&mut self) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        match (&*self.stream).read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.received.extend_from_slice(&buffer[..count]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) =>
            {
                return Ok(false);
            }
            Err(error) => return Err(error),
        }
        let refusal = |status, line| Some(Err(Response::line(status, line)));
        self.asked = match Request::parse(&self.received) {
            Ok(request) => request.map(Ok),
            Err(Invalid::Malformed) => refusal(400, "Malformed HTTP request."),
            Err(Invalid::TooLarge) => refusal(431, "Request headers are too large."),
        };
        Ok(self.asked.is_some())
    }

    /// Returns how long the client may still take to send its request.
    pub(super) fn time_left(&self) -> Duration {
        REQUEST_TIMEOUT.saturating_sub(self.arrived.elapsed())
    }

    /// Refuses a request that has taken too long. Returns false if the client has not begun one.
    pub(super) fn time_out(&mut self) -> bool {
        self.asked = Some(Err(Response::line(408, "Request timed out.")));
        !self.received.is_empty()
    }

    /// Takes the request out, once it is complete.
    pub(super) fn take_request(&mut self) -> Option<Asked> {
        self.received = Vec::new();
        self.asked.take()
    }
}

/// Answers a request: calls the handler, and `answered` when its response is there. An error means
/// that the client has gone away.
pub(super) fn serve(
    stream: &TcpStream,
    asked: Asked,
    handler: impl FnOnce(&Request) -> Response,
    answered: impl FnOnce(),
) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let (response, method) = match asked {
        Ok(request) => (handler(&request), request.method),
        Err(refusal) => (refusal, Method::Get),
    };
    answered();
    write_response(stream, &response, &method)?;
    drain(stream)
}

fn write_response(stream: &TcpStream, response: &Response, method: &Method) -> io::Result<()> {
    let mut out = BufWriter::new(DeadlineStream::new(stream, RESPONSE_TIMEOUT));
    match *method == Method::Head {
        true => response.write_head(&mut out)?,
        false => response.write(&mut out)?,
    }
    out.flush()
}

fn drain(stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let mut stream = DeadlineStream::new(stream, DRAIN_TIMEOUT);
    let mut ignored = [0; 16 * 1024];
    while stream.read(&mut ignored)? > 0 {}
    Ok(())
}

/// A socket with one deadline for all reads and writes, however many there are.
struct DeadlineStream<'a> {
    stream: &'a TcpStream,
    deadline: Instant,
}

impl DeadlineStream<'_> {
    fn new(stream: &TcpStream, timeout: Duration) -> DeadlineStream<'_> {
        DeadlineStream {
            stream,
            deadline: Instant::now() + timeout,
        }
    }

    fn time_left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(Some(left)),
        }
    }
}

impl Read for DeadlineStream<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.time_left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for DeadlineStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.time_left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
