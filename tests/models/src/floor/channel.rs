//! Bounded channels with the names and the manners of crossbeam's, as far as a worker uses them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::clock::{self, Effect, Instant};

pub(crate) use crate::select;

/// A channel for this many.
pub(crate) fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let pipe = Arc::new(Mutex::new(Pipe {
        things: VecDeque::new(),
        capacity,
        senders: 1,
        receivers: 1,
        at: None,
    }));
    (Sender(Arc::clone(&pipe)), Receiver(pipe))
}

/// A channel that has something when this much time has passed.
pub(crate) fn after(time: Duration) -> Receiver<()> {
    let (sender, receiver) = bounded(1);
    locked(&sender.0).at = Some(Instant::now() + time);
    // So that it is not without senders.
    std::mem::forget(sender);
    receiver
}

struct Pipe<T> {
    things: VecDeque<T>,
    capacity: usize,
    senders: usize,
    receivers: usize,
    /// Of a timer: when.
    at: Option<Instant>,
}

/// All threads of an execution are one of the system's: this never waits.
fn locked<T>(pipe: &Mutex<Pipe<T>>) -> MutexGuard<'_, Pipe<T>> {
    pipe.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Sender<T>(Arc<Mutex<Pipe<T>>>);

impl<T> Sender<T> {
    pub(crate) fn send(&self, thing: T) -> Result<(), SendError<T>> {
        match self.offer(thing, None) {
            Ok(()) => Ok(()),
            Err(SendTimeoutError::Timeout(thing) | SendTimeoutError::Disconnected(thing)) => {
                Err(SendError(thing))
            }
        }
    }

    pub(crate) fn send_timeout(&self, thing: T, time: Duration) -> Result<(), SendTimeoutError<T>> {
        self.offer(thing, Some(Instant::now() + time))
    }

    pub(crate) fn try_send(&self, thing: T) -> Result<(), TrySendError<T>> {
        clock::change_perhaps(|| {
            let pushed = self.push(thing);
            let effect = match pushed {
                Ok(()) => Effect::Some,
                Err(_) => Effect::None,
            };
            (pushed, effect)
        })
    }

    fn offer(&self, thing: T, until: Option<Instant>) -> Result<(), SendTimeoutError<T>> {
        let mut left = Some(thing);
        let sent = clock::wait_and_change(until, || match self.push(left.take()?) {
            Ok(()) => Some((true, Effect::Some)),
            Err(TrySendError::Disconnected(thing)) => {
                left = Some(thing);
                Some((false, Effect::None))
            }
            Err(TrySendError::Full(thing)) => {
                left = Some(thing);
                None
            }
        });
        match (sent, left) {
            (Some(false), Some(thing)) => Err(SendTimeoutError::Disconnected(thing)),
            (None, Some(thing)) => Err(SendTimeoutError::Timeout(thing)),
            (_, None) | (Some(true), _) => Ok(()),
        }
    }

    fn push(&self, thing: T) -> Result<(), TrySendError<T>> {
        let mut pipe = locked(&self.0);
        if pipe.receivers == 0 {
            return Err(TrySendError::Disconnected(thing));
        }
        if pipe.things.len() >= pipe.capacity {
            return Err(TrySendError::Full(thing));
        }
        pipe.things.push_back(thing);
        Ok(())
    }
}

pub(crate) struct Receiver<T>(Arc<Mutex<Pipe<T>>>);

impl<T> Receiver<T> {
    pub(crate) fn recv(&self) -> Result<T, RecvError> {
        clock::wait_and_change(None, || self.poll()).unwrap_or(Err(RecvError))
    }

    pub(crate) fn try_recv(&self) -> Result<T, TryRecvError> {
        let polled = clock::change_perhaps(|| match self.poll() {
            Some((polled, effect)) => (Some(polled), effect),
            None => (None, Effect::None),
        });
        match polled {
            Some(Ok(thing)) => Ok(thing),
            Some(Err(RecvError)) => Err(TryRecvError::Disconnected),
            None => Err(TryRecvError::Empty),
        }
    }

    pub(crate) fn recv_timeout(&self, time: Duration) -> Result<T, RecvTimeoutError> {
        self.recv_deadline(Instant::now() + time)
    }

