//! Breakers: while something that jobs need is down, nobody claims them.
//!
//! A breaker is a row that all processes share. After a few outages in a row a worker opens it;
//! the jobs concerned stay ready, and nothing is charged to them. When its wait is over exactly
//! one process gets the right to one job, the *probe*: meets that no outage, the breaker closes by
//! itself; else it waits twice as long, up to [a minute](LONGEST_WAIT). Fetchers learn of it a
//! moment late, which is harmless, because an outage costs no attempt.

use std::fmt;
use std::time::{Duration, SystemTime};

use crate::act::Act;
use crate::claim::WorkerId;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::floor::Row;
use crate::job::milliseconds;
use crate::session::Session;
use crate::sql;

/// The wait before the first probe, and the longest.
pub(crate) const FIRST_WAIT: Duration = Duration::from_secs(1);
pub(crate) const LONGEST_WAIT: Duration = Duration::from_mins(1);

/// The name of the breaker of a whole queue.
pub(crate) fn of_queue(queue: &str) -> String {
    format!("queue:{queue}")
}

/// Whether jobs are claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BreakerState {
    /// All is well.
    Closed,
    /// Nobody claims the jobs concerned.
    Open,
    /// One process may run one of them, to see whether all is well again.
    HalfOpen,
}

impl BreakerState {
    /// The word for it in the database and in the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            BreakerState::Closed => "closed",
            BreakerState::Open => "open",
            BreakerState::HalfOpen => "half_open",
        }
    }
}

impl fmt::Display for BreakerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Why a breaker opened last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BreakerCause {
    /// Handlers met outages ([`Failure::outage`](crate::Failure::outage)).
    Outage,
    /// A worker wrote too many letters
    /// ([`WorkerBuilder::flood_guard`](crate::WorkerBuilder::flood_guard)).
    Flood,
    /// An operator opened it.
    Operator,
}

impl BreakerCause {
    /// The word for it in the database and in the CLI.
    pub fn as_str(self) -> &'static str {
        match self {
            BreakerCause::Outage => "outage",
            BreakerCause::Flood => "flood",
            BreakerCause::Operator => "operator",
        }
    }

    fn of(word: &str) -> Result<BreakerCause> {
        let all = [
            BreakerCause::Outage,
            BreakerCause::Flood,
            BreakerCause::Operator,
        ];
        all.into_iter()
            .find(|cause| cause.as_str() == word)
            .ok_or_else(|| {
                Error::invalid(format!("a breaker is open for an unknown cause, `{word}`"))
            })
    }
}

impl fmt::Display for BreakerCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A breaker, as an operator sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Breaker {
    /// What it is of: a dependency, or `queue:` and the name of a queue.
    pub name: String,
    /// Whether jobs are claimed.
    pub state: BreakerState,
    /// Why it opened last.
    pub cause: BreakerCause,
    /// The message of the last outage, or what the operator said.
    pub message: Option<String>,
    /// The kinds that wait for the dependency, as far as workers told. Empty for a queue, all of
    /// whose jobs wait.
    pub kinds: Vec<String>,
    /// Outages in a row that count: those that opened it, and the probes since.
    pub outages: u64,
    /// How often it opened, ever.
    pub openings: u64,
    /// How many probes there were, ever.
    pub probes: u64,
    /// How long it waits between probes now.
    pub wait: Duration,
    /// When it opened last.
    pub opened_at: SystemTime,
    /// When the next probe may begin. `None`: it is closed, or somebody has to close it.
    pub probe_at: Option<SystemTime>,
    /// When it changed last.
    pub changed_at: SystemTime,
}

