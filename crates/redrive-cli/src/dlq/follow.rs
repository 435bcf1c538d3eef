//! Drives a redrive run from the terminal, or watches it while another process drives it, and waits
//! for the outcomes of its jobs.

use std::thread;
use std::time::{Duration, Instant};

use redrive::dlq::LetterFilter;
use redrive::dlq::runs::{DriveStatus, RedriveRun, RunAction, RunDriver, RunId, RunState};

use super::blocked::blocks;
use super::run_report::{outcomes, print_outcomes, run_line, skips};
use crate::prelude::*;
use crate::stop::StopSignal;
use crate::terminal::Progress;

/// The interval between two checks for signals.
const CHECK_SIGNALS_EVERY: Duration = Duration::from_millis(50);
/// The interval between two looks at a run that this process does not drive, and between two
/// attempts to reach the database.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// The interval between two reports.
const REPORT_EVERY: Duration = Duration::from_secs(10);
/// How long to wait without a new outcome by default.
const PATIENCE: Duration = Duration::from_hours(1);

/// When to stop waiting.
#[derive(Args, Debug)]
#[command(next_help_heading = "Outcomes")]
#[group(skip)]
pub(super) struct MaxWait {
    /// Stop waiting, with exit code 1, after this long without a new outcome [default: 1h, plus the
    /// delay of the jobs]. The run continues. Not with --no-wait, which does not wait for outcomes.
    #[arg(long, conflicts_with = "no_wait", value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
    max_wait: Option<Duration>,
}

impl MaxWait {
    pub(super) fn is_given(&self) -> bool {
        self.max_wait.is_some()
    }

    /// The patience for jobs that become ready after `delay`, which is added to the default. `None`: the command does not
    /// wait for outcomes.
    pub(super) fn patience(&self, delay: Option<Duration>, cx: &Context<'_>) -> Option<Duration> {
        let default = PATIENCE.saturating_add(delay.unwrap_or_default());
        (!cx.global.no_wait).then(|| self.max_wait.unwrap_or(default))
    }
}

/// Why a command no longer follows a run.
#[derive(Clone, Copy)]
enum Left {
    /// The run ended, and its outcomes are known or not awaited.
    Ended,
    Signal,
    /// None came for so long.
    NoOutcome(Duration),
}

/// A run that a command follows.
struct Followed<'a> {
    id: RunId,
    db: &'a Database,
    /// `None`: another process drives the run, or there is nothing left to drive.
    driver: Option<RunDriver>,
    /// How long to wait without a new outcome; `None`: not at all.
    patience: Option<Duration>,
    progress: Progress,
    reported_at: Option<Instant>,
    /// What blocked the jobs at the last report.
    blocked: String,
}

/// Drives a run, or watches it if there is no driver, until its outcomes are known, the patience
/// ends or a signal arrives, which pauses a run that this process drives. Then prints its outcomes.
pub(super) fn follow(
    (id, letters): (RunId, u64),
    driver: Option<RunDriver>,
    patience: Option<Duration>,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let (run, left) = match until_left((id, letters), driver, patience, cx) {
        Ok(followed) => followed,
        Err(error) => {
            cx.say(format!(
                "workers continue run {id} unless it has ended. To see it or to watch it:\n  {Me} dlq runs show {id}\n  {Me} dlq runs watch {id}"
            ));
            return Err(error);
        }
    };
    let skips = skips(&run, &cx.database()?)?;
    match cx.global.json {
        true => json_line(cx.out, &run_line(&run, Some(&skips[..]), None))?,
        false => print_outcomes(&run, &skips, cx.out)?,
    }
    cx.out.flush()?;
    if let Some(next) = next(&run, left) {
        cx.say(next);
    }
    let is_tolerated = patience.is_none() || !run.has_too_many_deaths();
    let is_whole = run.state == RunState::Finished && run.sent > 0 && run.skipped == 0;
    Ok(Ending::of(
        matches!(left, Left::Ended) && is_whole && is_tolerated,
    ))
}

/// Follows a run until there is a reason to leave it. Returns it as it is then.
fn until_left(
    (id, letters): (RunId, u64),
    driver: Option<RunDriver>,
    patience: Option<Duration>,
    cx: &mut Context<'_>,
) -> Result<(RedriveRun, Left)> {
    let (db, stop) = (&cx.database()?, StopSignal::listen()?);
    let mut followed = Followed {
        id,
        db,
        driver,
        patience,
        progress: Progress::of("redriving", letters),
        reported_at: None,
        blocked: String::new(),
    };
    let mut is_outage_reported = false;
    // The letters sent and outcomes, and since when the number has not grown.
    let mut latest = (u64::MAX, Instant::now());
    let mut pause = Duration::ZERO;
    let left = loop {
        if is_signaled(stop, pause) {
            break Left::Signal;
        }
        pause = match followed.step(cx) {
            Ok(None) => break Left::Ended,
            Ok(Some((pause, done))) => {
                is_outage_reported = false;
                match patience {
                    _ if done != latest.0 => latest = (done, Instant::now()),
                    Some(most) if latest.1.elapsed() >= most => break Left::NoOutcome(most),
                    Some(_) | None => {}
                }
                pause
            }
            Err(error) if error.is_unavailable() && !cx.global.no_wait => {
                if !is_outage_reported {
                    let error = Error::from(error).one_line();
                    followed.say(format!("waiting for the database: {error}"), cx);
                    is_outage_reported = true;
                }
                WATCH_EVERY
            }
            Err(error) => return Err(error.into()),
        };
    };
    let driver = followed.driver.take();
    drop(followed);
    if let (Left::Signal, Some(_)) = (left, &driver) {
        let operator = operator::current(Some("interrupted at the terminal"));
        db.dlq().runs().change(id, RunAction::Pause, &operator)?;
    }
    let Some(run) = db.dlq().runs().get(id)? else {
        return Err(Error::new(format!("run {id} no longer exists")));
    };
    Ok((run, left))
}

