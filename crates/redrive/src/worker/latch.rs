//! Latches and bells of a worker's threads.

use std::convert::Infallible;

use crate::sync::Mutex;
use crate::sync::channel::{Receiver, Sender, bounded};

pub(crate) use crate::sync::lock;

/// Closes when its latch is set, or when the last of some threads has ended. Carries no messages.
pub(crate) type LatchReceiver = Receiver<Infallible>;

/// What threads keep until they end.
pub(crate) type Alive = Sender<Infallible>;

/// A flag that can be waited for: setting it closes a channel.
#[derive(Debug)]
pub(crate) struct Latch {
    open: Mutex<Option<Alive>>,
    pub(crate) closed: LatchReceiver,
}

impl Default for Latch {
    fn default() -> Latch {
        let (sender, closed) = bounded(0);
        let open = Mutex::new(Some(sender));
        Latch { open, closed }
    }
}

impl Latch {
    pub(crate) fn set(&self) {
        lock(&self.open).take();
    }

    pub(crate) fn is_set(&self) -> bool {
        lock(&self.open).is_none()
    }
}

/// Wakes a thread that waits for it, or that will wait for it next.
#[derive(Debug)]
pub(crate) struct Bell {
    pub(crate) sender: Sender<()>,
    pub(crate) rung: Receiver<()>,
}

impl Default for Bell {
    fn default() -> Bell {
        let (sender, rung) = bounded(1);
        Bell { sender, rung }
    }
}

impl Bell {
    pub(crate) fn ring(&self) {
        // A full channel means that the thread will look anyway.
        _ = self.sender.try_send(());
    }
}
