//! A TCP proxy between one process and the server. It injects network faults and mutants.
//!
//! It parses the protocol's frames. It can therefore close a connection after the server committed
//! and before the answer arrives, and change what a client sends, so that the library needs no hook
//! for mutants. `cargo xtask mutants` uses it, too.

use std::fmt;
use std::io::{Error, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::wire::{Frames, patched};

/// How often a connection checks the proxy's mode.
const TICK: Duration = Duration::from_millis(20);

/// How a proxy treats its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Forwards everything.
    Forward,
    /// Delays every frame.
    Delay(Duration),
    /// Accepts connections and closes them.
    Refuse,
    /// Accepts connections and reads requests, but never answers.
    Silent,
    /// Forwards one byte at a time.
    Slice,
}

/// A replacement in the text of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patch {
    /// The name of the library's statement, for error messages, or of a function.
    pub(crate) place: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

/// Changes the frames that clients send.
pub(crate) struct Edit(Box<dyn Fn(Vec<u8>) -> Vec<u8> + Send + Sync>);

impl Edit {
    pub(crate) fn new(edit: impl Fn(Vec<u8>) -> Vec<u8> + Send + Sync + 'static) -> Edit {
        Edit(Box::new(edit))
    }

    /// Applies patches.
    pub(crate) fn of(patches: &[Patch]) -> Edit {
        let patches = patches.to_vec();
        Edit::new(move |frame| {
            let patches = patches.iter();
            patches.fold(frame, |frame, patch| patched(frame, patch.from, patch.to))
        })
    }
}

impl fmt::Debug for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Edit")
    }
}

/// A running proxy, stopped when dropped.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: AtomicU16,
    mode: Mutex<Mode>,
    /// How many answers it still has to drop.
    drops: AtomicUsize,
    connections: Mutex<Vec<TcpStream>>,
    stopped: AtomicBool,
    edit: Edit,
}

