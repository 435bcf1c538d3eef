//! A TCP proxy between one actor and its server, which can be told to misbehave.
//!
//! It knows the frames of the protocol, so that it can cut a connection after the server has
//! committed and before its answer is delivered, and give an actor other statements than it has:
//! that is how mutants of the library's SQL run without a door for them in the library.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::wire::{Frames, patched};

/// How late a connection notices that the proxy was told something.
const TICK: Duration = Duration::from_millis(20);

/// How a proxy treats its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// As a cable does.
    Pass,
    /// Every frame is held up for so long.
    Delay(Duration),
    /// Connections are accepted and closed.
    Refuse,
    /// Connections are accepted and everything is taken, and nothing is ever answered.
    Silent,
    /// A byte at a time.
    Slice,
}

/// A part of the text of a statement, and what the server gets to see in its place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patch {
    /// The statement of the library that has it, for those who read.
    pub(crate) statement: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

/// A proxy; it lives as long as this.
#[derive(Debug)]
pub(crate) struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    target: AtomicU16,
    manner: Mutex<Manner>,
    /// How many answers are still to be lost.
    cuts: AtomicUsize,
    connections: Mutex<Vec<TcpStream>>,
    over: AtomicBool,
    patches: Vec<Patch>,
}

impl Proxy {
    /// Opens one to a port of this machine.
    pub(crate) fn open(target: u16, patches: &[Patch]) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("open a proxy");
        let port = listener.local_addr().expect("the port of a proxy").port();
        let shared = Arc::new(Shared {
            target: AtomicU16::new(target),
            manner: Mutex::new(Manner::Pass),
            cuts: AtomicUsize::new(0),
            connections: Mutex::default(),
            over: AtomicBool::new(false),
            patches: patches.to_vec(),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Proxy { port, shared }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// From now on it behaves like this.
    pub(crate) fn behave(&self, manner: Manner) {
        *lock(&self.shared.manner) = manner;
        if manner == Manner::Refuse {
            self.cut();
        }
    }

    /// Closes all its connections.
    pub(crate) fn cut(&self) {
        for connection in lock(&self.shared.connections).drain(..) {
            // It may be closed already.
            _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// Ends the server's half of all its connections: the client may still write.
    pub(crate) fn close_half(&self) {
        for connection in &*lock(&self.shared.connections) {
            _ = connection.shutdown(Shutdown::Write);
        }
    }

    /// The next so many answers are lost, after the server has done what it was asked for.
    pub(crate) fn lose_answers(&self, answers: usize) {
        self.shared.cuts.store(answers, Ordering::Relaxed);
    }

    /// New connections go there; the old ones are closed.
    pub(crate) fn aim(&self, target: u16) {
        self.shared.target.store(target, Ordering::Relaxed);
        self.cut();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.cut();
        // Ends the accept that waits.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming().flatten() {
        if shared.over.load(Ordering::Relaxed) {
            return;
        }
        if *lock(&shared.manner) == Manner::Refuse {
            continue;
        }
        let target = shared.target.load(Ordering::Relaxed);
        let Ok(server) = TcpStream::connect(("127.0.0.1", target)) else {
            continue;
        };
        let connection = Connection {
            shared: Arc::clone(shared),
            is_losing: AtomicBool::new(false),
        };
        if let Err(error) = connection.begin(&client, &server) {
            eprintln!("proxy: {error}");
        }
    }
}

/// One connection of a client, with its own to the server.
struct Connection {
    shared: Arc<Shared>,
    /// Whether the answer that comes next is lost.
    is_losing: AtomicBool,
}

/// What became of a read.
enum Got {
    Bytes(usize),
    Nothing,
    End,
}

impl Connection {
    fn begin(self, client: &TcpStream, server: &TcpStream) -> std::io::Result<()> {
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
        let asked = Arc::new(self);
        let answered = Arc::clone(&asked);
        thread::spawn(move || asked.ask(from_client, to_server));
        thread::spawn(move || answered.answer(from_server, to_client));
        Ok(())
    }

    /// From the client to the server.
    fn ask(&self, mut client: TcpStream, mut server: TcpStream) {
        let mut frames = Frames::of_client();
        let mut buffer = vec![0; 64 * 1024];
        let mut does = false;
        while let Some(got) = self.read(&mut client, &mut buffer) {
            frames.push(&buffer[..got]);
            let mut out = Vec::new();
            while let Some(frame) = frames.next() {
                // Execute, a query, the end of a COPY: something is done when the answer is ready.
                match frame.first() {
                    Some(b'E' | b'Q' | b'c') => does = true,
                    Some(b'S') if does => {
                        does = false;
                        self.lose_one();
                    }
                    _ => {}
                }
                if frame.first() == Some(&b'Q') {
                    does = false;
                    self.lose_one();
                }
                let patches = self.shared.patches.iter();
                out.extend(
                    patches.fold(frame, |frame, patch| patched(frame, patch.from, patch.to)),
                );
            }
            if self.write(&mut server, &out).is_err() {
                break;
            }
        }
        close(&client, &server);
    }

    /// From the server to the client.
    fn answer(&self, mut server: TcpStream, mut client: TcpStream) {
        let mut frames = Frames::of_server();
        let mut buffer = vec![0; 64 * 1024];
        'reading: while let Some(got) = self.read(&mut server, &mut buffer) {
            frames.push(&buffer[..got]);
            let mut out = Vec::new();
            while let Some(frame) = frames.next() {
                if self.is_losing.load(Ordering::Relaxed) {
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

    fn lose_one(&self) {
        let one_less = |cuts: usize| cuts.checked_sub(1);
        let cuts = &self.shared.cuts;
        if cuts
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_ok()
        {
            self.is_losing.store(true, Ordering::Relaxed);
        }
    }

    /// Reads what came; `None` when the connection is over.
    fn read(&self, from: &mut TcpStream, buffer: &mut [u8]) -> Option<usize> {
        let mut was_silent = false;
        loop {
            if self.shared.over.load(Ordering::Relaxed) {
                return None;
            }
            let is_silent = *lock(&self.shared.manner) == Manner::Silent;
            // What was taken in silence is gone, and so is the connection.
            if was_silent && !is_silent {
                return None;
            }
            was_silent = is_silent;
            match got(from.read(buffer)) {
                Got::Bytes(_) if is_silent => {}
                Got::Bytes(bytes) => return Some(bytes),
                Got::Nothing => {}
                Got::End => return None,
            }
        }
    }

    fn write(&self, to: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
        let manner = *lock(&self.shared.manner);
        match manner {
            Manner::Delay(time) if !bytes.is_empty() => thread::sleep(time),
            Manner::Slice => return bytes.iter().try_for_each(|byte| to.write_all(&[*byte])),
            _ => {}
        }
        to.write_all(bytes)
    }
}

fn got(read: std::io::Result<usize>) -> Got {
    match read {
        Ok(0) => Got::End,
        Ok(bytes) => Got::Bytes(bytes),
        Err(error)
            if [
                ErrorKind::WouldBlock,
                ErrorKind::TimedOut,
                ErrorKind::Interrupted,
            ]
            .contains(&error.kind()) =>
        {
            Got::Nothing
        }
        Err(_) => Got::End,
    }
}

fn close(client: &TcpStream, server: &TcpStream) {
    for stream in [client, server] {
        // The other half may have done it.
        _ = stream.shutdown(Shutdown::Both);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that answers each query with an answer and that it is ready.
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

    fn ask(port: u16) -> std::io::Result<Vec<u8>> {
        let mut client = TcpStream::connect(("127.0.0.1", port))?;
        client.set_read_timeout(Some(Duration::from_millis(400)))?;
        client.write_all(&[0, 0, 0, 8, 0, 3, 0, 0])?;
        client.write_all(b"Q\0\0\0\x05\0")?;
        let mut answer = [0; 12];
        client.read_exact(&mut answer)?;
        Ok(answer.to_vec())
    }

    #[test]
    fn it_passes_slices_loses_refuses_and_is_silent() {
        let proxy = Proxy::open(server(), &[]);
        assert_eq!(ask(proxy.port()).expect("an answer").len(), 12);
        proxy.behave(Manner::Slice);
        assert_eq!(ask(proxy.port()).expect("an answer").len(), 12);
        proxy.behave(Manner::Pass);
        proxy.lose_answers(1);
        assert_eq!(
            ask(proxy.port()).expect_err("lost").kind(),
            ErrorKind::UnexpectedEof
        );
        assert_eq!(ask(proxy.port()).expect("an answer").len(), 12);
        proxy.behave(Manner::Silent);
        assert_eq!(
            ask(proxy.port()).expect_err("silence").kind(),
            ErrorKind::WouldBlock
        );
        proxy.behave(Manner::Refuse);
        ask(proxy.port()).expect_err("refused");
        proxy.behave(Manner::Pass);
        assert_eq!(ask(proxy.port()).expect("an answer").len(), 12);
    }
}
