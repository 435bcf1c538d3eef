//! Hands out work to many threads that wait for it.
//!
//! A thread that finds none sleeps at once. At a channel, each of them would spin first: hundreds of waiting
//! slots took a third of the processors that way.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::lock;

/// Returns where work is given and taken.
pub(crate) fn handout<T>() -> (Giver<T>, Taker<T>) {
    let desk = Arc::new(Desk {
        work: Mutex::new(Work {
            waiting: VecDeque::new(),
            givers: 1,
        }),
        changed: Condvar::new(),
    });
    (Giver(Arc::clone(&desk)), Taker(desk))
}

struct Desk<T> {
    work: Mutex<Work<T>>,
    changed: Condvar,
}

struct Work<T> {
    waiting: VecDeque<T>,
    givers: usize,
}

pub(crate) struct Giver<T>(Arc<Desk<T>>);

impl<T> Giver<T> {
    /// Gives work to one taker.
    pub(crate) fn give(&self, one: T) {
        lock(&self.0.work).waiting.push_back(one);
        self.0.changed.notify_one();
    }
}

pub(crate) struct Taker<T>(Arc<Desk<T>>);

impl<T> Taker<T> {
    /// Waits for work. `None`: no giver is left.
    pub(crate) fn take(&self) -> Option<T> {
        let is_idle = |work: &mut Work<T>| work.waiting.is_empty() && work.givers > 0;
        let woken = self.0.changed.wait_while(lock(&self.0.work), is_idle);
        let mut work = woken.unwrap_or_else(PoisonError::into_inner);
        work.waiting.pop_front()
    }

    pub(crate) fn try_take(&self) -> Option<T> {
        lock(&self.0.work).waiting.pop_front()
    }

    /// Returns work for others to take, before all that waits.
    pub(crate) fn give_back(&self, all: impl DoubleEndedIterator<Item = T>) {
        let mut work = lock(&self.0.work);
        for one in all.rev() {
            work.waiting.push_front(one);
            self.0.changed.notify_one();
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0.work).waiting.is_empty()
    }
}

impl<T> Clone for Giver<T> {
    fn clone(&self) -> Giver<T> {
        lock(&self.0.work).givers += 1;
        Giver(Arc::clone(&self.0))
    }
}

impl<T> Drop for Giver<T> {
    fn drop(&mut self) {
        lock(&self.0.work).givers -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returned_work_comes_first_and_the_end_last() {
        let (giver, taker) = handout();
        assert!(taker.is_empty() && taker.try_take().is_none());
        giver.give(1);
        giver.give(2);
        taker.give_back([3, 4].into_iter());
        assert!(!taker.is_empty());
        drop(giver);
        taker.give_back([5].into_iter());
        let all: Vec<i32> = std::iter::from_fn(|| taker.take()).collect();
        assert_eq!(all, [5, 3, 4, 1, 2]);
    }
}
