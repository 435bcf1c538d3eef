//! The visitors: who is here, how far they are, and who has to leave when there are too many.

use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How far a visitor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Has the answer, and has not gone yet.
    Leaving,
    /// Has not said yet what it wants.
    Asking,
    /// Is given the answer.
    Hearing,
    /// Waits for the answer.
    Waiting,
}

/// Everybody who is here.
#[derive(Debug)]
pub(crate) struct Visitors {
    most: usize,
    /// How long nobody is shown out who has just come, has just asked or has just been answered.
    patience: Duration,
    rooms: Mutex<Rooms>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Rooms {
    /// In the order in which they came.
    visitors: Vec<Visitor>,
    names: u64,
    /// Those who were shown out and are not gone yet.
    shown_out: usize,
}

#[derive(Debug)]
struct Visitor {
    name: u64,
    phase: Phase,
    /// Since when it is that far.
    since: Instant,
    is_shown_out: bool,
    stream: Arc<TcpStream>,
}

impl Visitors {
    /// Room for this many. When it is full, who stays where it is for longer than `patience` may
    /// have to leave.
    pub(crate) fn new(most: usize, patience: Duration) -> Arc<Visitors> {
        Arc::new(Visitors {
            most,
            patience,
            rooms: Mutex::default(),
            left: Condvar::new(),
        })
    }

