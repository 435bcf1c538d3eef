//! Drive: the steps of a redrive run. Whoever drives it holds its term; the database refuses the
//! step of anybody else, so a driver that was thought dead does no harm when it comes back.

use std::thread;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::pace::{Facts, Numbers, Pace, pace};
use super::run::{RunId, RunState};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::session::Session;
use crate::sql;

/// How long after its last step a driver is thought gone, in milliseconds.
pub(super) const DRIVER_LEASE_MS: i32 = 10_000;
/// How many letters go at once: of a driver that does nothing else, and of a worker. More at once
/// cost more each (measured: a tenth at 5,000), and live jobs wait longer for the processor.
const BATCH: i64 = 1000;
const BATCH_OF_A_WORKER: i64 = 500;
/// How long a step in stretches goes on, batch after batch.
const STEP_IN_STRETCHES: Duration = Duration::from_millis(250);
/// How many connections a pool must have for a driver to use two of them: a worker may hold four.
const ENOUGH_FOR_TWO: u32 = 6;
/// The shortest wait when there is nothing to send at once: a rate is kept in small batches, but
/// not letter by letter.
const BREATH: Duration = Duration::from_millis(200);
const ALMOST_DONE: Duration = Duration::from_millis(5);

/// The driver of a redrive run: sends its letters back, step by step.
///
/// Dropping it leaves the run to others: a worker takes it up within ten seconds.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect("postgres://localhost/shop")?;
/// use redrive::{Act, Driven, Letters, RunOptions};
///
/// let act = Act::new().why("the gateway is fixed");
/// let options = RunOptions::new().canary(10);
/// if let Some((_, mut driver)) = db.start_run(&Letters::queue("orders"), &options, &act)? {
///     loop {
///         let step = driver.step()?;
///         match step.driven {
///             Driven::Running => std::thread::sleep(step.wait),
///             Driven::Ended(_) | Driven::Lost => break,
///         }
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RunDriver {
    db: Database,
    steps: Steps,
    /// Whether a second connection may send beside the first.
    may_have_help: bool,
}

impl RunDriver {
    pub(super) fn new(db: &Database, run: RunId, driver: Uuid, term: i64) -> RunDriver {
        RunDriver {
            db: db.clone(),
            steps: Steps {
                run: run.get(),
                driver,
                term,
                batch: BATCH,
                next: Pace::Go,
                stretches: 0,
            },
            may_have_help: db.connections() >= ENOUGH_FOR_TWO,
        }
    }

    /// The run.
    pub fn run(&self) -> RunId {
        RunId::new(self.steps.run)
    }

    /// Sends what is due, at most a thousand letters, and tells how the run stands. Call it again
    /// after [`Step::wait`], and within ten seconds.
    ///
    /// Of an unthrottled run without a canary it sends what it can in a quarter of a second, over
    /// two connections when the pool has six.
    ///
    /// # Errors
    /// When the database refuses or does not answer: then the step is whole or has not been, and
    /// it can be tried again.
    pub fn step(&mut self) -> Result<Step> {
        let steps = self.steps.clone();
        // Should the answer be lost, the decision may have been carried out: look again first.
        self.steps.next = Pace::Go;
        if steps.stretches < 2 || !self.may_have_help {
            let answer = send(&self.db, steps)?;
            return Ok(self.keep(answer));
        }
        let (mine, helped) = thread::scope(|scope| {
            let help = scope.spawn(|| send(&self.db, steps.clone()));
            (send(&self.db, steps.clone()), help.join())
        });
        // Whatever hinders the helper, the run does not need it.
        if !matches!(helped, Ok(Ok(_))) {
            self.may_have_help = false;
        }
        Ok(self.keep(mine?))
    }

    /// Keeps what is to be remembered until the next step.
    fn keep(&mut self, (step, steps): (Step, Steps)) -> Step {
        self.steps = steps;
        step
    }
}

/// One step over one connection; in stretches, as many as there is time for.
fn send(db: &Database, mut steps: Steps) -> Result<(Step, Steps)> {
    db.call_bulk("drive a redrive run", move |session| {
        let begun = Instant::now();
        loop {
            let step = steps.step(session)?;
            let goes_on = step.driven == Driven::Running && step.wait.is_zero();
            if steps.stretches == 0 || !goes_on || begun.elapsed() >= STEP_IN_STRETCHES {
                return Ok((step, steps));
            }
        }
    })
}

impl Database {
    /// Takes up a run that nobody drives. `None`: there is no such run, it does not run, or
    /// somebody drives it.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn drive_run(&self, run: RunId) -> Result<Option<RunDriver>> {
        let driver = Uuid::new_v4();
        let found = self.call("take up a redrive run", move |session| {
            take(session, Some(run), driver)
        })?;
        Ok(found.map(|(id, term)| RunDriver::new(self, id, driver, term)))
    }
}

