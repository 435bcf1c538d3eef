//! The collector: one reading of the database at a time, shared by everybody who asks, and an
//! answer by the deadline, whatever the database does.
//!
//! The connection belongs to a [hand](hand): a thread that waits for [flights](flights). Nobody
//! else touches it, because the driver waits for as long as a server says nothing while its side of
//! the network acknowledges what we send. A hand that is not back in time is left alone with its
//! connection; whatever it brings later is thrown away. It ends by itself when the server answers or
//! its connection breaks: keepalives and the limit of unacknowledged data see to it when the network
//! is gone, `statement_timeout` and `idle_in_transaction_session_timeout` on the server. It is not
//! cancelled: a server that says nothing would not say anything to a request to cancel either, and
//! that would be one more connection.

mod flights;
mod hand;
mod page;
mod pause;

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use redrive::metrics::{Reader, Reading};

use self::flights::{Flight, Flights, Hand, Task};
use crate::source::Source;

pub(crate) use self::page::Page;

/// How long ago the database may have been seen by an exporter that is ready.
const RECENT: Duration = Duration::from_secs(30);
/// After this long without a look, who asks whether we are ready makes us look.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// How long that look may take.
const LOOK: Duration = Duration::from_secs(2);

/// Reads the database for whoever asks.
#[derive(Debug)]
pub(crate) struct Collector {
    shared: Arc<Shared>,
    most_waiting: usize,
}

/// Whether this exporter has something new to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// The database was seen lately and its schema is known.
    Ready,
    /// It was not seen for too long, or never.
    NotSeen,
    /// Its schema is not there yet, or is not one that we know.
    Unknown,
}

impl Collector {
    /// Begins to connect. It does not matter whether the database is there.
    ///
    /// When so many wait already, who comes is given the last answer instead of a new one: they
    /// would fill the exporter, and nobody else would come in.
    pub(crate) fn start(source: Source, most_waiting: usize) -> Collector {
        let reader = Reader::new(env!("CARGO_PKG_VERSION"));
        let shared = Arc::new(Shared {
            source,
            state: Mutex::new(State::new(reader)),
            changed: Condvar::new(),
        });
        shared.hire(&mut shared.state());
        Collector {
            shared,
            most_waiting,
        }
    }

    /// The metrics: new ones, or within the limit the last good ones with `redrive_up` 0.
    pub(crate) fn scrape(&self, limit: Duration) -> Page {
        let end = Instant::now() + limit;
        let mut state = self.shared.state();
        if state.waiting >= self.most_waiting {
            return state.page.clone();
        }
        state.waiting += 1;
        let (mut state, has_landed) = self.shared.wait(state, end);
        state.waiting -= 1;
        match has_landed {
            true => state.page.clone(),
            false => state.stale(),
        }
    }

    /// Whether the database was seen lately. Looks when that is not known.
    pub(crate) fn readiness(&self) -> Readiness {
        let is_fresh = |state: &State| state.seen.is_some_and(|seen| seen.elapsed() < LOOK_AGAIN);
        if !is_fresh(&self.shared.state()) {
            self.scrape(LOOK);
        }
        let state = self.shared.state();
        match state.seen {
            Some(seen) if seen.elapsed() < RECENT => match state.is_known {
                true => Readiness::Ready,
                false => Readiness::Unknown,
            },
            _ => Readiness::NotSeen,
        }
    }

    /// Closes the connection. Whether that was possible within the time.
    pub(crate) fn stop(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        let mut state = self.shared.state();
        state.flights.close();
        self.shared.changed.notify_all();
        while state.flights.hands() > 0 {
            let Some(left) = end.checked_duration_since(Instant::now()) else {
                return false;
            };
            state = self
                .shared
                .changed
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }
}

/// What those who ask and those who read share.
#[derive(Debug)]
struct Shared {
    source: Source,
    state: Mutex<State>,
    /// A flight was asked for, has landed or was given up; a hand has gone.
    changed: Condvar,
}

/// What is known.
#[derive(Debug)]
struct State {
    flights: Flights,
    /// How many wait for an answer.
    waiting: usize,
    /// As the last flight that counts left it: a hand works on a copy.
    reader: Reader,
    /// The answer of the last flight.
    page: Page,
    /// The last good values as an answer without the database; made when it is needed.
    stale: Option<Page>,
    /// When the database answered last.
    seen: Option<Instant>,
    /// Whether its schema was one that we know.
    is_known: bool,
    /// Whether it was said that the database says nothing.
    is_told: bool,
}

impl State {
    fn new(mut reader: Reader) -> State {
        let page = Page::of(&reader.unreachable().families);
        State {
            flights: Flights::default(),
            waiting: 0,
            reader,
            page,
            stale: None,
            seen: None,
            is_known: false,
            is_told: false,
        }
    }