    /// Lets somebody in; when that is one too many, somebody else is shown out. It may wait for a
    /// moment, for somebody to leave or to have dawdled for long enough.
    pub(crate) fn enter(self: &Arc<Visitors>, stream: TcpStream) -> Pass {
        let stream = Arc::new(stream);
        let mut rooms = self.rooms();
        while rooms.visitors.len() - rooms.shown_out >= self.most {
            let Some(at) = rooms.most_in_the_way() else {
                break;
            };
            let left = self
                .patience
                .saturating_sub(rooms.visitors[at].since.elapsed());
            if left.is_zero() {
                rooms.show_out(at);
            } else {
                rooms = self
                    .left
                    .wait_timeout(rooms, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
        }
        rooms.names += 1;
        let name = rooms.names;
        rooms.visitors.push(Visitor {
            name,
            phase: Phase::Asking,
            since: Instant::now(),
            is_shown_out: false,
            stream: Arc::clone(&stream),
        });
        drop(rooms);
        Pass {
            visitors: Arc::clone(self),
            name,
            stream,
        }
    }

    /// Shows out whoever is in the way most; for when descriptors are used up.
    pub(crate) fn make_room(&self) {
        let mut rooms = self.rooms();
        if let Some(at) = rooms.most_in_the_way() {
            rooms.show_out(at);
        }
    }

    /// Waits until those who were shown out are few, so that a flood cannot outrun their end.
    pub(crate) fn wait_for_room(&self, patience: Duration) {
        self.wait(patience, |rooms| rooms.shown_out * 4 <= self.most);
    }

    /// Shows out who has not asked yet, or has the answer, and waits for the answers of the others.
    /// Whether all are gone.
    pub(crate) fn close(&self, patience: Duration) -> bool {
        let mut rooms = self.rooms();
        for visitor in &mut rooms.visitors {
            if matches!(visitor.phase, Phase::Leaving | Phase::Asking) {
                visitor.show_out();
            }
        }
        drop(rooms);
        self.wait(patience, |rooms| rooms.visitors.is_empty())
    }

    fn wait(&self, patience: Duration, enough: impl Fn(&Rooms) -> bool) -> bool {
        let end = Instant::now() + patience;
        let mut rooms = self.rooms();
        while !enough(&rooms) {
            let Some(left) = end.checked_duration_since(Instant::now()) else {
                return false;
            };
            rooms = self
                .left
                .wait_timeout(rooms, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    fn rooms(&self) -> MutexGuard<'_, Rooms> {
        // Every change is one step: what is there is right after a panic, too.
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rooms {
    /// Who has the answer goes first, then who has not asked, then who is slow to hear; the one who
    /// came first among them. Those who wait go last: they would not be gone before their answer.
    fn most_in_the_way(&self) -> Option<usize> {
        let here = self.visitors.iter().enumerate();
        // The first of the least: `min_by_key` keeps the order in which they came.
        here.filter(|(_, visitor)| !visitor.is_shown_out)
            .min_by_key(|(_, visitor)| visitor.phase)
            .map(|(at, _)| at)
    }

    fn show_out(&mut self, at: usize) {
        if let Some(visitor) = self.visitors.get_mut(at) {
            visitor.show_out();
            self.shown_out += 1;
        }
    }
}

impl Visitor {
    /// Ends its connection under the hands of whoever reads or writes there.
    fn show_out(&mut self) {
        self.is_shown_out = true;
        // It may be gone already.
        _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// A visitor's place, for as long as it is here.
#[derive(Debug)]
pub(crate) struct Pass {
    visitors: Arc<Visitors>,
    name: u64,
    stream: Arc<TcpStream>,
}

impl Pass {
    /// Its connection.
    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Says how far it is.
    pub(crate) fn is_now(&self, phase: Phase) {
        let mut rooms = self.visitors.rooms();
        if let Some(visitor) = rooms
            .visitors
            .iter_mut()
            .find(|visitor| visitor.name == self.name)
        {
            visitor.phase = phase;
            visitor.since = Instant::now();
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut rooms = self.visitors.rooms();
        if let Some(at) = rooms
            .visitors
            .iter()
            .position(|visitor| visitor.name == self.name)
        {
            let visitor = rooms.visitors.remove(at);
            if visitor.is_shown_out {
                rooms.shown_out = rooms.shown_out.saturating_sub(1);
            }
        }
        drop(rooms);
        self.visitors.left.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;

    struct Street(TcpListener);

    impl Street {
        fn new() -> Street {
            Street(TcpListener::bind("127.0.0.1:0").expect("a port"))
        }

        /// Somebody comes: both ends of the connection.
        fn comes(&self, visitors: &Arc<Visitors>) -> (Pass, TcpStream) {
            let address = self.0.local_addr().expect("an address");
            let far = TcpStream::connect(address).expect("it connects");
            let (near, _) = self.0.accept().expect("it is accepted");
            (visitors.enter(near), far)
        }
    }

    /// Whether the connection was ended on our side; it does not wait.
    fn is_out(pass: &Pass) -> bool {
        pass.stream().set_nonblocking(true).expect("it can");
        matches!(pass.stream().read(&mut [0]), Ok(0))
    }

    #[test]
    fn when_there_are_too_many_who_dawdles_has_to_leave() {
        let (street, visitors) = (Street::new(), Visitors::new(3, Duration::ZERO));
        let (waiting, _far_1) = street.comes(&visitors);
        waiting.is_now(Phase::Waiting);
        let (first, _far_2) = street.comes(&visitors);
        let (second, _far_3) = street.comes(&visitors);
        assert!(!is_out(&first), "there is room for three");

        let (third, _far_4) = street.comes(&visitors);
        assert!(is_out(&first) && !is_out(&second), "the one who came first");
        third.is_now(Phase::Leaving);
        let (fourth, _far_5) = street.comes(&visitors);
        assert!(is_out(&third) && !is_out(&second), "who has the answer");
        assert!(!is_out(&waiting) && !is_out(&fourth));

        second.is_now(Phase::Waiting);
        fourth.is_now(Phase::Hearing);
        let (fifth, _far_6) = street.comes(&visitors);
        assert!(is_out(&fourth) && !is_out(&waiting), "who is slow to hear");
        fifth.is_now(Phase::Waiting);
        let (_sixth, _far_7) = street.comes(&visitors);
        assert!(
            is_out(&waiting) && !is_out(&second),
            "who waits for longest"
        );
    }

    #[test]
    fn who_has_just_come_is_given_a_moment() {
        let (street, visitors) = (Street::new(), Visitors::new(1, Duration::from_mins(1)));
        let (first, _far_1) = street.comes(&visitors);
        let leaves = std::thread::spawn(move || drop(first));
        // It comes in because the first one leaves, not because a minute is over.
        let begin = Instant::now();
        let (second, _far_2) = street.comes(&visitors);
        assert!(!is_out(&second) && begin.elapsed() < Duration::from_secs(50));
        leaves.join().expect("it left");
    }

    #[test]
    fn a_close_waits_for_those_who_are_served() {
        let (street, visitors) = (Street::new(), Visitors::new(3, Duration::ZERO));
        let (asking, _far_1) = street.comes(&visitors);
        let (served, _far_2) = street.comes(&visitors);
        served.is_now(Phase::Waiting);
        assert!(!visitors.close(Duration::ZERO), "two are here");
        assert!(is_out(&asking) && !is_out(&served));
        drop(asking);
        assert!(!visitors.close(Duration::ZERO), "one is here");
        drop(served);
        assert!(visitors.close(Duration::ZERO));
    }
}