/// How a run stands after a step.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Step {
    /// Whether it goes on.
    pub driven: Driven,
    /// How long to wait before the next step.
    pub wait: Duration,
    /// The members of the run.
    pub total: u64,
    /// Those that were tried.
    pub tried: u64,
    /// Of them, those that were sent back.
    pub sent: u64,
    /// Of those, the ones that are done.
    pub recovered: u64,
    /// Of those, the ones that died again.
    pub died: u64,
}

/// Whether a run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driven {
    /// It does, and this is still its driver.
    Running,
    /// It does not: an operator or the run itself stopped it, or all is tried.
    Ended(RunState),
    /// Another one drives it, or it is gone.
    Lost,
}

/// What a driver remembers from step to step.
#[derive(Clone, Debug)]
struct Steps {
    run: i64,
    driver: Uuid,
    term: i64,
    batch: i64,
    /// What was decided after the last step.
    next: Pace,
    /// How many stretches of the run were left then, as far as it matters: 0, 1 or 2.
    stretches: i64,
}

impl Steps {
    fn step(&mut self, session: &mut Session) -> Result<Step> {
        let (mut halt, mut stage, mut stage_to) = (None, None, None);
        match std::mem::replace(&mut self.next, Pace::Go) {
            Pace::Go => {}
            Pace::Halt(why) => halt = Some(why),
            Pace::NextStage { stage: next, to } => {
                stage = Some(next);
                stage_to = to;
            }
        }
        let row = session.query_one(
            &format!("drive redrive run {}", self.run),
            &sql::DRIVE_RUN,
            &[
                &self.run,
                &self.driver,
                &self.term,
                &DRIVER_LEASE_MS,
                &self.batch,
                &halt,
                &stage,
                &stage_to,
            ],
        )?;
        let what: &str = row.get("what");
        let driven = match what {
            "lost" => Driven::Lost,
            "sent" | "waiting" | "busy" => Driven::Running,
            state => Driven::Ended(state.parse()?),
        };
        // A driver that is not the driver is told nothing.
        let number = |column: &str| row.get::<_, Option<i64>>(column).unwrap_or(0);
        let count = |column: &str| number(column).unsigned_abs();
        let mut wait = Duration::from_millis(count("wait_ms"));
        self.stretches = number("stretches");
        if driven == Driven::Running {
            self.next = pace(&Facts {
                canary: number("canary"),
                stage: row.get::<_, Option<i32>>("stage").unwrap_or(0),
                stage_to: row.get("stage_to"),
                cursor: number("cursor"),
                total: number("total"),
                now: Numbers {
                    sent: number("sent"),
                    recovered: number("recovered"),
                    died: number("died"),
                },
                before: Numbers {
                    sent: number("stage_sent"),
                    recovered: number("stage_recovered"),
                    died: number("stage_died"),
                },
            });
            wait = match self.next {
                // Its own other connection is at the last stretch, for the time of a batch.
                Pace::Go if what == "busy" => ALMOST_DONE,
                Pace::Go if what == "waiting" || !wait.is_zero() => wait.max(BREATH),
                Pace::Go => wait,
                Pace::NextStage { .. } | Pace::Halt(_) => Duration::ZERO,
            };
        }
        Ok(Step {
            driven,
            wait: wait.min(Duration::from_secs(1)),
            total: count("total"),
            tried: count("cursor"),
            sent: count("sent"),
            recovered: count("recovered"),
            died: count("died"),
        })
    }
}

fn take(session: &mut Session, run: Option<RunId>, driver: Uuid) -> Result<Option<(RunId, i64)>> {
    let row = session.query_one(
        "take up a redrive run",
        &sql::TAKE_RUN,
        &[&run.map(RunId::get), &driver, &DRIVER_LEASE_MS],
    )?;
    let found: (Option<i64>, Option<i64>) = (row.get("id"), row.get("term"));
    match found {
        (Some(id), Some(term)) => Ok(Some((RunId::new(id), term))),
        (None, None) => Ok(None),
        _ => Err(Error::unavailable(
            "could not take up a redrive run: half an answer",
        )),
    }
}

/// A run that a worker drives on the side.
#[derive(Debug)]
pub(crate) struct Found(Steps);

/// Finds a run that nobody drives, for a worker.
pub(crate) fn find_run(session: &mut Session, driver: Uuid) -> Result<Option<Found>> {
    Ok(take(session, None, driver)?.map(|(id, term)| {
        Found(Steps {
            run: id.get(),
            driver,
            term,
            batch: BATCH_OF_A_WORKER,
            next: Pace::Go,
            stretches: 0,
        })
    }))
}

impl Found {
    /// One step of it.
    pub(crate) fn step(&mut self, session: &mut Session) -> Result<Step> {
        self.0.step(session)
    }
}
