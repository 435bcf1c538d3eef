//! Drives a redrive run from the terminal, or watches it while another process drives it, and waits
//! for the outcomes of its jobs.

use std::thread;
use std::time::{Duration, Instant};

use redrive::dlq::runs::{DriveStatus, RedriveRun, RunDriver, RunId, RunState};

use super::patience::Patience;
use super::run_progress::Reports;
use super::run_report::{print_outcomes, run_line, skips};
use crate::prelude::*;
use crate::stop::StopSignal;
use crate::terminal::Progress;

/// The interval between two checks for signals.
const CHECK_SIGNALS_EVERY: Duration = Duration::from_millis(50);
/// The interval between two looks at a run that this process does not drive, and between two
/// attempts to reach the database.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// What to do after one step of a run.
enum Progression {
    /// Continue after this pause. The number grows with each letter sent and each outcome.
    Continue { pause: Duration, done: u64 },
    /// Another process drives the run now.
    DriverLost,
    /// This process has nothing left to drive.
    Driven,
    /// The run ended, and its outcomes are known or not awaited.
    Ended,
}

/// Drives a run, or watches it if there is no driver, until its outcomes are known, the patience
/// ends or a signal arrives. Then prints its outcomes.
pub(super) fn follow(
    id: RunId,
    mut driver: Option<RunDriver>,
    patience: Patience,
    mut stop: StopSignal,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let db = &cx.database()?;
    let total = db.dlq().runs().get(id)?.map_or(0, |run| run.total);
    let progress = Progress::of("redriving", total);
    let mut is_outage_reported = false;
    let mut reports = Reports::default();
    // The letters sent and outcomes, and since when the number has not grown.
    let mut latest = (u64::MAX, Instant::now());
    let mut pause = Duration::ZERO;
    loop {
        if is_signaled(&mut stop, pause) {
            drop(progress);
            return interrupted(id, driver.as_ref(), cx);
        }
        let step = match &mut driver {
            Some(driver) => drive(driver, &reports, &progress),
            None => watch(db, id, patience, &reports, &progress),
        };
        let step = step.and_then(|step| {
            if let Progression::Continue { .. } = step
                && let Some(line) = reports.next(db, id, &progress)?
            {
                progress.suspend(|| cx.say(line));
            }
            Ok(step)
        });
        pause = match step {
            Ok(Progression::Continue { pause, done }) => {
                if done != latest.0 {
                    latest = (done, Instant::now());
                } else if patience.is_some_and(|most| latest.1.elapsed() >= most) {
                    drop(progress);
                    return gave_up(id, patience, cx);
                }
                pause
            }
            Ok(Progression::DriverLost) => {
                driver = None;
                progress
                    .suspend(|| cx.say(format!("another process drives run {id}; watching it")));
                Duration::ZERO
            }
            Ok(Progression::Driven) => {
                driver = None;
                Duration::ZERO
            }
            Ok(Progression::Ended) => break,
            Err(error) if error.is_unavailable() && !cx.global.no_wait => {
                if !is_outage_reported {
                    let error = Error::from(error).one_line();
                    progress.suspend(|| cx.say(format!("waiting for the database: {error}")));
                    is_outage_reported = true;
                }
                WATCH_EVERY
            }
            Err(error) => {
                drop(progress);
                cx.say(format!(
                    "run {id} has not ended. To see it or to watch it:\n  {Me} dlq runs show {id}\n  {Me} dlq runs watch {id}"
                ));
                return Err(error.into());
            }
        };
    }
    drop(progress);
    report(id, patience, cx)
}

fn drive(
    driver: &mut RunDriver,
    reports: &Reports,
    progress: &Progress,
) -> redrive::Result<Progression> {
    let step = driver.step()?;
    match step.status {
        DriveStatus::Lost => return Ok(Progression::DriverLost),
        DriveStatus::Ended(_) => return Ok(Progression::Driven),
        DriveStatus::Running | _ => {}
    }
    progress.at(step.tried);
    show(progress, reports, step.recovered, step.died);
    Ok(Progression::Continue {
        pause: step.wait,
        done: step.tried + step.recovered + step.died,
    })
}

fn watch(
    db: &Database,
    id: RunId,
    patience: Patience,
    reports: &Reports,
    progress: &Progress,
) -> redrive::Result<Progression> {
    let Some(run) = db.dlq().runs().get(id)? else {
        return Ok(Progression::Ended);
    };
    let has_ended = run.state == RunState::Finished;
    let is_awaited = has_ended && patience.is_some() && run.still_running > 0;
    if run.state != RunState::Running && !is_awaited {
        return Ok(Progression::Ended);
    }
    progress.at(run.tried);
    show(progress, reports, run.recovered, run.died());
    Ok(Progression::Continue {
        pause: WATCH_EVERY,
        done: run.tried + run.recovered + run.died(),
    })
}

