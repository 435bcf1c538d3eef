//! Ends a call at its deadline, on the thread that makes it.
//!
//! The driver waits for as long as the server keeps the connection open. The stream in this file
//! lies between the driver and the socket, below TLS. When a read or a write would wait longer than
//! the deadline of the connection, it fails; the driver then closes the connection and the call
//! returns. The driver hands its socket only to its TLS connector, so an unencrypted connection has
//! a connector too: one that adds nothing but the stream. And it would ask for encryption without
//! the stream, so the connector asks instead.

use std::error::Error as StdError;
use std::future::{Future, Ready, ready};
use std::io::{Error as IoError, ErrorKind, Result as IoResult};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use postgres::config::{Host, SslMode, SslNegotiation};
use postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use postgres::{Client, Config, Socket};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::{Sleep, sleep_until};

use crate::db::tls::TlsConnector;
use crate::sync::lock;

/// The request for encryption, to which a server answers one byte.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];

/// When the current call on a connection must have ended. `None`: no limit.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallDeadline(Arc<Mutex<Option<Instant>>>);

impl CallDeadline {
    pub(crate) fn set(&self, until: Option<Instant>) {
        *lock(&self.0) = until;
    }

    pub(super) fn get(&self) -> Option<Instant> {
        *lock(&self.0)
    }
}

/// Returns whether connections with this configuration can have deadlines: over TCP. The driver shows
/// its TLS connector no Unix socket.
pub(crate) fn can_have_deadlines(config: &Config) -> bool {
    let is_tcp = |host: &Host| matches!(host, Host::Tcp(_));
    config.get_hosts().iter().all(is_tcp)
}

/// Opens a connection with a deadline, which is at first that of the attempt.
pub(crate) fn connect(
    config: &Config,
    tls: Option<TlsConnector>,
    until: Instant,
) -> Result<(Client, CallDeadline), postgres::Error> {
    let deadline = CallDeadline::default();
    deadline.set(Some(until));
    let is_asked = tls.is_some() && config.get_ssl_negotiation() == SslNegotiation::Postgres;
    // A host that accepts and is silent leaves the others their share of the attempt.
    let hosts = u32::try_from(config.get_hosts().len().max(1)).unwrap_or(u32::MAX);
    let share = until.saturating_duration_since(Instant::now()) / hosts;
    let attempt = Attempt {
        is_asked,
        until,
        share,
        deadline: deadline.clone(),
    };
    let mut config = config.clone();
    // The driver calls the connector at once and sends the server no request for TLS.
    config
        .ssl_mode(SslMode::Require)
        .ssl_negotiation(SslNegotiation::Direct);
    let client = match tls {
        Some(tls) => config.connect(WithDeadline { tls, attempt }),
        None => config.connect(WithDeadline {
            tls: Unencrypted,
            attempt,
        }),
    }?;
    deadline.set(Some(until));
    Ok((client, deadline))
}

/// An attempt to connect to one host after another.
#[derive(Clone)]
struct Attempt {
    /// Whether the server is asked for encryption before it begins.
    is_asked: bool,
    /// When the whole attempt is over.
    until: Instant,
    /// The time for each host.
    share: Duration,
    deadline: CallDeadline,
}

/// A connector that puts a [`DeadlineStream`] below another connector.
#[derive(Clone)]
struct WithDeadline<T> {
    tls: T,
    attempt: Attempt,
}

impl<T> MakeTlsConnect<Socket> for WithDeadline<T>
where
    T: MakeTlsConnect<DeadlineStream>,
    T::TlsConnect: Send + 'static,
    <T::TlsConnect as TlsConnect<DeadlineStream>>::Future: Send,
{
    type Stream = T::Stream;
    type TlsConnect = WithDeadline<T::TlsConnect>;
    type Error = T::Error;

    fn make_tls_connect(&mut self, domain: &str) -> Result<Self::TlsConnect, T::Error> {
        Ok(WithDeadline {
            tls: self.tls.make_tls_connect(domain)?,
            attempt: self.attempt.clone(),
        })
    }
}