    pub(crate) fn recv_deadline(&self, until: Instant) -> Result<T, RecvTimeoutError> {
        match clock::wait_and_change(Some(until), || self.poll()) {
            Some(Ok(thing)) => Ok(thing),
            Some(Err(RecvError)) => Err(RecvTimeoutError::Disconnected),
            None => Err(RecvTimeoutError::Timeout),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        locked(&self.0).things.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        locked(&self.0).things.len()
    }

    pub(crate) fn try_iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.try_recv().ok())
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = T> {
        std::iter::from_fn(|| self.recv().ok())
    }

    /// What there is at this moment: something, or the end.
    pub(crate) fn poll(&self) -> Option<(Result<T, RecvError>, Effect)> {
        let mut pipe = locked(&self.0);
        let was_full = pipe.things.len() >= pipe.capacity;
        match pipe.things.pop_front() {
            Some(thing) if was_full => Some((Ok(thing), Effect::Some)),
            Some(thing) => Some((Ok(thing), Effect::None)),
            // Of a timer nobody looks at what it sends.
            None if pipe.at.is_some_and(|at| at <= Instant::now()) => {
                Some((Err(RecvError), Effect::None))
            }
            None if pipe.senders == 0 => Some((Err(RecvError), Effect::None)),
            None => None,
        }
    }

    /// When it has something by itself.
    pub(crate) fn at(&self) -> Option<Instant> {
        locked(&self.0).at
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
            let mut pipe = locked(&self.0);
            pipe.senders -= 1;
            let effect = match pipe.senders {
                0 => Effect::Some,
                _ => Effect::None,
            };
            ((), effect)
        });
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let rest = clock::change(|| {
            let mut pipe = locked(&self.0);
            pipe.receivers -= 1;
            // With its last receiver, what is in it goes, too: it may hold senders.
            match pipe.receivers {
                0 => std::mem::take(&mut pipe.things),
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendError<T>(pub(crate) T);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrySendError<T> {
    Full(T),
    Disconnected(T),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendTimeoutError<T> {
    Timeout(T),
    Disconnected(T),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecvError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TryRecvError {
    Empty,
    Disconnected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecvTimeoutError {
    Timeout,
    Disconnected,
}

/// What one of up to three channels had.
pub(crate) enum First<A, B, C> {
    Of1(A),
    Of2(B),
    Of3(C),
}

/// What it was, or that it ended.
type Received<A, B, C> = First<Result<A, RecvError>, Result<B, RecvError>, Result<C, RecvError>>;

/// Waits for the first of three channels; when several have something, for any of them.
pub(crate) fn first<A, B, C>(
    one: &Receiver<A>,
    two: &Receiver<B>,
    three: &Receiver<C>,
    time: Option<Duration>,
) -> Option<Received<A, B, C>> {
    let timers = [one.at(), two.at(), three.at()];
    let until = timers
        .into_iter()
        .flatten()
        .chain(time.map(|time| Instant::now() + time))
        .min();
    let mut look = || {
        let mut found = None;
        let begin = crate::scene::random(3);
        for turn in 0..3 {
            found = found.or_else(|| match (begin + turn) % 3 {
                0 => one.poll().map(|(one, effect)| (First::Of1(one), effect)),
                1 => two.poll().map(|(two, effect)| (First::Of2(two), effect)),
                _ => three
                    .poll()
                    .map(|(three, effect)| (First::Of3(three), effect)),
            });
        }
        found
    };
    // A timer that is over has something.
    clock::wait_and_change(until, &mut look).or_else(|| look().map(|(first, _)| first))
}

/// A channel that never has anything.
pub(crate) fn never() -> Receiver<()> {
    let (sender, receiver) = bounded(1);
    std::mem::forget(sender);
    receiver
}

/// As crossbeam's, for two or three channels, or two and a default after some time.
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
            [(($r1) ($p1) ($b1)) (($r2) ($p2) ($b2)) (($crate::floor::channel::never()) (_) ({}))]
            ($time) ($b))
    };
    (@of [(($r1:expr) ($p1:pat) ($b1:expr)) (($r2:expr) ($p2:pat) ($b2:expr))
          (($r3:expr) ($p3:pat) ($b3:expr))] ($time:expr) ($b:expr)) => {
        match $crate::floor::channel::first(&$r1, &$r2, &$r3, $time) {
            Some($crate::floor::channel::First::Of1($p1)) => $b1,
            Some($crate::floor::channel::First::Of2($p2)) => $b2,
            Some($crate::floor::channel::First::Of3($p3)) => $b3,
            None => $b,
        }
    };
    ($($arms:tt)*) => {
        $crate::select!(@arms [] $($arms)*)
    };
}
