//! The calls of the library, with their deadlines.

mod archive;
mod dlq;
mod groups;
mod pipeline;
mod schedules;

use std::cell::Cell;
use std::time::{Duration, Instant};

use redrive::{Database, JobId, Operator, Queue, Result};
use redrive_tests::{Proxy, SOON, wait_until};

/// When the server becomes silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Before there is a connection.
    Unconnected,
    /// With a connection, before the first reply.
    Connected,
    /// After this many more replies.
    Midway(i64),
}

/// The surroundings of a call.
pub(super) struct Scene {
    pub(super) db: Database,
    pub(super) proxy: Proxy,
    pub(super) when: When,
    /// An existing letter.
    pub(super) letter: JobId,
    /// When the server became silent and the call began.
    pub(super) begun: Cell<Option<Instant>>,
}

impl Scene {
    /// Silences the server, now or after some replies, and starts the clock.
    pub(super) fn hush(&self) {
        match self.when {
            When::Unconnected => self.proxy.fall_silent(),
            When::Connected => {
                self.connect();
                self.proxy.fall_silent();
            }
            When::Midway(answers) => {
                self.connect();
                self.proxy.fall_silent_after(answers);
            }
        }
        self.begun.set(Some(Instant::now()));
    }

    /// Opens a connection. A busy machine may need several attempts within the short deadlines.
    fn connect(&self) {
        wait_until("a connection", SOON, || self.db.check_schema().is_ok());
    }

    fn queue(&self) -> Queue {
        Queue::new(&self.db, "orders").expect("a valid name")
    }
}

/// The time within which a call returns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Limit {
    /// The time to connect, and a second.
    Connect,
    /// The same, by the default of ten seconds.
    DefaultConnect,
    /// A multiple of the usual deadline of a call.
    Usual(u32),
    /// The deadline of a bulk call, plus the usual one.
    Bulk,
    /// The deadline of a scrape.
    Scrape,
}

/// The deadline given to a collector.
const SCRAPE: Duration = Duration::from_millis(700);

/// The grace of a worker at its stop.
const GRACE: Duration = Duration::from_millis(100);

impl Limit {
    pub(super) fn of(self, connect: Duration, usual: Duration, bulk: Duration) -> Duration {
        match self {
            Limit::Connect => connect + Duration::from_secs(1),
            Limit::DefaultConnect => Duration::from_secs(11),
            Limit::Usual(calls) => usual * calls,
            Limit::Bulk => bulk + usual,
            Limit::Scrape => SCRAPE,
        }
    }
}

/// When the server becomes silent for a call.
enum How {
    /// Before the call.
    Plain(fn(&Scene) -> Result<()>),
    /// When the call asks for it, after its preparation.
    Staged(fn(&Scene) -> Result<()>),
}

/// A call.
pub(super) struct Call {
    /// The name in the library.
    pub(super) name: &'static str,
    pub(super) limit: Limit,
    how: How,
}

impl Call {
    pub(super) fn make(&self, scene: &Scene) -> Result<()> {
        match self.how {
            How::Plain(call) => {
                scene.hush();
                call(scene)
            }
            How::Staged(call) => call(scene),
        }
    }

    /// Whether the call can be tested at this time: opening a pool has no connection before.
    pub(super) fn comes(&self, when: When) -> bool {
        match self.limit {
            Limit::Connect | Limit::DefaultConnect => when == When::Unconnected,
            Limit::Usual(_) | Limit::Bulk | Limit::Scrape => true,
        }
    }
}

const fn usual(name: &'static str, call: fn(&Scene) -> Result<()>) -> Call {
    Call {
        name,
        limit: Limit::Usual(1),
        how: How::Plain(call),
    }
}

const fn bulk(name: &'static str, call: fn(&Scene) -> Result<()>) -> Call {
    Call {
        name,
        limit: Limit::Bulk,
        how: How::Plain(call),
    }
}

const fn staged(name: &'static str, limit: Limit, call: fn(&Scene) -> Result<()>) -> Call {
    Call {
        name,
        limit,
        how: How::Staged(call),
    }
}

fn operator() -> Operator {
    Operator::default().reason("a test")
}

/// Returns every call of the library that reaches the server.
pub(super) fn calls() -> impl Iterator<Item = &'static Call> {
    pipeline::CALLS
        .iter()
        .chain(dlq::CALLS)
        .chain(groups::CALLS)
        .chain(archive::CALLS)
        .chain(schedules::CALLS)
}