impl Database {
    /// Every breaker that was ever open, those that are not closed first.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn breakers(&self) -> Result<Vec<Breaker>> {
        self.call("list breakers", |session| {
            let rows = session.query("list breakers", &sql::BREAKERS, &[])?;
            rows.iter().map(breaker).collect()
        })
    }

    /// Opens a breaker by hand: nobody claims the jobs concerned for so long, and then a probe
    /// decides; `None`: until it is [closed](Database::close_breaker). What runs, runs on.
    ///
    /// `name` is `queue:` and the name of a queue, to pause that queue; or a dependency, to pause
    /// the kinds that were registered with it
    /// ([`HandlerOptions::dependency`](crate::HandlerOptions::dependency)).
    ///
    /// ```
    /// # use redrive::Act;
    /// # use std::time::Duration;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
    /// # db.migrate()?;
    /// let act = Act::new().person("maria@ops-1").why("the gateway is being upgraded");
    /// db.open_breaker("queue:invoices", Some(Duration::from_mins(30)), &act)?;
    /// assert!(db.close_breaker("queue:invoices", &act)?);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// *Invalid* for a name that no queue and no dependency can have, and for a time of zero or
    /// over 3650 days; when the database refuses or does not answer.
    pub fn open_breaker(&self, name: &str, lasting: Option<Duration>, act: &Act) -> Result<()> {
        let (name, act) = (name.to_owned(), act.clone());
        self.call("open a breaker", move |session| {
            let doing = format!("open breaker `{}`", name.escape_debug());
            let lasting_ms = lasting.map(milliseconds);
            session.query_one(
                &doing,
                &sql::OPEN_BREAKER,
                &[&name, &lasting_ms, &act.by(), &act.reason()],
            )?;
            Ok(())
        })
    }

    /// Closes a breaker by hand, whoever opened it: jobs are claimed again. `false`: it was closed.
    ///
    /// # Errors
    /// As [`Database::open_breaker`].
    pub fn close_breaker(&self, name: &str, act: &Act) -> Result<bool> {
        let (name, act) = (name.to_owned(), act.clone());
        self.call("close a breaker", move |session| {
            let doing = format!("close breaker `{}`", name.escape_debug());
            let row = session.query_one(
                &doing,
                &sql::CLOSE_BREAKER,
                &[&name, &act.by(), &act.reason()],
            )?;
            Ok(row.get("was_open"))
        })
    }
}

fn breaker(row: &Row) -> Result<Breaker> {
    let count = |column| row.get::<_, i64>(column).unsigned_abs();
    let name: String = row.get("name");
    let state = match row.get("state") {
        "closed" => BreakerState::Closed,
        "open" => BreakerState::Open,
        "half_open" => BreakerState::HalfOpen,
        other => {
            return Err(Error::invalid(format!(
                "breaker `{name}` is in an unknown state, `{other}`"
            )));
        }
    };
    Ok(Breaker {
        name,
        state,
        cause: BreakerCause::of(row.get("why"))?,
        message: row.get("message"),
        kinds: row.get("kinds"),
        outages: count("outages"),
        openings: count("openings"),
        probes: count("probes"),
        wait: Duration::from_millis(count("delay_ms")),
        opened_at: row.get("opened_at"),
        probe_at: row.get("probe_at"),
        changed_at: row.get("changed_at"),
    })
}

/// What a worker needs to know of a breaker that is not closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Gated {
    pub(crate) name: String,
    pub(crate) cause: BreakerCause,
    pub(crate) kinds: Vec<String>,
    pub(crate) wait: Duration,
    /// In how long the next probe may begin. `None`: never by itself.
    pub(crate) probe_in: Option<Duration>,
}

fn gated(row: &Row) -> Result<Gated> {
    let ms = |ms: i64| Duration::from_millis(ms.max(0).unsigned_abs());
    Ok(Gated {
        name: row.get("name"),
        cause: BreakerCause::of(row.get("why"))?,
        kinds: row.get("kinds"),
        wait: ms(row.get("delay_ms")),
        probe_in: row.get::<_, Option<i64>>("probe_in_ms").map(ms),
    })
}

/// Why a worker opens a breaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trip {
    pub(crate) name: String,
    pub(crate) cause: BreakerCause,
    pub(crate) message: String,
    pub(crate) kinds: Vec<String>,
    pub(crate) outages: u32,
}

