//! A proxy between a test and the server. It records the statements that the test sends, and can
//! replace one of them, so that the library needs no hook and no build for a mutant.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Context as _, Result};

use super::wire::{Frames, patched};

/// Called with each text before the server receives it.
type Observer = Box<dyn Fn(&str) + Send + Sync>;

/// A running proxy on a port of this machine, stopped when dropped.
pub(super) struct Proxy {
    port: u16,
    shared: Arc<Traffic>,
}

struct Traffic {
    server: u16,
    observer: Observer,
    /// A statement, and what replaces it.
    patch: Mutex<Option<(String, String)>>,
    sent: Mutex<BTreeSet<String>>,
    is_stopped: AtomicBool,
}

impl Proxy {
    /// Opens a proxy to a server of this machine.
    pub(super) fn open(server: u16, observer: Observer) -> Result<Proxy> {
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot open a proxy")?;
        let port = listener.local_addr().context("cannot open a proxy")?.port();
        let shared = Arc::new(Traffic {
            server,
            observer,
            patch: Mutex::default(),
            sent: Mutex::default(),
            is_stopped: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Ok(Proxy { port, shared })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Replaces a statement from now on.
    pub(super) fn patch(&self, patch: Option<(String, String)>) {
        *lock(&self.shared.patch) = patch;
    }

    /// Returns the texts sent since the last call, each once.
    pub(super) fn take_sent(&self) -> BTreeSet<String> {
        std::mem::take(&mut *lock(&self.shared.sent))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::Relaxed);
        // Wakes the waiting accept.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

impl Traffic {
    /// Records a frame of a client, and returns what the server receives instead.
    fn pass(&self, frame: Vec<u8>) -> Vec<u8> {
        let Some(text) = text(&frame) else {
            return frame;
        };
        (self.observer)(&text);
        let mut sent = lock(&self.sent);
        if !sent.contains(&*text) {
            sent.insert(text);
        }
        drop(sent);
        match &*lock(&self.patch) {
            Some((from, to)) => patched(frame, from, to),
            None => frame,
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Traffic>) {
    for client in listener.incoming().flatten() {
        if shared.is_stopped.load(Ordering::Relaxed) {
            return;
        }
        let shared = Arc::clone(shared);
        // A connection that cannot be opened ends, and its test fails.
        _ = TcpStream::connect(("127.0.0.1", shared.server))
            .and_then(|server| start(&client, &server, shared));
    }
}

fn start(client: &TcpStream, server: &TcpStream, shared: Arc<Traffic>) -> std::io::Result<()> {
    for stream in [client, server] {
        stream.set_nodelay(true)?;
    }
    let (from_client, to_server) = (client.try_clone()?, server.try_clone()?);
    let (from_server, to_client) = (server.try_clone()?, client.try_clone()?);
    thread::spawn(move || {
        let mut frames = Frames::of_client();
        forward(from_client, to_server, |bytes| {
            frames.push(bytes);
            let mut out = Vec::new();
            while let Some(frame) = frames.next() {
                out.extend(shared.pass(frame));
            }
            out
        });
    });
    thread::spawn(move || forward(from_server, to_client, <[u8]>::to_vec));
    Ok(())
}

/// Copies until one side ends, and tells the other.
fn forward(mut from: TcpStream, mut to: TcpStream, mut pass: impl FnMut(&[u8]) -> Vec<u8>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(got @ 1..) = from.read(&mut buffer) {
        if to.write_all(&pass(&buffer[..got])).is_err() {
            // The other direction notices it.
            _ = from.shutdown(Shutdown::Both);
            break;
        }
    }
    _ = to.shutdown(Shutdown::Write);
}

/// Returns the text of a Query or Parse frame.
fn text(frame: &[u8]) -> Option<String> {
    let body = frame.get(5..)?;
    let mut parts = body.split(|byte| *byte == 0);
    let text = match frame.first()? {
        b'Q' => parts.next()?,
        b'P' => parts.nth(1)?,
        _ => return None,
    };
    Some(String::from_utf8_lossy(text).into_owned())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_recorded_and_replaced() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a server");
        let server = listener.local_addr().expect("its port").port();
        let observed = Arc::new(Mutex::new(Vec::new()));
        let observer = Arc::clone(&observed);
        let observer = move |text: &str| lock(&observer).push(text.to_owned());
        let proxy = Proxy::open(server, Box::new(observer)).expect("a proxy");
        proxy.patch(Some(("SELECT 1".to_owned(), "SELECT 23".to_owned())));

        let mut client = TcpStream::connect(("127.0.0.1", proxy.port())).expect("connect");
        let startup = [0, 0, 0, 8, 0, 3, 0, 0];
        client.write_all(&startup).expect("send");
        client
            .write_all(b"P\0\0\0\x11s\0SELECT 1\0\0\0")
            .expect("send");
        client.write_all(b"Q\0\0\0\x0dSELECT 1\0").expect("send");
        client.shutdown(Shutdown::Write).expect("end");

        let mut got = Vec::new();
        let (mut accepted, _) = listener.accept().expect("a connection");
        accepted.read_to_end(&mut got).expect("read");
        let expected = [
            &startup[..],
            b"P\0\0\0\x12s\0SELECT 23\0\0\0",
            b"Q\0\0\0\x0dSELECT 1\0",
        ];
        assert_eq!(got, expected.concat());
        assert_eq!(*lock(&observed), ["SELECT 1", "SELECT 1"]);
        assert_eq!(proxy.take_sent(), BTreeSet::from(["SELECT 1".to_owned()]));
        assert!(proxy.take_sent().is_empty());
    }
}