/// The encryption of a connection, as it begins.
type Connecting<S> =
    Pin<Box<dyn Future<Output = Result<S, Box<dyn StdError + Send + Sync>>> + Send>>;

impl<T> TlsConnect<Socket> for WithDeadline<T>
where
    T: TlsConnect<DeadlineStream> + Send + 'static,
    T::Future: Send,
{
    type Stream = T::Stream;
    type Error = Box<dyn StdError + Send + Sync>;
    type Future = Connecting<T::Stream>;

    fn connect(self, socket: Socket) -> Connecting<T::Stream> {
        let WithDeadline { tls, attempt } = self;
        let until = attempt.until.min(Instant::now() + attempt.share);
        attempt.deadline.set(Some(until));
        let mut stream = DeadlineStream {
            socket,
            deadline: attempt.deadline,
            timer: None,
        };
        Box::pin(async move {
            if attempt.is_asked {
                ask_for_encryption(&mut stream).await?;
            }
            let begun = tls.connect(stream).await;
            begun.map_err(|error| -> Box<dyn StdError + Send + Sync> { error.into() })
        })
    }
}

/// Asks the server for encryption. Reads no more than its answer, so nothing that was sent in plain text
/// counts as encrypted.
async fn ask_for_encryption(stream: &mut DeadlineStream) -> IoResult<()> {
    stream.write_all(&SSL_REQUEST).await?;
    stream.flush().await?;
    match stream.read_u8().await? {
        b'S' => Ok(()),
        _ => Err(IoError::other("server does not support TLS")),
    }
}

/// A connector that does not encrypt.
#[derive(Clone, Copy)]
struct Unencrypted;

impl MakeTlsConnect<DeadlineStream> for Unencrypted {
    type Stream = DeadlineStream;
    type TlsConnect = Unencrypted;
    type Error = IoError;

    fn make_tls_connect(&mut self, _: &str) -> Result<Unencrypted, IoError> {
        Ok(Unencrypted)
    }
}

impl TlsConnect<DeadlineStream> for Unencrypted {
    type Stream = DeadlineStream;
    type Error = IoError;
    type Future = Ready<Result<DeadlineStream, IoError>>;

    fn connect(self, stream: DeadlineStream) -> Self::Future {
        ready(Ok(stream))
    }
}

/// A socket whose reads and writes fail when they would wait longer than the deadline.
struct DeadlineStream {
    socket: Socket,
    deadline: CallDeadline,
    /// Wakes the driver at the deadline. `None` until the first wait.
    timer: Option<Pin<Box<Sleep>>>,
}

impl DeadlineStream {
    /// Passes on what is ready. Otherwise waits until the deadline, and then fails.
    fn or_deadline<T>(
        &mut self,
        context: &mut Context<'_>,
        polled: Poll<IoResult<T>>,
    ) -> Poll<IoResult<T>> {
        let (Poll::Pending, Some(until)) = (&polled, self.deadline.get()) else {
            return polled;
        };
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(sleep_until(until.into())));
        if timer.deadline() != until.into() {
            timer.as_mut().reset(until.into());
        }
        match timer.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(IoError::from(ErrorKind::TimedOut))),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncRead for DeadlineStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<IoResult<()>> {
        let polled = Pin::new(&mut self.socket).poll_read(context, buffer);
        self.or_deadline(context, polled)
    }
}

impl AsyncWrite for DeadlineStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<IoResult<usize>> {
        let polled = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.or_deadline(context, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        let polled = Pin::new(&mut self.socket).poll_flush(context);
        self.or_deadline(context, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<IoResult<()>> {
        let polled = Pin::new(&mut self.socket).poll_shutdown(context);
        self.or_deadline(context, polled)
    }
}

impl TlsStream for DeadlineStream {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}
