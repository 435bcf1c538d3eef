//! The handout of work, over channels of the models.

use super::channel::{Receiver, Sender, select, unbounded};

pub(crate) fn handout<T>() -> (Giver<T>, Taker<T>) {
    let ((give, given), (give_back, returned)) = (unbounded(), unbounded());
    let taker = Taker {
        given,
        give_back,
        returned,
    };
    (Giver(give), taker)
}

pub(crate) struct Giver<T>(Sender<T>);

impl<T> Giver<T> {
    pub(crate) fn give(&self, one: T) {
        // Nobody may be left who takes it.
        _ = self.0.send(one);
    }
}

pub(crate) struct Taker<T> {
    given: Receiver<T>,
    give_back: Sender<T>,
    returned: Receiver<T>,
}

impl<T> Taker<T> {
    pub(crate) fn take(&self) -> Option<T> {
        let mut taken = self.try_take();
        if taken.is_none() {
            select! {
                recv(self.given) -> one => taken = one.ok(),
                recv(self.returned) -> one => taken = one.ok(),
            }
        }
        taken.or_else(|| self.try_take())
    }

    pub(crate) fn try_take(&self) -> Option<T> {
        let returned = self.returned.try_recv();
        returned.or_else(|_| self.given.try_recv()).ok()
    }

    pub(crate) fn give_back(&self, all: impl DoubleEndedIterator<Item = T>) {
        // Its receiver is kept beside it.
        all.for_each(|one| _ = self.give_back.send(one));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.given.is_empty() && self.returned.is_empty()
    }
}

impl<T> Clone for Giver<T> {
    fn clone(&self) -> Giver<T> {
        Giver(self.0.clone())
    }
}
