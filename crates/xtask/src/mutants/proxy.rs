//! A proxy between a test and the server. It records the statements that the test sends, and can
//! replace one of them, so that the library needs no hook and no build for a mutant.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use redrive_servers::{Edit, patched};

use super::parallel::lock;

/// Called with each text before the server receives it.
type Observer = Box<dyn Fn(&str) + Send + Sync>;

/// A running proxy on a port of this machine, stopped when dropped.
pub(super) struct Proxy {
    network: redrive_servers::Proxy,
    traffic: Arc<Traffic>,
}

struct Traffic {
    observer: Observer,
    /// A statement, and what replaces it.
    patch: Mutex<Option<(String, String)>>,
    sent: Mutex<BTreeSet<String>>,
}

impl Proxy {
    /// Opens a proxy to a server of this machine.
    pub(super) fn open(server: u16, observer: Observer) -> Proxy {
        let traffic = Arc::new(Traffic {
            observer,
            patch: Mutex::default(),
            sent: Mutex::default(),
        });
        let passing = Arc::clone(&traffic);
        let edit = Edit::new(move |frame| passing.pass(frame));
        let url = format!("postgres://postgres@127.0.0.1:{server}/postgres");
        let network = redrive_servers::Proxy::editing(&url, edit);
        Proxy { network, traffic }
    }

    pub(super) fn port(&self) -> u16 {
        self.network.port()
    }

    /// Replaces a statement from now on.
    pub(super) fn patch(&self, patch: Option<(String, String)>) {
        *lock(&self.traffic.patch) = patch;
    }

    /// Returns the texts sent since the last call, each once.
    pub(super) fn take_sent(&self) -> BTreeSet<String> {
        std::mem::take(&mut *lock(&self.traffic.sent))
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

/// Returns the database of a test that the harness creates or drops by a statement that begins like this.
pub(super) fn database<'a>(text: &'a str, begin: &str) -> Option<&'a str> {
    let name = text.strip_prefix(begin)?.split(' ').next()?;
    name.starts_with("redrive_test_").then_some(name)
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
