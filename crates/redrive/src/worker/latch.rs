//! Latches of a worker's threads.

use crate::sync::Mutex;
use crate::sync::channel::{Receiver, Sender, bounded};

pub(crate) use crate::sync::lock;

/// Closes when its latch is set. Carries no messages.
pub(crate) type LatchReceiver = Receiver<std::convert::Infallible>;

/// A flag that can be waited for: setting it closes a channel.
#[derive(Debug)]
pub(crate) struct Latch(Mutex<Option<Sender<std::convert::Infallible>>>);

impl Latch {
    pub(crate) fn new() -> (Latch, LatchReceiver) {
        let (sender, receiver) = bounded(0);
        (Latch(Mutex::new(Some(sender))), receiver)
    }

    pub(crate) fn set(&self) {
        lock(&self.0).take();
    }

    pub(crate) fn is_set(&self) -> bool {
        lock(&self.0).is_none()
    }
}