/// Shows the outcomes beside the progress bar, unless it shows what blocks the jobs.
fn show(progress: &Progress, reports: &Reports, recovered: u64, died: u64) {
    if !reports.is_blocked() {
        progress.show(format!(
            "{} recovered, {} died again",
            grouped(recovered),
            grouped(died)
        ));
    }
}

/// Pauses, and returns early with `true` if a signal arrives.
fn is_signaled(stop: &mut StopSignal, pause: Duration) -> bool {
    let until = Instant::now() + pause;
    loop {
        if stop.check().is_break() {
            return true;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        thread::sleep(left.min(CHECK_SIGNALS_EVERY));
    }
}

/// Pauses the run if this process drives it; otherwise leaves it to its driver and its jobs.
fn interrupted(id: RunId, driver: Option<&RunDriver>, cx: &mut Context<'_>) -> Result<Ending> {
    let db = &cx.database()?;
    if driver.is_some() {
        db.dlq()
            .runs()
            .pause(id, &operator::current(Some("interrupted at the terminal")))?;
    }
    let run = print(id, cx)?;
    cx.say(match run.state {
        RunState::Running => format!(
            "run {id} continues in another process. To watch or pause it:\n  {Me} dlq runs watch {id}\n  {Me} dlq runs pause {id}"
        ),
        RunState::Paused => format!(
            "run {id} is paused. To continue or cancel it:\n  {Me} dlq runs resume {id}\n  {Me} dlq runs cancel {id}"
        ),
        RunState::Halted | RunState::Cancelled | RunState::Finished | _ => format!(
            "run {id} is {}; its jobs continue. To wait for their outcomes:\n  {Me} dlq runs watch {id}",
            run.state
        ),
    });
    Ok(Ending::NothingMatched)
}

/// Says that no outcome came for too long, and how to continue.
fn gave_up(id: RunId, patience: Patience, cx: &mut Context<'_>) -> Result<Ending> {
    let run = print(id, cx)?;
    let continues = match run.state == RunState::Running {
        true => "workers continue the run",
        false => "the jobs wait in their queue",
    };
    let time = short(patience.unwrap_or_default());
    cx.nothing(format!(
        "stopped waiting: no new outcome for {time}; {continues}. To see why, or to wait again:\n  {Me} dlq runs show {id}\n  {Me} dlq runs watch {id}"
    ))
}

/// Prints the outcomes of a run that ended.
fn report(id: RunId, patience: Patience, cx: &mut Context<'_>) -> Result<Ending> {
    let run = print(id, cx)?;
    let next = match run.state {
        RunState::Unapproved => Some(format!(
            "a second operator must approve the run; workers then drive it:\n  {Me} dlq runs approve {id}"
        )),
        RunState::Halted => Some(format!(
            "the other letters stay open. Once the cause is fixed:\n  {Me} dlq runs resume {id}"
        )),
        RunState::Finished if run.still_running > 0 => Some(format!(
            "for the outcomes of the running jobs:\n  {Me} dlq runs watch {id}"
        )),
        RunState::Finished if run.has_too_many_deaths() => Some(format!(
            "more than the tolerated {} % died again. To see why:\n  {Me} dlq list run={id}",
            run.tolerated
        )),
        RunState::Running | RunState::Paused | RunState::Cancelled | RunState::Finished | _ => None,
    };
    if let Some(next) = next {
        cx.say(next);
    }
    let is_tolerated = patience.is_none() || !run.has_too_many_deaths();
    let is_whole = run.state == RunState::Finished && run.sent > 0 && run.skipped == 0;
    Ok(Ending::of(is_whole && is_tolerated))
}

/// Prints the outcomes so far.
fn print(id: RunId, cx: &mut Context<'_>) -> Result<RedriveRun> {
    let db = &cx.database()?;
    let Some(run) = db.dlq().runs().get(id)? else {
        return Err(Error::new(format!("run {id} no longer exists")));
    };
    let skips = skips(&run, db)?;
    if cx.global.json {
        json_line(cx.out, &run_line(&run, &skips, None))?;
    } else {
        print_outcomes(&run, &skips, cx.out)?;
    }
    cx.out.flush()?;
    Ok(run)
}
