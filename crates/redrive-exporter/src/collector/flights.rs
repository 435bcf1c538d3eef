//! Flights: who reads the database, for whom, until when. Pure: no clock, no threads, no database.
//!
//! A *flight* is one reading that all scrapes share which come before it has landed. A *hand* is a
//! thread with a connection of its own. One hand at a time holds the pen: only its readings count.
//! A hand that does not land in time loses the pen, and there may be one more hand besides; when
//! that one loses it as well, nobody reads until one of the two is free again. So there are never
//! more than two connections, whatever the server does to them.
//!
//! How long a flight may take does not depend on the hurry of who asked for it: somebody who waits
//! for a tenth of a second must not cost the others their connection.

use std::time::{Duration, Instant};

/// What a reading has at least, so that who is in a hurry does not spoil it for the others.
const LEAST_TO_READ: Duration = Duration::from_secs(1);
/// What a flight has at least before its hand is taken for stuck.
const LEAST_TO_LAND: Duration = Duration::from_secs(5);

/// The most hands that there may be: the one that holds the pen, and one that lost it.
const MOST_HANDS: usize = 2;

/// The number of a hand.
pub(super) type Hand = u64;

/// One reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Flight {
    /// Its number, from 1.
    pub(super) number: u64,
    /// Until when it should have read what it can.
    pub(super) read_until: Instant,
    /// Until when it has to land.
    pub(super) deadline: Instant,
}

/// What a hand that is free has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Read.
    Fly(Flight),
    /// Nobody asks.
    Wait,
    /// Another one holds the pen: close the connection and end.
    Leave,
}

/// The state of it all.
#[derive(Debug, Default)]
pub(super) struct Flights {
    /// The flight that was asked for and has not landed.
    current: Option<Flight>,
    /// Whether a hand is at it.
    is_taken: bool,
    /// The number of the last one that was asked for.
    asked: u64,
    /// The number of the last one that is over.
    over: u64,
    /// The number of the last one that has landed; the others that are over were given up.
    landed: u64,
    /// Who holds the pen.
    holder: Option<Hand>,
    /// Hands that are there, with the pen or without.
    hands: usize,
    /// The number of the last hand.
    named: Hand,
    is_closing: bool,
}

impl Flights {
    /// The flight that somebody shares who asks now and waits for so long: the one under way, or a
    /// new one.
    pub(super) fn join(&mut self, now: Instant, limit: Duration) -> Flight {
        self.give_up(now);
        *self.current.get_or_insert_with(|| {
            self.asked += 1;
            self.is_taken = false;
            Flight {
                number: self.asked,
                read_until: now + limit.max(LEAST_TO_READ),
                deadline: now + limit.max(LEAST_TO_LAND),
            }
        })
    }

    /// Whether the flight has landed or was given up.
    pub(super) fn is_over(&self, flight: Flight) -> bool {
        self.over >= flight.number
    }

    /// Whether it, or a later one, has landed.
    pub(super) fn has_landed(&self, flight: Flight) -> bool {
        self.landed >= flight.number
    }

    /// A hand to start now: when nobody holds the pen and there may be one more.
    pub(super) fn hire(&mut self) -> Option<Hand> {
        if self.holder.is_some() || self.hands >= MOST_HANDS || self.is_closing {
            return None;
        }
        self.named += 1;
        self.hands += 1;
        self.holder = Some(self.named);
        self.holder
    }

    /// What a hand has to do. One that lost the pen takes it up again when nobody holds it.
    pub(super) fn task(&mut self, hand: Hand) -> Task {
        if self.is_closing || *self.holder.get_or_insert(hand) != hand {
            return Task::Leave;
        }
        match self.current {
            Some(flight) if !self.is_taken => {
                self.is_taken = true;
                Task::Fly(flight)
            }
            _ => Task::Wait,
        }
    }

    /// A hand is back from a flight; whether what it brings counts.
    pub(super) fn land(&mut self, hand: Hand, flight: Flight) -> bool {
        let counts = self.holder == Some(hand) && self.current == Some(flight);
        if counts {
            self.landed = flight.number;
            self.end(flight);
        }
        counts
    }

    /// Gives up the flight under way if it is too late, and takes the pen from whoever is at it.
    /// Whether it was this call that did.
    pub(super) fn give_up(&mut self, now: Instant) -> bool {
        let Some(flight) = self.current.filter(|flight| now >= flight.deadline) else {
            return false;
        };
        self.holder = None;
        self.end(flight);
        true
    }

    /// A hand has ended and its connection is closed.
    pub(super) fn gone(&mut self, hand: Hand) {
        self.hands = self.hands.saturating_sub(1);
        if self.holder == Some(hand) {
            self.holder = None;
            // Whoever comes next takes its flight up.
            self.is_taken = false;
        }
    }

    /// From now on every hand that is free leaves.
    pub(super) fn close(&mut self) {
        self.is_closing = true;
    }

    /// How many hands there are.
    pub(super) fn hands(&self) -> usize {
        self.hands
    }