/// Opens a breaker; answers what it is like now.
pub(crate) fn trip(session: &mut Session, trip: &Trip) -> Result<Gated> {
    let row = session.query_one(
        &format!("open breaker `{}`", trip.name),
        &sql::TRIP_BREAKER,
        &[
            &trip.name,
            &trip.cause.as_str(),
            &trip.message,
            &trip.kinds,
            &i64::from(trip.outages),
            &milliseconds(FIRST_WAIT),
        ],
    )?;
    gated(&row)
}

/// The breakers that are not closed.
pub(crate) fn open_breakers(session: &mut Session) -> Result<Vec<Gated>> {
    let rows = session.query("look at the breakers", &sql::OPEN_BREAKERS, &[])?;
    rows.iter().map(gated).collect()
}

/// The right to run one job for a breaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) name: String,
    pub(crate) cause: BreakerCause,
    /// The fence: who comes later has a higher one.
    pub(crate) number: i64,
}

/// Takes the right to a probe for as long as given. `None`: it is not due, somebody else has it,
/// or no job is ready.
pub(crate) fn take_probe(
    session: &mut Session,
    name: &str,
    worker: WorkerId,
    lasting: Duration,
    queue: &str,
    kinds: Option<&[String]>,
) -> Result<Option<i64>> {
    let rows = session.query(
        &format!("take the probe of breaker `{name}`"),
        &sql::TAKE_PROBE,
        &[&name, &worker.0, &milliseconds(lasting), &queue, &kinds],
    )?;
    Ok(rows.first().map(|row| row.get("number")))
}

/// How the attempt of a job ended, as far as breakers are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It succeeded.
    Done,
    /// It met an outage of what the breaker is of.
    Outage,
    /// It ended in any other way.
    Other,
    /// It was not run.
    Unrun,
}

/// What follows for the breaker from the end of its probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Close,
    Reopen,
    GiveBack,
}

/// Decides what follows from the end of a probe. Pure.
///
/// A job that fails for reasons of its own shows that what it needs is there. After a flood of
/// letters it shows the opposite: there, only success counts.
pub(crate) fn judge_probe(cause: BreakerCause, ending: Ending) -> Ended {
    match (ending, cause) {
        (Ending::Done, _) | (Ending::Other, BreakerCause::Outage | BreakerCause::Operator) => {
            Ended::Close
        }
        (Ending::Outage, _) | (Ending::Other, BreakerCause::Flood) => Ended::Reopen,
        (Ending::Unrun, _) => Ended::GiveBack,
    }
}

/// Ends a probe. `false`: the right was lost, and nothing changed.
pub(crate) fn end_probe(session: &mut Session, probe: &Probe, ended: Ended) -> Result<bool> {
    let what = match ended {
        Ended::Close => "close",
        Ended::Reopen => "reopen",
        Ended::GiveBack => "give_back",
    };
    let rows = session.query(
        &format!("end the probe of breaker `{}`", probe.name),
        &sql::END_PROBE,
        &[
            &probe.name,
            &probe.number,
            &what,
            &milliseconds(LONGEST_WAIT),
        ],
    )?;
    Ok(!rows.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_closes_the_breaker_unless_it_shows_what_opened_it() {
        use BreakerCause::{Flood, Operator, Outage};
        for (cause, ending, ended) in [
            (Outage, Ending::Done, Ended::Close),
            (Outage, Ending::Other, Ended::Close),
            (Outage, Ending::Outage, Ended::Reopen),
            (Outage, Ending::Unrun, Ended::GiveBack),
            (Flood, Ending::Done, Ended::Close),
            (Flood, Ending::Other, Ended::Reopen),
            (Flood, Ending::Outage, Ended::Reopen),
            (Operator, Ending::Other, Ended::Close),
            (Operator, Ending::Outage, Ended::Reopen),
        ] {
            assert_eq!(judge_probe(cause, ending), ended, "{cause} {ending:?}");
        }
    }
}
