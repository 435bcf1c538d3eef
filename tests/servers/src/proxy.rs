//! A TCP proxy between clients and a server. It injects network faults and mutants.
//!
//! It parses the protocol's frames. It can therefore close a connection after the server committed
//! and before the answer arrives, and change what a client sends, so that the library needs no hook
//! for mutants.
//!
//! A silent connection stays open and accepts data, but no reply arrives. It stays silent; only new
//! connections reach the server later, as behind a firewall that dropped its state.

use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::address::{parts, through};
use crate::wire::{Frames, Side};

/// No limit.
const ENDLESS: i64 = i64::MAX / 2;
/// The most bytes of a read.
const BUFFER: usize = 64 * 1024;

/// How a proxy treats its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Forwards everything.
    Forward,
    /// Delays all bytes.
    Delay(Duration),
    /// Closes open and new connections.
    Refuse,
    /// Silences open and new connections.
    Silent,
}

/// Changes the frames that clients send.
pub struct Edit(Box<dyn Fn(Vec<u8>) -> Vec<u8> + Send + Sync>);

impl Edit {
    /// Returns an edit that calls a function with each frame.
    pub fn new(edit: impl Fn(Vec<u8>) -> Vec<u8> + Send + Sync + 'static) -> Edit {
        Edit(Box::new(edit))
    }
}

impl fmt::Debug for Edit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Edit")
    }
}

/// A running proxy, stopped when dropped.
#[derive(Debug)]
pub struct Proxy {
    port: u16,
    url: String,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    mode: Mutex<Mode>,
    /// How many answers it still has to drop.
    drops: AtomicUsize,
    /// The number of further replies before every connection is silent.
    replies: AtomicI64,
    wires: Mutex<Vec<Arc<Wire>>>,
    is_over: AtomicBool,
    edit: Edit,
}

/// A connection of a client.
#[derive(Debug)]
struct Wire {
    client: TcpStream,
    /// Whether nothing passes any more.
    is_silent: AtomicBool,
    /// Whether the next answer is dropped.
    is_dropping: AtomicBool,
}

impl Proxy {
    /// Opens a proxy in front of the server of a URL.
    pub fn to(url: &str) -> Proxy {
        Proxy::editing(url, Edit::new(|frame| frame))
    }

