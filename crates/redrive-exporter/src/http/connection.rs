//! One connection: read a request, write the response, close.

use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
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

/// Reads a request and answers it. An error means that the client has gone away or has sent nothing, or that
/// the connection was closed.
pub(super) fn serve(
    stream: &TcpStream,
    handler: impl FnOnce(&Request) -> io::Result<Response>,
) -> io::Result<()> {
    // Some systems pass on the mode of the listening socket.
    stream.set_nonblocking(false)?;
    let (response, method) = match receive(stream)? {
        Ok(request) => (handler(&request)?, request.method),
        Err(refusal) => (refusal, Method::Get),
    };
    let mut out = BufWriter::new(DeadlineStream::new(stream, RESPONSE_TIMEOUT));
    response.write(&mut out, &method)?;
    out.flush()?;
    drain(stream)
}

/// Reads a request. Returns the response to one that is refused.
fn receive(stream: &TcpStream) -> io::Result<Result<Request, Response>> {
    let mut stream = DeadlineStream::new(stream, REQUEST_TIMEOUT);
    let refused = |status, line| Ok(Err(Response::line(status, line)));
    let (mut received, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => received.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if is_late(&error) && !received.is_empty() => {
                return refused(408, "Request timed out.");
            }
            Err(error) => return Err(error),
        }
        match Request::parse(&received) {
            Ok(Some(request)) => return Ok(Ok(request)),
            Ok(None) => {}
            Err(Invalid::Malformed) => return refused(400, "Malformed HTTP request."),
            Err(Invalid::TooLarge) => return refused(431, "Request headers are too large."),
        }
    }
}

fn is_late(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock)
}

fn drain(stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let mut stream = DeadlineStream::new(stream, DRAIN_TIMEOUT);
    while stream.read(&mut [0; 4096])? > 0 {}
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
