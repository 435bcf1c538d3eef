//! A hand: a thread that holds a connection and reads when somebody asks.

use std::time::{Duration, Instant};

use redrive::metrics::{Reader, Reading};
use redrive::postgres::Client;

use super::flights::{Flight, Hand};
use super::pause::pause;
use super::{Next, Shared};
use crate::deadline::budget;
use crate::error::Error;
use crate::source::Source;

/// Who asks right after a failed attempt to connect gets its result instead of another one.
const GAP: Duration = Duration::from_millis(250);

/// Works until another hand holds the pen, or all are told to leave.
pub(super) fn serve(shared: &Shared, hand: Hand) {
    // Dropped after the connection: a hand counts for as long as it may have one.
    let _place = Place { shared, hand };
    let mut line = Line::new(&shared.source);
    loop {
        match shared.next(hand, line.patience()) {
            Next::Leave => return,
            Next::Idle => line.connect(),
            Next::Fly(flight, mut reader) => {
                let reading = line.read(&mut reader, flight);
                shared.land(hand, flight, *reader, &reading);
            }
        }
    }
}

/// The place of a hand among the others, given up at its end, a panic included.
struct Place<'a> {
    shared: &'a Shared,
    hand: Hand,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.shared.gone(self.hand);
    }
}

/// The line to the database: connected or not.
struct Line<'a> {
    source: &'a Source,
    client: Option<Client>,
    /// Attempts to connect that failed in a row.
    failures: u32,
    /// When the last one ended.
    failed: Option<Instant>,
    /// What was said about it.
    told: Option<String>,
}

impl Line<'_> {
    fn new(source: &Source) -> Line<'_> {
        Line {
            source,
            client: None,
            failures: 0,
            failed: None,
            told: None,
        }
    }

    /// How long to wait for somebody to ask before it tries to connect by itself; `None` when it
    /// is connected.
    fn patience(&self) -> Option<Duration> {
        match (&self.client, self.failed) {
            (Some(_), _) => None,
            (None, None) => Some(Duration::ZERO),
            (None, Some(_)) => Some(pause(self.failures, fastrand::f64())),
        }
    }

    /// Reads; connects first, and anew when the connection turns out to be a dead one.
    fn read(&mut self, reader: &mut Reader, flight: Flight) -> Reading {
        let is_old = self.client.is_some();
        let reading = self.read_once(reader, flight);
        if is_old && !reading.is_connected {
            log::info!("the connection to the database is gone");
            return self.read_once(reader, flight);
        }
        reading
    }

    fn read_once(&mut self, reader: &mut Reader, flight: Flight) -> Reading {
        if self.client.is_none() && self.failed.is_none_or(|failed| failed.elapsed() >= GAP) {
            self.connect();
        }
        let Some(client) = &mut self.client else {
            return reader.unreachable();
        };
        let left = flight.read_until.saturating_duration_since(Instant::now());
        let reading = reader.read(client, budget(left));
        if !reading.is_connected {
            self.client = None;
        }
        reading
    }

    fn connect(&mut self) {
        match self.source.connect() {
            Ok(client) => {
                log::info!("connected to the database");
                self.client = Some(client);
                self.failures = 0;
                self.failed = None;
                self.told = None;
            }
            Err(error) => {
                self.failures = self.failures.saturating_add(1);
                self.failed = Some(Instant::now());
                self.tell(&error);
            }
        }
    }

    /// Says what is wrong, once for each thing that is.
    fn tell(&mut self, error: &Error) {
        let told = error.told();
        if self.told.as_ref() == Some(&told) {
            log::debug!("{told}");
            return;
        }
        log::warn!("{told}; trying again");
        self.told = Some(told);
    }
}
