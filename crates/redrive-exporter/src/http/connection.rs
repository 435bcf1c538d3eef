//! One connection: read a request, write the response, close.

use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use tiny_http::Method;

use super::admission::Phase;
use super::connections::ConnectionGuard;
use super::request::{Invalid, Request};
use super::response::Response;

/// How long a client may take to send its request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a client may take to read the response.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long we drain what the client still sends. Closing a socket with unread bytes resets it, and
/// the client may then lose the response.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Serves one request. An error means that the client has gone away.
pub(super) fn serve(
    connection: &ConnectionGuard,
    handler: impl FnOnce(&Request) -> Response,
) -> io::Result<()> {
    let (response, method) = match read_request(connection.stream()) {
        Ok(request) => {
            connection.enter(Phase::Handling);
            (handler(&request), request.method)
        }
        Err(Unanswerable::Disconnected) => return Ok(()),
        Err(Unanswerable::Rejected(status, line)) => (Response::line(status, line), Method::Get),
    };
    connection.enter(Phase::WritingResponse);
    write_response(connection.stream(), &response, &method)?;
    connection.enter(Phase::Closing);
    drain(connection.stream())
}

/// Why there is no request to handle.
#[derive(Debug)]
enum Unanswerable {
    /// The client has closed the connection or never sent a byte.
    Disconnected,
    /// The request is refused with this status and text.
    Rejected(u16, &'static str),
}

fn read_request(stream: &TcpStream) -> Result<Request, Unanswerable> {
    let mut stream = DeadlineStream::new(stream, REQUEST_TIMEOUT);
    let mut received = Vec::with_capacity(1024);
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(Unanswerable::Disconnected),
            Ok(count) => received.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::TimedOut && !received.is_empty() => {
                return Err(Unanswerable::Rejected(408, "Request timed out."));
            }
            Err(_) => return Err(Unanswerable::Disconnected),
        }
        match Request::parse(&received) {
            Ok(Some(request)) => return Ok(request),
            Ok(None) => {}
            Err(Invalid::Malformed) => {
                return Err(Unanswerable::Rejected(400, "Malformed HTTP request."));
            }
            Err(Invalid::TooLarge) => {
                return Err(Unanswerable::Rejected(
                    431,
                    "Request headers are too large.",
                ));
            }
        }
    }
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

/// Maps "would block", which sockets return after a timeout on Linux, to "timed out".
fn normalize_timeout(result: io::Result<usize>) -> io::Result<usize> {
    result.map_err(|error| match error.kind() == ErrorKind::WouldBlock {
        true => ErrorKind::TimedOut.into(),
        false => error,
    })
}

impl Read for DeadlineStream<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.time_left()?)?;
        normalize_timeout(self.stream.read(bytes))
    }
}

impl Write for DeadlineStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.time_left()?)?;
        normalize_timeout(self.stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