    /// Opens a proxy that changes what clients send.
    pub fn editing(url: &str, edit: Edit) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("open a proxy");
        let port = listener.local_addr().expect("the port of a proxy").port();
        let shared = Arc::new(Shared {
            server: address(url),
            mode: Mutex::new(Mode::Forward),
            drops: AtomicUsize::new(0),
            replies: AtomicI64::new(ENDLESS),
            wires: Mutex::default(),
            is_over: AtomicBool::new(false),
            edit,
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        let url = through(port, url);
        Proxy { port, url, shared }
    }

    /// Returns the port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL of the same database through the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Changes how it treats connections.
    pub fn set_mode(&self, mode: Mode) {
        self.shared.set_mode(mode);
    }

    /// Serves new connections again, without limits.
    pub fn mend(&self) {
        self.shared.replies.store(ENDLESS, Ordering::SeqCst);
        self.lose_answers(0);
        self.set_mode(Mode::Forward);
    }

    /// Closes all connections. Returns their number.
    pub fn cut(&self) -> usize {
        self.shared.cut()
    }

    /// Drops the next answers, after the server executed the requests.
    pub fn lose_answers(&self, answers: usize) {
        self.shared.drops.store(answers, Ordering::SeqCst);
    }

    /// Silences open and new connections after this many more replies of the server.
    pub fn fall_silent_after(&self, replies: i64) {
        match replies {
            0 => self.set_mode(Mode::Silent),
            more => self.shared.replies.store(more, Ordering::SeqCst),
        }
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        lock(&self.shared.wires).len()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        self.cut();
        // Unblocks the pending accept.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl Shared {
    fn set_mode(&self, mode: Mode) {
        let wires = lock(&self.wires);
        *lock(&self.mode) = mode;
        for wire in wires.iter().filter(|_| mode == Mode::Silent) {
            wire.is_silent.store(true, Ordering::SeqCst);
        }
        drop(wires);
        if mode == Mode::Refuse {
            self.cut();
        }
    }

    fn cut(&self) -> usize {
        let wires: Vec<_> = lock(&self.wires).drain(..).collect();
        for wire in &wires {
            close(&wire.client);
        }
        wires.len()
    }

    /// Counts a reply of the server.
    fn replied(&self) {
        if self.replies.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.set_mode(Mode::Silent);
        }
    }

    fn drop_one(&self, wire: &Wire) {
        let one_less = |drops: usize| drops.checked_sub(1);
        let taken = self
            .drops
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        wire.is_dropping.fetch_or(taken.is_ok(), Ordering::SeqCst);
    }

    /// Forwards the client's frames to the server, until either disconnects.
    fn forward_requests(&self, wire: &Wire, mut client: &TcpStream, server: &TcpStream) {
        let mut frames = Frames::of(Side::Client);
        let mut buffer = vec![0; BUFFER];
        let mut has_effect = false;
        while let Ok(got @ 1..) = client.read(&mut buffer) {
            if wire.is_silent.load(Ordering::SeqCst) {
                continue;
            }
            frames.push(&buffer[..got]);
            let mut out = Vec::new();
            while let Some(frame) = frames.next() {
                // Execute, a simple query and CopyDone have an effect by the time of the answer.
                let letter = frame.first().copied().unwrap_or_default();
                has_effect |= [b'E', b'Q', b'c'].contains(&letter);
                if has_effect && [b'Q', b'S'].contains(&letter) {
                    has_effect = false;
                    self.drop_one(wire);
                }
                out.extend(self.edit.0(frame));
            }
            if self.write(server, &out).is_err() {
                return;
            }
        }
    }

    /// Forwards the server's frames to the client, until either disconnects.
    fn forward_answers(&self, wire: &Wire, mut server: &TcpStream, client: &TcpStream) {
        let mut frames = Frames::of(Side::Server);
        let mut buffer = vec![0; BUFFER];
        while let Ok(got @ 1..) = server.read(&mut buffer) {
            if wire.is_silent.load(Ordering::SeqCst) {
                continue;
            }
            frames.push(&buffer[..got]);
            let mut out = Vec::new();
            while let Some(frame) = frames.next() {
                if !wire.is_dropping.load(Ordering::SeqCst) {
                    out.extend(frame);
                } else if frame.first() == Some(&b'Z') {
                    return;
                }
            }
            if out.is_empty() {
                continue;
            }
            if self.write(client, &out).is_err() {
                return;
            }
            self.replied();
        }
    }

    fn write(&self, mut to: &TcpStream, bytes: &[u8]) -> io::Result<()> {
        let mode = *lock(&self.mode);
        if let Mode::Delay(time) = mode
            && !bytes.is_empty()
        {
            thread::sleep(time);
        }
        to.write_all(bytes)
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming().flatten() {
        if shared.is_over.load(Ordering::SeqCst) {
            return;
        }
        // Either side may be gone already.
        _ = begin(client, shared);
    }
}

fn begin(client: TcpStream, shared: &Arc<Shared>) -> io::Result<()> {
    // No connection is open without being silent or in the list.
    let mut wires = lock(&shared.wires);
    let mode = *lock(&shared.mode);
    if mode == Mode::Refuse {
        return Ok(());
    }
    let server = TcpStream::connect(shared.server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let wire = Arc::new(Wire {
        client: client.try_clone()?,
        is_silent: AtomicBool::new(mode == Mode::Silent),
        is_dropping: AtomicBool::new(false),
    });
    let (from_server, to_client) = (server.try_clone()?, client.try_clone()?);
    wires.push(Arc::clone(&wire));
    drop(wires);
    let (answering, answered) = (Arc::clone(shared), Arc::clone(&wire));
    thread::spawn(move || {
        answering.forward_answers(&answered, &from_server, &to_client);
        close(&from_server);
        // A silent connection does not report its end either.
        if !answered.is_silent.load(Ordering::SeqCst) {
            close(&to_client);
        }
    });
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        shared.forward_requests(&wire, &client, &server);
        close(&client);
        close(&server);
        lock(&shared.wires).retain(|other| !Arc::ptr_eq(other, &wire));
    });
    Ok(())
}

fn address(url: &str) -> SocketAddr {
    let (_, place, _) = parts(url);
    let mut addresses = place.to_socket_addrs().expect("a host and a port");
    addresses.next().expect("an address")
}

fn close(stream: &TcpStream) {
    // The other direction may have done it.
    _ = stream.shutdown(Shutdown::Both);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