    fn end(&mut self, flight: Flight) {
        self.over = flight.number;
        self.current = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::*;

    /// Moments, by seconds.
    fn at(seconds: u64) -> Instant {
        static BEGIN: OnceLock<Instant> = OnceLock::new();
        *BEGIN.get_or_init(Instant::now) + Duration::from_secs(seconds)
    }

    const SIX: Duration = Duration::from_secs(6);

    #[test]
    fn scrapes_that_come_before_it_lands_share_a_flight() {
        let mut flights = Flights::default();
        let hand = flights.hire().expect("nobody holds the pen");
        assert_eq!(flights.hire(), None, "one is enough");
        assert_eq!(flights.task(hand), Task::Wait);
        let first = flights.join(at(0), SIX);
        assert_eq!(flights.join(at(1), SIX), first, "shared before it begins");
        assert_eq!(flights.task(hand), Task::Fly(first));
        assert_eq!(
            flights.join(at(2), SIX),
            first,
            "shared while it is under way"
        );
        assert_eq!(flights.task(hand), Task::Wait, "it is taken");
        assert!(!flights.is_over(first) && !flights.has_landed(first));
        assert!(flights.land(hand, first));
        assert!(flights.is_over(first) && flights.has_landed(first));
        let second = flights.join(at(2), SIX);
        assert_ne!(second, first, "what has landed is not new any more");
        assert!(!flights.is_over(second));
        assert_eq!(flights.task(hand), Task::Fly(second));
    }

    #[test]
    fn who_is_in_a_hurry_does_not_cost_the_others_their_connection() {
        let mut flights = Flights::default();
        let hurried = flights.join(at(0), Duration::from_millis(100));
        assert_eq!((hurried.read_until, hurried.deadline), (at(1), at(5)));
        assert!(!flights.give_up(at(4)));
        assert_eq!(flights.join(at(4), SIX), hurried);
        let mut flights = Flights::default();
        let patient = flights.join(at(0), SIX);
        assert_eq!((patient.read_until, patient.deadline), (at(6), at(6)));
    }

    #[test]
    fn a_hand_that_is_too_late_loses_the_pen_and_its_result() {
        let mut flights = Flights::default();
        let stuck = flights.hire().expect("the first");
        let flight = flights.join(at(0), SIX);
        assert_eq!(flights.task(stuck), Task::Fly(flight));
        assert!(!flights.give_up(at(5)), "there is time");
        assert!(flights.give_up(at(6)) && flights.is_over(flight));
        assert!(!flights.give_up(at(6)), "once");
        assert!(!flights.has_landed(flight));

        let other = flights.hire().expect("there may be two");
        let next = flights.join(at(7), SIX);
        assert!(!flights.land(stuck, flight), "late");
        assert!(!flights.land(stuck, next), "not its own");
        assert_eq!(flights.task(stuck), Task::Leave);
        assert_eq!(flights.task(other), Task::Fly(next));
        flights.gone(stuck);
        assert!(flights.land(other, next));
        assert_eq!(flights.hands(), 1);
    }

    #[test]
    fn who_asks_when_a_flight_is_overdue_gets_a_new_one() {
        let mut flights = Flights::default();
        let stuck = flights.hire().expect("the first");
        let flight = flights.join(at(0), SIX);
        assert_eq!(flights.task(stuck), Task::Fly(flight));
        let next = flights.join(at(60), SIX);
        assert!(flights.is_over(flight) && next != flight);
        let other = flights.hire().expect("a successor");
        assert_eq!(flights.task(other), Task::Fly(next));
    }

    #[test]
    fn there_are_never_more_than_two_and_the_first_that_is_free_goes_on() {
        let mut flights = Flights::default();
        let mut hands = Vec::new();
        for minute in 1..=4 {
            let flight = flights.join(at(60 * minute), SIX);
            if let Some(hand) = flights.hire() {
                assert_eq!(flights.task(hand), Task::Fly(flight));
                hands.push(hand);
            }
        }
        let [one, two] = *hands else {
            panic!("{hands:?}")
        };
        let flight = flights.join(at(300), SIX);
        assert!(!flights.land(two, flight), "it does not know of this one");
        assert_eq!(flights.task(two), Task::Fly(flight), "it takes up the pen");
        assert_eq!(flights.task(one), Task::Leave);
        assert!(flights.land(two, flight));
    }

    #[test]
    fn a_hand_that_ends_leaves_its_flight_to_the_next() {
        let mut flights = Flights::default();
        let one = flights.hire().expect("the first");
        let flight = flights.join(at(0), SIX);
        assert_eq!(flights.task(one), Task::Fly(flight));
        flights.gone(one);
        let two = flights.hire().expect("the next");
        assert_eq!(flights.task(two), Task::Fly(flight));
    }

    #[test]
    fn after_the_close_everybody_leaves() {
        let mut flights = Flights::default();
        let hand = flights.hire().expect("the first");
        flights.join(at(0), SIX);
        flights.close();
        assert_eq!(flights.task(hand), Task::Leave);
        flights.gone(hand);
        assert_eq!((flights.hire(), flights.hands()), (None, 0));
    }
}