impl Proxy {
    /// Opens a proxy to a port of this machine.
    pub(crate) fn open(target: u16, edit: Edit) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("open a proxy");
        let port = listener.local_addr().expect("the port of a proxy").port();
        let shared = Arc::new(Shared {
            target: AtomicU16::new(target),
            mode: Mutex::new(Mode::Forward),
            drops: AtomicUsize::new(0),
            connections: Mutex::default(),
            stopped: AtomicBool::new(false),
            edit,
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Proxy { port, shared }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Changes how it treats connections.
    pub(crate) fn set_mode(&self, mode: Mode) {
        *lock(&self.shared.mode) = mode;
        if mode == Mode::Refuse {
            self.cut();
        }
    }

    /// Closes all its connections.
    pub(crate) fn cut(&self) {
        for connection in lock(&self.shared.connections).drain(..) {
            // The connection may be closed already.
            _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Closes the server's half of all connections: the client may still write.
    pub(crate) fn close_half(&self) {
        for connection in &*lock(&self.shared.connections) {
            _ = connection.shutdown(Shutdown::Write);
        }
    }

    /// Drops the next answers, after the server executed the requests.
    pub(crate) fn lose_answers(&self, answers: usize) {
        self.shared.drops.store(answers, Ordering::Relaxed);
    }

    /// Redirects new connections to another port and closes the old ones.
    pub(crate) fn redirect(&self, target: u16) {
        self.shared.target.store(target, Ordering::Relaxed);
        self.cut();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::Relaxed);
        self.cut();
        // Unblocks the pending accept.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming().flatten() {
        if shared.stopped.load(Ordering::Relaxed) {
            return;
        }
        if *lock(&shared.mode) == Mode::Refuse {
            continue;
        }
        let target = shared.target.load(Ordering::Relaxed);
        let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else {
            continue;
        };
        let connection = Connection {
            shared: Arc::clone(shared),
            is_dropping: AtomicBool::new(false),
        };
        if let Err(error) = connection.start(&client, &server) {
            eprintln!("proxy: {error}");
        }
    }
}

/// A client's connection, with its counterpart to the server.
struct Connection {
    shared: Arc<Shared>,
    /// Whether the next answer is dropped.
    is_dropping: AtomicBool,
}

impl Connection {
    fn start(self, client: &TcpStream, server: &TcpStream) -> std::io::Result<()> {
        for stream in [client, server] {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(TICK))?;
        }
        let mut connections = lock(&self.shared.connections);
        connections.retain(|connection| connection.peer_addr().is_ok());
        connections.push(client.try_clone()?);
        drop(connections);
        let (to_server, from_client) = (server.try_clone()?, client.try_clone()?);
        let (to_client, from_server) = (client.try_clone()?, server.try_clone()?);
        let requests = Arc::new(self);
        let answers = Arc::clone(&requests);
        thread::spawn(move || requests.forward_requests(from_client, to_server));
        thread::spawn(move || answers.forward_answers(from_server, to_client));
        Ok(())
    }

    /// Forwards the client's frames to the server.
    fn forward_requests(&self, mut client: TcpStream, mut server: TcpStream) {
        let mut frames = Frames::of_client();
        let mut buffer = vec![0; 64 * 1024];
        let mut has_effect = false;
        while let Some(got) = self.read(&mut client, &mut buffer) {
            frames.push(&buffer[..got]);
            let mut out = Vec::new();
            while let Some(frame) = frames.next() {
                // Execute, a simple query and CopyDone have an effect by the time of the answer.
                match frame.first() {
                    Some(b'E' | b'Q' | b'c') => has_effect = true,
                    Some(b'S') if has_effect => {
                        has_effect = false;
                        self.drop_one();
                    }
                    _ => {}
                }
                if frame.first() == Some(&b'Q') {
                    has_effect = false;
                    self.drop_one();
                }
                out.extend(self.shared.edit.0(frame));
            }
            if self.write(&mut server, &out).is_err() {
                break;
            }
        }
        close(&client, &server);
    }

    /// Forwards the server's frames to the client.
    fn forward_answers(&self, mut server: TcpStream, mut client: TcpStream) {
        let mut frames = Frames::of_server();
        let mut buffer = vec![0; 64 * 1024];
        'reading: while let Some(got) = self.read(&mut server, &mut buffer) {
            frames.push(&buffer[..got]);
            let mut out = Vec::new();
            while let Some(frame) = frames.next() {
                if self.is_dropping.load(Ordering::Relaxed) {
                    if frame.first() == Some(&b'Z') {
                        break 'reading;
                    }
                    continue;
                }
                out.extend(frame);
            }
            if self.write(&mut client, &out).is_err() {
                break;
            }
        }
        close(&client, &server);
    }

    fn drop_one(&self) {
        let one_less = |drops: usize| drops.checked_sub(1);
        let drops = &self.shared.drops;
        let taken = drops.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
        self.is_dropping.fetch_or(taken.is_ok(), Ordering::Relaxed);
    }

    /// Reads some bytes. Returns `None` when the connection is closed.
    fn read(&self, from: &mut TcpStream, buffer: &mut [u8]) -> Option<usize> {
        let mut was_silent = false;
        loop {
            if self.shared.stopped.load(Ordering::Relaxed) {
                return None;
            }
            let is_silent = *lock(&self.shared.mode) == Mode::Silent;
            // Requests read while silent are lost, so the connection must end.
            if was_silent && !is_silent {
                return None;
            }
            was_silent = is_silent;
            match from.read(buffer) {
                Ok(0) => return None,
                Ok(_) if is_silent => {}
                Ok(bytes) => return Some(bytes),
                Err(error) if is_timeout(&error) => {}
                Err(_) => return None,
            }
        }
    }

    fn write(&self, to: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
        let mode = *lock(&self.shared.mode);
        match mode {
            Mode::Delay(time) if !bytes.is_empty() => {
                thread::sleep(time);
            }
            Mode::Slice => {
                return bytes.iter().try_for_each(|byte| to.write_all(&[*byte]));
            }
            _ => {}
        }
        to.write_all(bytes)
    }
}

fn is_timeout(error: &Error) -> bool {
    use ErrorKind::{Interrupted, TimedOut, WouldBlock};
    [WouldBlock, TimedOut, Interrupted].contains(&error.kind())
}

fn close(client: &TcpStream, server: &TcpStream) {
    for stream in [client, server] {
        // The other half may have closed it already.
        _ = stream.shutdown(Shutdown::Both);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers each query with `CommandComplete` and `ReadyForQuery`.
    fn server() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let port = listener.local_addr().expect("a port").port();
        thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                thread::spawn(move || {
                    let (mut frames, mut buffer) = (Frames::of_client(), [0; 512]);
                    while let Ok(got @ 1..) = stream.read(&mut buffer) {
                        frames.push(&buffer[..got]);
                        while let Some(frame) = frames.next() {
                            if frame[0] == b'Q' {
                                stream
                                    .write_all(b"C\0\0\0\x05\0Z\0\0\0\x05I")
                                    .expect("answer");
                            }
                        }
                    }
                });
            }
        });
        port
    }

    fn query(port: u16) -> std::io::Result<Vec<u8>> {
        let mut client = TcpStream::connect(("127.0.0.1", port))?;
        client.set_read_timeout(Some(Duration::from_millis(400)))?;
        client.write_all(&[0, 0, 0, 8, 0, 3, 0, 0])?;
        client.write_all(b"Q\0\0\0\x05\0")?;
        let mut answer = [0; 12];
        client.read_exact(&mut answer)?;
        Ok(answer.to_vec())
    }

    #[test]
    fn a_proxy_forwards_slices_drops_refuses_and_stays_silent() {
        let proxy = Proxy::open(server(), Edit::of(&[]));
        assert_eq!(query(proxy.port()).expect("an answer").len(), 12);
        proxy.set_mode(Mode::Slice);
        assert_eq!(query(proxy.port()).expect("an answer").len(), 12);
        proxy.set_mode(Mode::Delay(Duration::from_millis(1)));
        assert_eq!(query(proxy.port()).expect("an answer").len(), 12);
        proxy.set_mode(Mode::Forward);
        proxy.lose_answers(1);
        let lost = query(proxy.port()).expect_err("lost");
        assert_eq!(lost.kind(), ErrorKind::UnexpectedEof);
        assert_eq!(query(proxy.port()).expect("an answer").len(), 12);
        proxy.set_mode(Mode::Silent);
        let silence = query(proxy.port()).expect_err("silence");
        assert_eq!(silence.kind(), ErrorKind::WouldBlock);
        proxy.set_mode(Mode::Refuse);
        query(proxy.port()).expect_err("refused");
        proxy.set_mode(Mode::Forward);
        let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).expect("connect");
        while lock(&proxy.shared.connections).is_empty() {
            thread::yield_now();
        }
        proxy.cut();
        assert_eq!(client.read(&mut [0]).expect("the end"), 0);
        assert_eq!(query(proxy.port()).expect("an answer").len(), 12);
    }
}
