//! A cable between a test and its server: it can be cut, can refuse, and can fall silent.
//!
//! Silence is the worst that a network does: everything is taken, nothing is answered, and the
//! connection stays open. What has fallen silent stays so; only new connections find the server
//! again, as behind a firewall that has forgotten them.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// As many as never come to an end.
const ENDLESS: i64 = i64::MAX / 2;

/// A proxy in front of a server; it lives as long as this.
#[derive(Debug)]
pub struct Cable {
    url: String,
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    /// New connections are taken and never answered.
    silent: AtomicBool,
    /// New connections are closed at once.
    refuses: AtomicBool,
    /// After how many more answers everything falls silent.
    answers: AtomicI64,
    /// After how many more bytes of the server a connection is cut, each for itself.
    bytes: AtomicI64,
    /// How many connections came.
    came: AtomicUsize,
    over: AtomicBool,
    wires: Mutex<Vec<Wire>>,
}

/// A connection of a client.
#[derive(Debug)]
struct Wire {
    number: usize,
    client: TcpStream,
    /// Nothing goes through it any more.
    mute: Arc<AtomicBool>,
}

impl Cable {
    /// One to the server of this URL.
    pub fn to(url: &str) -> Cable {
        let (before, rest) = url.split_once('@').expect("a URL with a role");
        let (place, database) = rest.split_once('/').expect("a URL with a database");
        let server = place
            .to_socket_addrs()
            .expect("a host and a port")
            .next()
            .expect("an address");
        let listener = TcpListener::bind("127.0.0.1:0").expect("open a cable");
        let port = listener.local_addr().expect("the port of a cable").port();
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
        Cable {
            url: format!("{before}@127.0.0.1:{port}/{database}"),
            port,
            shared,
        }
    }

    /// The URL of the same database through the cable.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on nothing is answered, neither to those who are connected nor to others.
    pub fn fall_silent(&self) {
        self.shared.fall_silent();
    }

    /// The same, after so many more answers of the server.
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

    /// Each connection is cut after so many more bytes of the server, in the middle of an answer
    /// or not.
    pub fn cut_after(&self, bytes: u16) {
        self.shared.bytes.store(bytes.into(), Ordering::SeqCst);
    }

    /// New connections are as they should be. What has fallen silent stays so.
    pub fn mend(&self) {
        self.shared.answers.store(ENDLESS, Ordering::SeqCst);
        self.shared.bytes.store(ENDLESS, Ordering::SeqCst);
        self.shared.silent.store(false, Ordering::SeqCst);
        self.shared.refuses.store(false, Ordering::SeqCst);
    }

    /// Closes all its connections; answers how many there were.
    pub fn cut(&self) -> usize {
        let wires: Vec<Wire> = lock(&self.shared.wires).drain(..).collect();
        for wire in &wires {
            // It may be closed already.
            _ = wire.client.shutdown(Shutdown::Both);
        }
        wires.len()
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        lock(&self.shared.wires).len()
    }

    /// How many connections came until now.
    pub fn came(&self) -> usize {
        self.shared.came.load(Ordering::SeqCst)
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::SeqCst);
        self.cut();
        // Ends the accept that waits.
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

    /// One answer of the server went by.
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
        // It may be gone again: then that was it.
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
            // Who is mute does not tell its end either.
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

/// From the client to the server, until the client is gone.
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

/// From the server to the client, until the server is gone.
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
    // The other half may have done it.
    _ = stream.shutdown(Shutdown::Both);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
