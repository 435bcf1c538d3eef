//! A proxy between a test and its server that can cut, refuse and silence connections.
//!
//! A silent connection stays open and accepts data, but no reply arrives. It stays silent; only new
//! connections reach the server, as behind a firewall that dropped its state.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// No limit.
const ENDLESS: i64 = i64::MAX / 2;

/// A proxy in front of a server; it stops when dropped.
#[derive(Debug)]
pub struct Proxy {
    url: String,
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    /// New connections are accepted and never answered.
    silent: AtomicBool,
    /// New connections are closed at once.
    refuses: AtomicBool,
    /// The number of further replies before every connection is silent.
    answers: AtomicI64,
    /// The number of further bytes of the server before each connection is cut.
    bytes: AtomicI64,
    /// The number of connections accepted.
    came: AtomicUsize,
    over: AtomicBool,
    wires: Mutex<Vec<Wire>>,
}

/// A connection of a client.
#[derive(Debug)]
struct Wire {
    number: usize,
    client: TcpStream,
    /// Nothing passes any more.
    mute: Arc<AtomicBool>,
}

impl Proxy {
    /// Starts a proxy in front of the server of this URL.
    pub fn to(url: &str) -> Proxy {
        let (before, rest) = url.split_once('@').expect("a URL with a role");
        let (place, database) = rest.split_once('/').expect("a URL with a database");
        let server = place
            .to_socket_addrs()
            .expect("a host and a port")
            .next()
            .expect("an address");
        let listener = TcpListener::bind("127.0.0.1:0").expect("open a proxy");
        let port = listener.local_addr().expect("the port of the proxy").port();
        let shared = Arc::new(Shared {
            server,
            silent: AtomicBool::new(false),
            refuses: AtomicBool::new(false),
            answers: AtomicI64::new(ENDLESS),
            bytes: AtomicI64::new(ENDLESS),
            came: AtomicUsize::new(0),
            over: AtomicBool::new(false),
            wires: Mutex::default(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Proxy {
            url: format!("{before}@127.0.0.1:{port}/{database}"),
            port,
            shared,
        }
    }

    /// Returns the URL of the same database through the proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Silences open and new connections.
    pub fn fall_silent(&self) {
        self.shared.fall_silent();
    }

    /// Silences open and new connections after this many more replies of the server.
    pub fn fall_silent_after(&self, answers: i64) {
        match answers {
            0 => self.fall_silent(),
            more => self.shared.answers.store(more, Ordering::SeqCst),
        }
    }

    /// New connections are closed at once.
    pub fn refuse(&self) {
        self.shared.refuses.store(true, Ordering::SeqCst);
    }

    /// Cuts each connection after this many more bytes of the server, even within a reply.
    pub fn cut_after(&self, bytes: u16) {
        self.shared.bytes.store(bytes.into(), Ordering::SeqCst);
    }

    /// Serves new connections again. Silent connections stay silent.
    pub fn mend(&self) {
        self.shared.answers.store(ENDLESS, Ordering::SeqCst);
        self.shared.bytes.store(ENDLESS, Ordering::SeqCst);
        self.shared.silent.store(false, Ordering::SeqCst);
        self.shared.refuses.store(false, Ordering::SeqCst);
    }

    /// Closes every connection and returns their number.
    pub fn cut(&self) -> usize {
        let wires: Vec<Wire> = lock(&self.shared.wires).drain(..).collect();
        for wire in &wires {
            // The connection may be closed already.
            _ = wire.client.shutdown(Shutdown::Both);
        }
        wires.len()
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        lock(&self.shared.wires).len()
    }

    /// Returns the number of connections accepted so far.
    pub fn came(&self) -> usize {
        self.shared.came.load(Ordering::SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        self.cut();
        // Wakes the waiting accept.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl Shared {
    fn fall_silent(&self) {
        let wires = lock(&self.wires);
        self.silent.store(true, Ordering::SeqCst);
        for wire in &*wires {
            wire.mute.store(true, Ordering::SeqCst);
        }
    }

    /// Counts a reply of the server.
    fn answered(&self) {
        if self.answers.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.fall_silent();
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming().flatten() {
        if shared.over.load(Ordering::SeqCst) {
            return;
        }
        let number = shared.came.fetch_add(1, Ordering::SeqCst);
        if shared.refuses.load(Ordering::SeqCst) {
            continue;
        }
        // The client may be gone already.
        _ = begin(number, client, shared);
    }
}

fn begin(number: usize, client: TcpStream, shared: &Arc<Shared>) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let mut wires = lock(&shared.wires);
    let is_silent = shared.silent.load(Ordering::SeqCst);
    let server = match is_silent {
        true => None,
        false => Some(TcpStream::connect(shared.server)?),
    };
    let mute = Arc::new(AtomicBool::new(is_silent));
    wires.push(Wire {
        number,
        client: client.try_clone()?,
        mute: Arc::clone(&mute),
    });
    drop(wires);
    if let Some(server) = &server {
        server.set_nodelay(true)?;
        let (mut server, mut client) = (server.try_clone()?, client.try_clone()?);
        let (shared, mute) = (Arc::clone(shared), Arc::clone(&mute));
        thread::spawn(move || {
            answer(&mut server, &mut client, &shared, &mute);
            close(&server);
            // A silent connection does not report its end either.
            if !mute.load(Ordering::SeqCst) {
                close(&client);
            }
        });
    }
    let shared = Arc::clone(shared);
    thread::spawn(move || {
        let mut client = client;
        ask(&mut client, server.as_ref(), &mute);
        close(&client);
        server.iter().for_each(close);
        lock(&shared.wires).retain(|wire| wire.number != number);
    });
    Ok(())
}

/// Copies from the client to the server until the client disconnects.
fn ask(client: &mut TcpStream, server: Option<&TcpStream>, mute: &AtomicBool) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(got @ 1..) = client.read(&mut buffer) {
        if mute.load(Ordering::SeqCst) {
            continue;
        }
        let Some(mut server) = server else { continue };
        if server.write_all(&buffer[..got]).is_err() {
            return;
        }
    }
}

/// Copies from the server to the client until the server disconnects.
fn answer(server: &mut TcpStream, client: &mut TcpStream, shared: &Shared, mute: &AtomicBool) {
    let mut buffer = vec![0; 16 * 1024];
    let mut given = 0_i64;
    loop {
        let Ok(got @ 1..) = server.read(&mut buffer) else {
            return;
        };
        if mute.load(Ordering::SeqCst) {
            continue;
        }
        let most = shared.bytes.load(Ordering::SeqCst) - given;
        let left = usize::try_from(most).unwrap_or(0).min(got);
        if client.write_all(&buffer[..left]).is_err() || left < got {
            return;
        }
        given += i64::try_from(got).unwrap_or(ENDLESS);
        shared.answered();
    }
}

fn close(stream: &TcpStream) {
    // The other direction may have done it.
    _ = stream.shutdown(Shutdown::Both);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
