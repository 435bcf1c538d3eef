//! Drives redrive runs step by step. The database rejects the steps of an earlier driver.

use std::thread;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::state::RunState;
use super::throttle::Throttle;
use crate::db::database::Database;
use crate::db::row::read_all;
use crate::dlq::prelude::*;

/// How long after its last step a driver is presumed dead, in milliseconds.
pub(super) const DRIVER_LEASE_MS: i32 = 10_000;
/// The letters per batch, of a dedicated driver and of a worker. Larger batches cost more per
/// letter (a tenth more at 5,000) and delay live jobs.
const BATCH: i64 = 1000;
const BATCH_OF_A_WORKER: i64 = 500;
/// How long one step of an unthrottled run continues, batch after batch.
const LONG_STEP: Duration = Duration::from_millis(250);
/// How many connections a pool must have for a driver to use two of them: a worker may hold five.
const ENOUGH_FOR_TWO: u32 = 7;
/// The shortest wait of a throttled run: it sends small batches instead of single letters.
const BREATH: Duration = Duration::from_millis(200);
const ALMOST_DONE: Duration = Duration::from_millis(5);

/// Drives a redrive run: sends its letters, step by step.
///
/// After a drop, a worker takes the run over within 10 seconds.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect("postgres://localhost/shop")?;
/// use redrive::dlq::LetterFilter;
/// use redrive::dlq::runs::{DriveStatus, RunOptions};
/// use redrive::Operator;
///
/// let operator = Operator::default().reason("the gateway is fixed");
/// let options = RunOptions::new().canary(10);
/// if let Some((_, mut driver)) = db.dlq().runs().start(&LetterFilter::new().queue("orders"), &options, &operator)? {
///     while let DriveStatus::Running(wait) = driver.step()? {
///         std::thread::sleep(wait);
///     }
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct RunDriver {
    db: Database,
    steps: Steps,
    /// Whether a second connection may send in parallel.
    may_have_help: bool,
}

impl RunDriver {
    pub(super) fn new(db: &Database, run: RunId, driver: Uuid) -> RunDriver {
        RunDriver {
            db: db.clone(),
            steps: Steps::new(run, driver, BATCH),
            may_have_help: db.connections() >= ENOUGH_FOR_TWO,
        }
    }

    /// Returns the run.
    pub fn run(&self) -> RunId {
        RunId::new(self.steps.run)
    }

    /// Sends the letters that are due, at most 1,000, and returns whether the run goes on.
    ///
    /// Call it again after the wait that it returns, and within 10 seconds. [`Runs::get`] returns the run's progress.
    ///
    /// An [unthrottled](super::RunOptions::unthrottled) run sends for a quarter of a second; without a canary over two
    /// connections, if the pool has at least seven.
    ///
    /// # Errors
    /// If the database fails. A step is atomic and can be repeated.
    pub fn step(&mut self) -> Result<DriveStatus> {
        let steps = self.steps.clone();
        let wants_help = steps.chunks >= 2 && self.may_have_help && !steps.throttle.is_slow();
        let (mine, helped) = thread::scope(|scope| {
            let help = match wants_help {
                true => thread::Builder::new()
                    .spawn_scoped(scope, || send(&self.db, steps.clone()))
                    .ok(),
                false => None,
            };
            let mine = send(&self.db, steps.clone());
            (mine, help.map(thread::ScopedJoinHandle::join))
        });
        // The run does not need the helper, so its error only disables it.
        self.may_have_help &= !wants_help || matches!(helped, Some(Ok(Ok(_))));
        let (status, steps) = mine?;
        self.steps = steps;
        Ok(status)
    }
}

/// Runs one step on one connection, with as many batches as are due and fit into it.
fn send(db: &Database, mut steps: Steps) -> Result<(DriveStatus, Steps)> {
    db.call_within("drive a redrive run", db.bulk_timeout(), move |session| {
        let begun = Instant::now();
        loop {
            let status = steps.step(session)?;
            let goes_on = status == DriveStatus::Running(Duration::ZERO);
            if !goes_on || begun.elapsed() >= LONG_STEP {
                return Ok((status, steps));
            }
        }
    })
}

impl Runs<'_> {
    /// Takes over a run without a driver. Returns `None` if the run does not exist, is not
    /// running, or has a driver.
    ///
    /// # Errors
    /// If the database fails.
    pub fn drive(&self, run: RunId) -> Result<Option<RunDriver>> {
        let driver = Uuid::new_v4();
        let found = self.db.call("take over a redrive run", move |session| {
            take(session, Some(run), driver)
        })?;
        Ok(found.map(|id| RunDriver::new(self.db, id, driver)))
    }
}

/// Whether a driver continues.
// Exhaustive: a driver should handle every status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriveStatus {
    /// The run continues with this driver, which makes its next step after this time.
    Running(Duration),
    /// The run stopped, with this state.
    Ended(RunState),
    /// Another driver has the run, the run was deleted, or a newer version of redrive gave it a state
    /// that this one does not know.
    Lost,
}

/// A run that is driven, between its steps.
#[derive(Clone, Debug)]
pub(crate) struct Steps {
    run: i64,
    driver: Uuid,
    throttle: Throttle,
    /// The chunks that were left after the last step, counted up to 2.
    chunks: i64,
}

impl Steps {
    fn new(run: RunId, driver: Uuid, batch: i64) -> Steps {
        Steps {
            run: run.get(),
            driver,
            throttle: Throttle::new(batch),
            chunks: 0,
        }
    }

    /// Makes one step.
    pub(crate) fn step(&mut self, session: &mut Session) -> Result<DriveStatus> {
        let doing = format!("read the waits of live jobs for redrive run {}", self.run);
        let waits = session.query(&doing, &sql::LIVE_WAITS, &[&self.run])?;
        let (letters, pause) = self.throttle.next(read_all(&waits)?);
        let (status, wait, _, chunks): (String, Duration, i64, i64) = session.one(
            &format!("drive redrive run {}", self.run),
            &sql::DRIVE_RUN,
            &[&self.run, &self.driver, &DRIVER_LEASE_MS, &letters],
        )?;
        self.chunks = chunks;
        let wait = match &*status {
            // The other connection of this driver holds the last chunk for one batch.
            "busy" => ALMOST_DONE,
            "sent" if wait.is_zero() => pause,
            "sent" | "waiting" => wait.max(BREATH),
            // Not even an unknown answer is an error, because the step has taken effect.
            state => return Ok(state.parse().map_or(DriveStatus::Lost, DriveStatus::Ended)),
        };
        Ok(DriveStatus::Running(wait.min(Duration::from_secs(1))))
    }
}

fn take(session: &mut Session, run: Option<RunId>, driver: Uuid) -> Result<Option<RunId>> {
    let given: [sql::Parameter<'_>; 3] = [&run.map(RunId::get), &driver, &DRIVER_LEASE_MS];
    session.one("take over a redrive run", &sql::TAKE_RUN, &given)
}

/// Takes over any run without a driver, for a worker. If that was this worker, its earlier steps have lost the run.
pub(crate) fn find_run(session: &mut Session) -> Result<Option<Steps>> {
    let driver = Uuid::new_v4();
    let found = take(session, None, driver)?;
    Ok(found.map(|run| Steps::new(run, driver, BATCH_OF_A_WORKER)))
}
