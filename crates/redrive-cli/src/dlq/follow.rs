//! Drives a redrive run from the terminal, or watches it while another process drives it.

use std::thread;
use std::time::{Duration, Instant};

use redrive::Database;
use redrive::dlq::runs::{DriveStatus, RunDriver, RunId, RunState};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::blocked::{blocked_by, waits};
use super::run_report::{RunLine, print_outcomes};
use crate::context::{Context, Ending};
use crate::error::{Error, Result};
use crate::operator;
use crate::terminal::{Progress, grouped, json_line};

/// The interval between two checks for signals.
const CHECK_SIGNALS_EVERY: Duration = Duration::from_millis(50);
/// The interval between two looks at a run that another process drives, and between two attempts
/// to reach the database.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// The interval between two looks at what the jobs of the run wait for.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// What to do after one step of a run.
enum Progression {
    /// Continue after this pause.
    Continue(Duration),
    /// Another process drives the run now.
    DriverLost,
    /// The run is not running.
    Ended,
}

/// Drives a run, or watches it if there is no driver, until it ends or a signal arrives. Then
/// prints its outcomes.
pub(super) fn follow(
    db: &Database,
    id: RunId,
    driver: Option<RunDriver>,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let mut signals = Signals::new([SIGTERM, SIGINT])
        .map_err(|error| Error::caused_by("could not listen for signals", error))?;
    let total = db.dlq().runs().get(id)?.map_or(0, |run| run.total);
    let progress = Progress::of("redriving", total);
    let mut driver = driver;
    let mut reported = false;
    let mut waiting = Waiting::default();
    loop {
        let step = match &mut driver {
            Some(driver) => drive(driver, &progress),
            None => watch(db, id, &progress),
        };
        let step = step.and_then(|step| {
            for wait in waiting.look(db, id)? {
                progress.suspend(|| cx.say(format!("run {id} is waiting for {wait}")));
            }
            Ok(step)
        });
        let pause = match step {
            Ok(Progression::Continue(pause)) => pause,
            Ok(Progression::DriverLost) => {
                driver = None;
                progress
                    .suspend(|| cx.say(format!("another process drives run {id}; watching it")));
                Duration::ZERO
            }
            Ok(Progression::Ended) => break,
            Err(error) if error.is_unavailable() && !cx.global.no_wait => {
                if !reported {
                    let error = Error::from(error).one_line();
                    progress.suspend(|| cx.say(format!("waiting for the database: {error}")));
                    reported = true;
                }
                WATCH_EVERY
            }
            Err(error) => return Err(error.into()),
        };
        if is_signaled(&mut signals, pause) {
            drop(progress);
            return interrupted(db, id, driver.as_ref(), cx);
        }
    }
    drop(progress);
    report(db, id, cx)
}

/// The last report of what the jobs of the run wait for.
struct Waiting {
    looked_at: Instant,
    reported: Vec<String>,
}

impl Default for Waiting {
    fn default() -> Waiting {
        Waiting {
            looked_at: Instant::now(),
            reported: Vec::new(),
        }
    }
}

impl Waiting {
    /// Looks from time to time. Returns what the jobs wait for if that changed.
    fn look(&mut self, db: &Database, id: RunId) -> redrive::Result<Vec<String>> {
        if self.looked_at.elapsed() < LOOK_EVERY {
            return Ok(Vec::new());
        }
        self.looked_at = Instant::now();
        let blocked = db.dlq().runs().blocked(id)?;
        let what = blocked_by(&blocked);
        if what == self.reported {
            return Ok(Vec::new());
        }
        self.reported = what;
        Ok(waits(&blocked))
    }
}

fn drive(driver: &mut RunDriver, progress: &Progress) -> redrive::Result<Progression> {
    let step = driver.step()?;
    match step.status {
        DriveStatus::Lost => return Ok(Progression::DriverLost),
        DriveStatus::Ended(_) => return Ok(Progression::Ended),
        DriveStatus::Running | _ => {}
    }
    progress.at(step.tried);
    progress.show(format!(
        "{} recovered, {} died again",
        grouped(step.recovered),
        grouped(step.died)
    ));
    Ok(Progression::Continue(step.wait))
}

fn watch(db: &Database, id: RunId, progress: &Progress) -> redrive::Result<Progression> {
    match db.dlq().runs().get(id)? {
        Some(run) if run.state == RunState::Running => {
            progress.at(run.tried);
            Ok(Progression::Continue(WATCH_EVERY))
        }
        _ => Ok(Progression::Ended),
    }
}

/// Pauses, and returns early with `true` if a signal arrives.
fn is_signaled(signals: &mut Signals, pause: Duration) -> bool {
    let until = Instant::now() + pause;
    loop {
        if signals.pending().next().is_some() {
            return true;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        thread::sleep(left.min(CHECK_SIGNALS_EVERY));
    }
}

/// Pauses the run if this process drives it; otherwise leaves it to its driver.
fn interrupted(
    db: &Database,
    id: RunId,
    driver: Option<&RunDriver>,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    if driver.is_none() {
        cx.say(format!(
            "run {id} continues in another process: redrive dlq runs show {id}"
        ));
        return Ok(Ending::NothingMatched);
    }
    db.dlq()
        .runs()
        .pause(id, &operator::current(Some("interrupted at the terminal")))?;
    cx.say(format!(
        "run {id} is paused. To continue or cancel it:\n  redrive dlq runs resume {id}\n  redrive dlq runs cancel {id}"
    ));
    Ok(Ending::NothingMatched)
}

/// Prints the outcomes of a run that ended.
fn report(db: &Database, id: RunId, cx: &mut Context<'_>) -> Result<Ending> {
    let Some(run) = db.dlq().runs().get(id)? else {
        return Err(Error::new(format!("run {id} no longer exists")));
    };
    if cx.global.json {
        json_line(cx.out, &RunLine::of(&run))?;
    } else {
        print_outcomes(&run, &db.dlq().runs().skips(id)?, cx.out)?;
    }
    if run.state == RunState::Halted {
        cx.out.flush()?;
        cx.say(format!(
            "the other letters stay open. Once the cause is fixed:\n  redrive dlq runs resume {id}"
        ));
    }
    if run.state == RunState::Finished && run.still_running > 0 {
        cx.out.flush()?;
        cx.say(format!(
            "for the outcomes of the running jobs:\n  redrive dlq runs show {id}"
        ));
    }
    Ok(if run.state == RunState::Finished && run.sent > 0 {
        Ending::Done
    } else {
        Ending::NothingMatched
    })
}
