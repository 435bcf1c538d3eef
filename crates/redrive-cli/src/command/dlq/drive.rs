//! Driving a redrive run from the terminal, or watching somebody else drive it.

use std::thread;
use std::time::{Duration, Instant};

use redrive::{Database, Driven, RunDriver, RunId, RunState};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::Arguments;
use crate::error::{Error, Result};
use crate::person;
use crate::progress::Progress;
use crate::render::{grouped, json_line};
use crate::run::{RunLine, report};
use crate::{Ending, Streams};

/// How often signals are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often to look at a run that somebody else drives, and to try again when the database is
/// away.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Drives a run, or watches it without a driver, until it ends or a signal comes; then tells how
/// it stands.
pub(super) fn follow(
    db: &Database,
    id: RunId,
    driver: Option<RunDriver>,
    arguments: &Arguments,
    io: &mut Streams<'_>,
) -> Result<Ending> {
    let mut signals = Signals::new([SIGTERM, SIGINT])
        .map_err(|error| Error::caused_by("could not listen to signals", error))?;
    let total = db.run(id)?.map_or(0, |run| run.total);
    let progress = Progress::of("redriving", total);
    let mut driver = driver;
    let mut said = false;
    loop {
        let looked = match &mut driver {
            Some(driver) => drive(driver, &progress),
            None => watch(db, id, &progress),
        };
        let wait = match looked {
            Ok(Look::Again(wait)) => wait,
            Ok(Look::Lost) => {
                driver = None;
                progress.aside(|| io.say(format!("somebody else drives run {id} now: watching")));
                Duration::ZERO
            }
            Ok(Look::Over) => break,
            Err(error) if error.is_unavailable() && !arguments.no_wait => {
                if !said {
                    let told = Error::from(error).told();
                    progress.aside(|| io.say(format!("waiting for the database: {told}")));
                    said = true;
                }
                WATCH_EVERY
            }
            Err(error) => return Err(error.into()),
        };
        if is_signalled(&mut signals, wait) {
            drop(progress);
            return interrupted(db, id, driver.is_some(), io);
        }
    }
    drop(progress);
    tell(db, id, arguments, io)
}

/// What a look at a run found.
enum Look {
    /// It goes on; look again after this.
    Again(Duration),
    /// It is driven by somebody else.
    Lost,
    /// It does not run any more.
    Over,
}

fn drive(driver: &mut RunDriver, progress: &Progress) -> redrive::Result<Look> {
    let step = driver.step()?;
    match step.driven {
        Driven::Lost => return Ok(Look::Lost),
        Driven::Ended(_) => return Ok(Look::Over),
        Driven::Running => {}
    }
    progress.at(step.tried);
    progress.show(format!(
        "{} recovered, {} died again",
        grouped(step.recovered),
        grouped(step.died)
    ));
    Ok(Look::Again(step.wait))
}

fn watch(db: &Database, id: RunId, progress: &Progress) -> redrive::Result<Look> {
    match db.run(id)? {
        Some(run) if run.state == RunState::Running => {
            progress.at(run.tried);
            Ok(Look::Again(WATCH_EVERY))
        }
        _ => Ok(Look::Over),
    }
}

/// Waits for a while, or for a signal.
fn is_signalled(signals: &mut Signals, wait: Duration) -> bool {
    let until = Instant::now() + wait;
    loop {
        if signals.pending().next().is_some() {
            return true;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        thread::sleep(left.min(LOOK_EVERY));
    }
}

/// A signal ends this command; a run that it drove is paused, so that it does what was asked.
fn interrupted(db: &Database, id: RunId, drove: bool, io: &mut Streams<'_>) -> Result<Ending> {
    if !drove {
        io.say(format!(
            "run {id} goes on without you: redrive dlq runs show {id}"
        ));
        return Ok(Ending::NothingMatched);
    }
    db.pause_run(id, &person::act(Some("interrupted at the terminal")))?;
    io.say(format!(
        "run {id} is paused. To go on, or to end it:\n  redrive dlq runs resume {id}\n  redrive dlq runs cancel {id}"
    ));
    Ok(Ending::NothingMatched)
}

/// Tells how a run stands that this command drove.
fn tell(db: &Database, id: RunId, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
    let Some(run) = db.run(id)? else {
        return Err(Error::new(format!("run {id} is gone")));
    };
    if arguments.json {
        json_line(io.out, &RunLine::of(&run))?;
    } else {
        report(&run, &db.run_skips(id)?, io.out)?;
    }
    if run.state == RunState::Halted {
        io.out.flush()?;
        io.say(format!(
            "the rest stays open. When the cause is fixed:\n  redrive dlq runs resume {id}"
        ));
    }
    if run.state == RunState::Finished && run.still_running > 0 {
        io.out.flush()?;
        io.say(format!(
            "what becomes of those that still run:\n  redrive dlq runs show {id}"
        ));
    }
    Ok(if run.state == RunState::Finished && run.sent > 0 {
        Ending::Done
    } else {
        Ending::NothingMatched
    })
}