    /// The last good values, without the database.
    fn stale(&mut self) -> Page {
        let reader = &mut self.reader;
        self.stale
            .get_or_insert_with(|| Page::of(&reader.unreachable().families))
            .clone()
    }

    /// A flight was given up.
    fn say_silent(&mut self) {
        self.page = self.stale();
        if !self.is_told {
            log::warn!("the database did not answer in time; the last good values are published");
            self.is_told = true;
        }
    }

    /// A flight that counts brings these.
    fn publish(&mut self, reader: Reader, reading: &Reading, page: Page) {
        self.reader = reader;
        self.page = page;
        self.stale = None;
        if reading.is_connected {
            self.seen = Some(Instant::now());
            self.is_known = reading.is_ready();
            if self.is_told {
                log::info!("the database answers again");
            }
            self.is_told = false;
        }
    }
}

/// What a hand is told to do next.
#[derive(Debug)]
enum Next {
    /// Read, with this.
    Fly(Flight, Box<Reader>),
    /// Nobody asked for that long.
    Idle,
    /// End.
    Leave,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change is one step: what is there is right after a panic, too.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a hand when one is missing.
    fn hire(self: &Arc<Shared>, state: &mut State) {
        let Some(hand) = state.flights.hire() else {
            return;
        };
        let shared = Arc::clone(self);
        let started = thread::Builder::new()
            .name("collector".to_owned())
            .spawn(move || hand::serve(&shared, hand));
        if let Err(error) = started {
            log::warn!("could not start a thread to read the database: {error}");
            state.flights.gone(hand);
        }
    }

    /// Waits for a reading that begins after this call, or shares one; whether it came before `end`.
    fn wait<'a>(
        self: &'a Arc<Shared>,
        mut state: MutexGuard<'a, State>,
        end: Instant,
    ) -> (MutexGuard<'a, State>, bool) {
        loop {
            let now = Instant::now();
            if state.flights.give_up(now) {
                state.say_silent();
            }
            if now >= end {
                return (state, false);
            }
            let flight = state.flights.join(now, end - now);
            self.hire(&mut state);
            self.changed.notify_all();
            while !state.flights.is_over(flight) {
                let until = flight.deadline.min(end);
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                state = self
                    .changed
                    .wait_timeout(state, left)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0;
            }
            // One that was given up is followed by another one, if there is time.
            if state.flights.has_landed(flight) {
                return (state, true);
            }
        }
    }

    /// What a hand has to do; waits for it, for as long as the limit says.
    fn next(&self, hand: Hand, limit: Option<Duration>) -> Next {
        let end = limit.map(|limit| Instant::now() + limit);
        let mut state = self.state();
        loop {
            match state.flights.task(hand) {
                Task::Fly(flight) => return Next::Fly(flight, Box::new(state.reader.clone())),
                Task::Leave => return Next::Leave,
                Task::Wait => {}
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            state = match left {
                Some(Duration::ZERO) => return Next::Idle,
                Some(left) => {
                    self.changed
                        .wait_timeout(state, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0
                }
                None => self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// A hand is back from a flight.
    fn land(&self, hand: Hand, flight: Flight, reader: Reader, reading: &Reading) {
        let page = Page::of(&reading.families);
        let mut state = self.state();
        if state.flights.land(hand, flight) {
            state.publish(reader, reading, page);
        } else {
            log::debug!("a reading came too late and is thrown away");
        }
        drop(state);
        self.changed.notify_all();
    }

    /// A hand has ended.
    fn gone(&self, hand: Hand) {
        self.state().flights.gone(hand);
        self.changed.notify_all();
    }
}
