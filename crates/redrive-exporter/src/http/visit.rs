//! One visit: a question, an answer, and a good-bye.

use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tiny_http::{HTTPVersion, Header, Method, Response, StatusCode};

use super::head::{self, Head};
use super::visitors::{Pass, Phase};

/// How long somebody may take to ask.
const TO_ASK: Duration = Duration::from_secs(5);
/// How long somebody may take to hear the answer.
const TO_HEAR: Duration = Duration::from_secs(5);
/// How long we listen to what somebody says after the answer: a connection that is closed on
/// unread bytes takes the answer back.
const TO_LEAVE: Duration = Duration::from_secs(1);

/// What somebody is told.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The status code.
    pub(crate) status: u16,
    /// The headers.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    /// What follows them.
    pub(crate) text: Arc<Vec<u8>>,
}

impl Answer {
    /// A line of plain text.
    pub(crate) fn line(status: u16, line: &str) -> Answer {
        Answer {
            status,
            headers: vec![("Content-Type", "text/plain; charset=utf-8")],
            text: Arc::new(format!("{line}\n").into_bytes()),
        }
    }

    /// The same with one more header.
    pub(crate) fn with_header(mut self, name: &'static str, value: &'static str) -> Answer {
        self.headers.push((name, value));
        self
    }
}

/// Takes a question and gives the answer. An error means that the visitor is gone.
pub(super) fn visit(pass: &Pass, answer: impl FnOnce(&Head) -> Answer) -> io::Result<()> {
    let (answer, method) = match ask(pass.stream()) {
        Ok(head) => {
            pass.is_now(Phase::Waiting);
            (answer(&head), head.method)
        }
        Err(Refusal::Gone) => return Ok(()),
        Err(Refusal::Answer(status, line)) => (Answer::line(status, line), Method::Get),
    };
    pass.is_now(Phase::Hearing);
    tell(pass.stream(), &answer, &method)?;
    pass.is_now(Phase::Leaving);
    see_off(pass.stream())
}

/// Why there is no question.
#[derive(Debug)]
enum Refusal {
    /// Nobody is there to be told anything.
    Gone,
    /// This is what to tell.
    Answer(u16, &'static str),
}

fn ask(stream: &TcpStream) -> Result<Head, Refusal> {
    let mut stream = Timed::new(stream, TO_ASK);
    let mut said = Vec::with_capacity(1 << 10);
    let mut piece = [0; 1 << 10];
    loop {
        let seen = said.len();
        match stream.read(&mut piece) {
            Ok(0) => return Err(Refusal::Gone),
            Ok(read) => said.extend_from_slice(&piece[..read]),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::TimedOut && seen > 0 => {
                return Err(Refusal::Answer(408, "The request did not come in time."));
            }
            Err(_) => return Err(Refusal::Gone),
        }
        if let Some(end) = Head::end(&said, seen) {
            return Head::parse(&said[..end])
                .map_err(|head::Malformed| Refusal::Answer(400, "That is no HTTP request."));
        }
        if said.len() > head::LONGEST {
            return Err(Refusal::Answer(431, "The head of the request is too long."));
        }
    }
}

fn tell(stream: &TcpStream, answer: &Answer, method: &Method) -> io::Result<()> {
    let headers = answer
        .headers
        .iter()
        .chain(&[(
            "Server",
            concat!("redrive-exporter/", env!("CARGO_PKG_VERSION")),
        )])
        .filter_map(|(name, value)| Header::from_bytes(*name, *value).ok())
        .collect();
    let response = Response::new(
        StatusCode(answer.status),
        headers,
        answer.text.as_slice(),
        Some(answer.text.len()),
        None,
    );
    let mut out = BufWriter::new(Timed::new(stream, TO_HEAR));
    let is_head = *method == Method::Head;
    response.raw_print(&mut out, HTTPVersion(1, 0), &[], is_head, None)?;
    out.flush()
}

fn see_off(stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let mut stream = Timed::new(stream, TO_LEAVE);
    let mut ignored = [0; 16 << 10];
    while stream.read(&mut ignored)? > 0 {}
    Ok(())
}

/// A connection whose reads and writes end together at a moment, however small their pieces.
struct Timed<'a> {
    stream: &'a TcpStream,
    end: Instant,
}

impl Timed<'_> {
    fn new(stream: &TcpStream, time: Duration) -> Timed<'_> {
        Timed {
            stream,
            end: Instant::now() + time,
        }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.end.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(Some(left)),
        }
    }
}

/// The system says "would block" when a time is over.
fn in_time(result: io::Result<usize>) -> io::Result<usize> {
    result.map_err(|error| match error.kind() == ErrorKind::WouldBlock {
        true => ErrorKind::TimedOut.into(),
        false => error,
    })
}

impl Read for Timed<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        in_time(self.stream.read(bytes))
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        in_time(self.stream.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
