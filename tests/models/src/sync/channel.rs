//! Channels with the interface of crossbeam-channel, as far as a worker uses it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::clock::{self, Instant};

pub(crate) use crate::select;
pub(crate) use crossbeam_channel::{
    RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError,
};

/// Creates a channel with this capacity.
pub(crate) fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let channel = Arc::new(Mutex::new(Queued {
        messages: VecDeque::new(),
        capacity,
        senders: 1,
        receivers: 1,
    }));
    (Sender(Arc::clone(&channel)), Receiver(channel))
}

/// Creates a channel to which no sender waits.
pub(crate) fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    bounded(usize::MAX)
}

struct Queued<T> {
    messages: VecDeque<T>,
    capacity: usize,
    senders: usize,
    receivers: usize,
}

/// Never blocks, because all threads of a schedule share one system thread.
fn locked<T>(channel: &Mutex<Queued<T>>) -> MutexGuard<'_, Queued<T>> {
    channel.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Sender<T>(Arc<Mutex<Queued<T>>>);

impl<T> Sender<T> {
    pub(crate) fn send(&self, message: T) -> Result<(), SendError<T>> {
        let mut left = Some(message);
        clock::wait_and_change(None, || match self.push(left.take()?) {
            Ok(()) => Some(((), true)),
            Err(TrySendError::Disconnected(message)) => {
                left = Some(message);
                Some(((), false))
            }
            Err(TrySendError::Full(message)) => {
                left = Some(message);
                None
            }
        });
        left.map_or(Ok(()), |message| Err(SendError(message)))
    }

    pub(crate) fn try_send(&self, message: T) -> Result<(), TrySendError<T>> {
        clock::change_perhaps(|| {
            let pushed = self.push(message);
            let changed = pushed.is_ok();
            (pushed, changed)
        })
    }

    fn push(&self, message: T) -> Result<(), TrySendError<T>> {
        let mut channel = locked(&self.0);
        if channel.receivers == 0 {
            return Err(TrySendError::Disconnected(message));
        }
        if channel.messages.len() >= channel.capacity {
            return Err(TrySendError::Full(message));
        }
        channel.messages.push_back(message);
        Ok(())
    }
}

pub(crate) struct Receiver<T>(Arc<Mutex<Queued<T>>>);

impl<T> Receiver<T> {
    pub(crate) fn recv(&self) -> Result<T, RecvError> {
        clock::wait_and_change(None, || self.poll()).unwrap_or(Err(RecvError))
    }

    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        let polled = clock::change_perhaps(|| match self.poll() {
            Some((polled, changed)) => (Some(polled), changed),
            None => (None, false),
        });
        match polled {
            Some(Ok(message)) => Ok(message),
            Some(Err(RecvError)) => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }

    pub(crate) fn recv_timeout(&self, time: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_deadline(Instant::now() + time)
    }

    pub(crate) fn recv_deadline(&self, until: Instant) -> Result<T, RecvTimeoutError> {
        match clock::wait_and_change(Some(until), || self.poll()) {
            Some(Ok(message)) => Ok(message),
            Some(Err(RecvError)) => Err(RecvTimeoutError::Disconnected),
            None => Err(RecvTimeoutError::Timeout),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        locked(&self.0).messages.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        locked(&self.0).messages.len()
    }

    pub(crate) fn try_iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.try_recv().ok())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.recv().ok())
    }

    /// Returns a message, or the disconnection, if there is one now, and whether a sender may continue.
    pub(crate) fn poll(&self) -> Option<(Result<T, RecvError>, bool)> {
        let mut channel = locked(&self.0);
        let was_full = channel.messages.len() >= channel.capacity;
        match channel.messages.pop_front() {
            Some(message) => Some((Ok(message), was_full)),
            None if channel.senders == 0 => Some((Err(RecvError), false)),
            None => None,
        }
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Box<dyn Iterator<Item = T> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        locked(&self.0).senders += 1;
        Sender(Arc::clone(&self.0))
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        locked(&self.0).receivers += 1;
        Receiver(Arc::clone(&self.0))
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        clock::change_perhaps(|| {
            let mut channel = locked(&self.0);
            channel.senders -= 1;
            ((), channel.senders == 0)
        });
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let rest = clock::change(|| {
            let mut channel = locked(&self.0);
            channel.receivers -= 1;
            // The last receiver drops the messages, which may hold senders.
            match channel.receivers {
                0 => std::mem::take(&mut channel.messages),
                _ => VecDeque::new(),
            }
        });
        drop(rest);
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sender")
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receiver")
    }
}