impl Followed<'_> {
    /// Sends letters if this process drives the run, and looks how far it is. Returns the pause until the next step, and
    /// a number that grows with each letter sent and each outcome; `None`: the run ended, and its outcomes are known or
    /// not awaited.
    fn step(&mut self, cx: &mut Context<'_>) -> redrive::Result<Option<(Duration, u64)>> {
        let (id, mut pause) = (self.id, WATCH_EVERY);
        if let Some(driver) = &mut self.driver {
            match driver.step()? {
                DriveStatus::Lost => {
                    self.driver = None;
                    self.say(format!("another process drives run {id}; watching it"), cx);
                }
                DriveStatus::Ended(_) => self.driver = None,
                DriveStatus::Running(wait) => pause = wait,
            }
        }
        let is_awaited = |run: &RedriveRun| match run.state {
            RunState::Running => true,
            RunState::Finished => self.patience.is_some() && run.still_running > 0,
            RunState::Unapproved
            | RunState::Paused
            | RunState::Halted
            | RunState::Cancelled
            | _ => false,
        };
        let run = self.db.dlq().runs().get(id)?;
        let Some(run) = run.filter(is_awaited) else {
            return Ok(None);
        };
        self.show(&run, cx)?;
        Ok(Some((pause, run.tried + run.recovered + run.died())))
    }

    /// Shows the outcomes, or what blocks the jobs, beside the progress bar. Reports both every 10 seconds without a
    /// terminal, and at the start if something blocks the jobs.
    fn show(&mut self, run: &RedriveRun, cx: &mut Context<'_>) -> redrive::Result<()> {
        self.progress.at(run.tried);
        let is_early = |at: Instant| at.elapsed() < REPORT_EVERY;
        if self.reported_at.is_some_and(is_early) {
            self.progress.show(outcomes(run) + &self.blocked);
            return Ok(());
        }
        let letters = LetterFilter::new().run(self.id);
        let blocks = blocks(&self.db.dlq().blocked(&letters, None)?);
        let blocks = blocks.iter().map(|block| format!("; {}", block.because));
        self.blocked = blocks.collect();
        let line = outcomes(run) + &self.blocked;
        self.progress.show(&line);
        // Without a terminal there is no bar. The first report would only repeat the command.
        let is_news = match self.reported_at.replace(Instant::now()) {
            None => !self.blocked.is_empty(),
            Some(_) => !self.progress.is_drawn(),
        };
        if is_news {
            self.say(line, cx);
        }
        Ok(())
    }

    fn say(&self, line: String, cx: &mut Context<'_>) {
        self.progress.suspend(|| cx.say(line));
    }
}

/// Pauses, and returns early with `true` if a signal arrives.
fn is_signaled(stop: StopSignal, pause: Duration) -> bool {
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

/// What to type next, if there is anything to do about the run.
fn next(run: &RedriveRun, left: Left) -> Option<String> {
    let id = run.id;
    Some(match (left, run.state) {
        (Left::Signal, RunState::Running) => format!(
            "run {id} continues in another process. To watch or pause it:\n  {Me} dlq runs watch {id}\n  {Me} dlq runs pause {id}"
        ),
        (Left::Signal, RunState::Paused) => format!(
            "run {id} is paused. To continue or cancel it:\n  {Me} dlq runs resume {id}\n  {Me} dlq runs cancel {id}"
        ),
        (Left::Signal, state) => format!(
            "run {id} is {state}; its jobs continue. To wait for their outcomes:\n  {Me} dlq runs watch {id}"
        ),
        (Left::NoOutcome(patience), state) => {
            let time = short(patience);
            let continues = match state == RunState::Running {
                true => "workers continue the run",
                false => "the jobs wait in their queue",
            };
            format!(
                "stopped waiting: no new outcome for {time}; {continues}. To see why, or to wait again:\n  {Me} dlq runs show {id}\n  {Me} dlq runs watch {id}"
            )
        }
        (Left::Ended, RunState::Unapproved) => format!(
            "a second operator must approve the run; workers then drive it:\n  {Me} dlq runs approve {id}"
        ),
        (Left::Ended, RunState::Halted) => format!(
            "the other letters stay open. Once the cause is fixed:\n  {Me} dlq runs resume {id}"
        ),
        (Left::Ended, RunState::Finished) if run.still_running > 0 => {
            format!("for the outcomes of the running jobs:\n  {Me} dlq runs watch {id}")
        }
        (Left::Ended, RunState::Finished) if run.has_too_many_deaths() => format!(
            "more than the tolerated {} % died again. To see why:\n  {Me} dlq list run={id}",
            run.tolerated
        ),
        (Left::Ended, _) => return None,
    })
}