/// The result of one of three channels.
pub(crate) enum First<A, B, C> {
    Of1(A),
    Of2(B),
    Of3(C),
}

/// A message or the disconnection of one of three channels.
type Received<A, B, C> = First<Result<A, RecvError>, Result<B, RecvError>, Result<C, RecvError>>;

/// Waits for the first of three channels. If several are ready, picks one at random.
pub(crate) fn first<A, B, C>(
    one: &Receiver<A>,
    two: &Receiver<B>,
    three: &Receiver<C>,
    time: Option<Duration>,
) -> Option<Received<A, B, C>> {
    let until = time.map(|time| Instant::now() + time);
    clock::wait_and_change(until, || {
        let mut found = None;
        let begin = crate::scenario::random(3);
        for turn in 0..3 {
            found = found.or_else(|| match (begin + turn) % 3 {
                0 => one.poll().map(|(one, more)| (First::Of1(one), more)),
                1 => two.poll().map(|(two, more)| (First::Of2(two), more)),
                _ => three.poll().map(|(three, more)| (First::Of3(three), more)),
            });
        }
        found
    })
}

/// Creates a channel that is never ready.
pub(crate) fn never() -> Receiver<()> {
    let (sender, receiver) = bounded(1);
    std::mem::forget(sender);
    receiver
}

/// Like crossbeam's `select!`, for two or three channels, or two and a timeout.
#[macro_export]
macro_rules! select {
    (@arms [$($arms:tt)*] recv($r:expr) -> $p:pat => $b:block, $($rest:tt)*) => {
        $crate::select!(@arms [$($arms)* (($r) ($p) ($b))] $($rest)*)
    };
    (@arms [$($arms:tt)*] recv($r:expr) -> $p:pat => $b:block $($rest:tt)*) => {
        $crate::select!(@arms [$($arms)* (($r) ($p) ($b))] $($rest)*)
    };
    (@arms [$($arms:tt)*] recv($r:expr) -> $p:pat => $b:expr, $($rest:tt)*) => {
        $crate::select!(@arms [$($arms)* (($r) ($p) ($b))] $($rest)*)
    };
    (@arms [$($arms:tt)*] default($time:expr) => $b:block) => {
        $crate::select!(@of [$($arms)*] (Some($time)) ($b))
    };
    (@arms [$($arms:tt)*]) => {
        $crate::select!(@of [$($arms)*] (None) ({}))
    };
    (@of [(($r1:expr) ($p1:pat) ($b1:expr)) (($r2:expr) ($p2:pat) ($b2:expr))] ($time:expr) ($b:expr)) => {
        $crate::select!(@of
            [(($r1) ($p1) ($b1)) (($r2) ($p2) ($b2)) (($crate::sync::channel::never()) (_) ({}))]
            ($time) ($b))
    };
    (@of [(($r1:expr) ($p1:pat) ($b1:expr)) (($r2:expr) ($p2:pat) ($b2:expr))
          (($r3:expr) ($p3:pat) ($b3:expr))] ($time:expr) ($b:expr)) => {
        match $crate::sync::channel::first(&$r1, &$r2, &$r3, $time) {
            Some($crate::sync::channel::First::Of1($p1)) => $b1,
            Some($crate::sync::channel::First::Of2($p2)) => $b2,
            Some($crate::sync::channel::First::Of3($p3)) => $b3,
            None => $b,
        }
    };
    ($($arms:tt)*) => {
        $crate::select!(@arms [] $($arms)*)
    };
}
