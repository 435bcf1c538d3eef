//! Plays a rehearsal on its queue, step by step.

use std::hash::{BuildHasher as _, RandomState};
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use redrive::dlq::runs::{DriveStatus, RedriveRun, RunId, RunOptions, RunState};
use redrive::dlq::{Edit, GroupFilter, Letter, LetterFilter, LetterState, Validators};
use redrive::worker::StopReport;
use redrive::{Database, Failure, NewJob, Operator, Queue, Worker};

use super::alert::AlertSource;
use super::fault::{self, FailureMode, KIND, MISSING};
use super::step::{Outcome, Step, StepReport, write_commands, write_step};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::operator;
use crate::stop::StopSignal;
use crate::terminal::{counted, one_line};
use crate::time;

/// The interval between two checks of a condition and for signals.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// The interval between two questions to Prometheus.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// How long the jobs may take to die or to recover.
const OUTCOMES_WITHIN: Duration = Duration::from_mins(5);
/// How long the worker may take to stop.
const GRACE: Duration = Duration::from_secs(5);
/// Letters that are redriven first.
const CANARY: u32 = 2;

/// Why a rehearsal ended early.
pub(super) enum Halt {
    /// A signal arrived.
    Stopped,
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(error: Error) -> Halt {
        Halt::Failed(error)
    }
}

impl From<redrive::Error> for Halt {
    fn from(error: redrive::Error) -> Halt {
        Halt::Failed(error.into())
    }
}

/// A rehearsal and the steps that were played.
pub(super) struct Rehearsal<'a> {
    db: &'a Database,
    queue: Queue,
    mode: FailureMode,
    jobs: u32,
    operator: Operator,
    stop: StopSignal,
    played: Vec<StepReport>,
}

impl<'a> Rehearsal<'a> {
    pub(super) fn new(
        db: &'a Database,
        queue: &str,
        mode: FailureMode,
        jobs: u32,
        stop: StopSignal,
    ) -> Result<Rehearsal<'a>> {
        Ok(Rehearsal {
            db,
            queue: Queue::new(db, queue)?,
            mode,
            jobs,
            operator: operator::current(Some("gameday")),
            stop,
            played: Vec::new(),
        })
    }

    /// Plays every step up to the report. Breaks if a letter did not recover or no alert fired.
    pub(super) fn play(
        &mut self,
        alerts: Option<(&AlertSource, Duration)>,
        cx: &mut Context<'_>,
    ) -> Result<ControlFlow<()>, Halt> {
        let name = self.queue.name().to_owned();
        if !cx.global.json {
            writeln!(cx.out, "rehearsal on the queue {name}\n").map_err(Error::from)?;
        }
        let begin = Instant::now();
        let text = self.enqueue()?;
        let command = format!("redrive enqueue {name} {KIND} --file jobs.ndjson --max-attempts 1");
        self.end(Step::Enqueue, begin, text, Some(command), cx)?;

        let begin = Instant::now();
        let died = self.die()?;
        let text = format!("{} died", counted(died, "job"));
        let command = format!("redrive work {name} --exec ./handler --drain");
        self.end(Step::Fail, begin, text, Some(command), cx)?;

        let begin = Instant::now();
        let text = self.letters()?;
        let command = format!("redrive dlq groups {name}");
        self.end(Step::Letters, begin, text, Some(command), cx)?;

        let is_alert_missing = self.alert(alerts, cx)?;

        let begin = Instant::now();
        let invalid = self.invalid()?;
        let text = format!(
            "{} would pass, {invalid} would fail",
            self.waiting()? - invalid
        );
        let command = format!("redrive dlq validate {name} --schema gameday.schema.json");
        self.end(Step::Validate, begin, text, Some(command), cx)?;

        self.edit(invalid, cx)?;

        let begin = Instant::now();
        let run = self.redrive()?;
        let text = format!(
            "run {}: {} sent, {} recovered, {} died again",
            run.id,
            run.sent,
            run.recovered,
            run.died()
        );
        let command =
            format!("redrive dlq redrive {name} --canary {CANARY} --reason 'gateway fixed' --yes");
        self.end(Step::Redrive, begin, text, Some(command), cx)?;

        let begin = Instant::now();
        let left = self.waiting()? + run.still_running;
        let text = format!("{died} died, {} recovered, {left} left", run.recovered);
        let command = format!("redrive dlq runs show {}", run.id);
        self.end(Step::Report, begin, text, Some(command), cx)?;
        write_commands(&self.played, cx)?;
        let is_whole = left == 0 && run.recovered == died && died == u64::from(self.jobs);
        Ok(match is_whole && !is_alert_missing {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    }

    /// Reports a step that was done, and halts if a signal arrived.
    fn end(
        &mut self,
        step: Step,
        begin: Instant,
        text: String,
        command: Option<String>,
        cx: &mut Context<'_>,
    ) -> Result<(), Halt> {
        self.report(step, Outcome::Done, begin, text, command, cx)?;
        self.check()
    }

    fn report(
        &mut self,
        step: Step,
        outcome: Outcome,
        begin: Instant,
        text: String,
        command: Option<String>,
        cx: &mut Context<'_>,
    ) -> Result<()> {
        let report = StepReport {
            step,
            outcome,
            text,
            took: begin.elapsed(),
            command,
        };
        write_step(self.queue.name(), &report, cx)?;
        self.played.push(report);
        Ok(())
    }

    fn check(&mut self) -> Result<(), Halt> {
        match self.stop.check() {
            ControlFlow::Continue(()) => Ok(()),
            ControlFlow::Break(()) => Err(Halt::Stopped),
        }
    }

    /// Sleeps, and returns early if a signal arrives.
    fn pause(&mut self, pause: Duration) -> Result<(), Halt> {
        let until = Instant::now() + pause;
        loop {
            self.check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            thread::sleep(left.min(CHECK_EVERY));
        }
    }

    fn enqueue(&self) -> Result<String, Halt> {
        let random = RandomState::new();
        let jobs = (1..=self.jobs).map(|order| {
            let payload = fault::payload(self.mode, order, random.hash_one(order))
                .map_err(|error| Error::caused_by("could not write a payload", error))?;
            Ok(NewJob::raw(KIND, &payload)?.max_attempts(1))
        });
        let jobs: Vec<NewJob> = jobs.collect::<Result<_>>()?;
        let enqueued = self.queue.enqueue_jobs(&jobs)?;
        Ok(format!(
            "{} of the kind {KIND} enqueued",
            counted(enqueued.len() as u64, "job")
        ))
    }

    /// Runs the jobs with the handler that fails. Returns how many died.
    fn die(&mut self) -> Result<u64, Halt> {
        let (queue, deadline) = (self.queue.clone(), Instant::now() + OUTCOMES_WITHIN);
        let ((), stopped) = self.work(fault::fail, |rehearsal, worker| {
            loop {
                if let Some(failure) = worker.failure() {
                    return Err(Error::new(format!("the worker failed: {failure}")).into());
                }
                if queue.is_drained()? {
                    return Ok(());
                }
                if Instant::now() > deadline {
                    return Err(too_late("the jobs did not die").into());
                }
                rehearsal.pause(CHECK_EVERY)?;
            }
        })?;
        Ok(stopped.stats.dead)
    }

    /// Runs a worker until `until` returns, and always stops it.
    fn work<T>(
        &mut self,
        handler: fn(&str) -> Result<(), Failure>,
        until: impl FnOnce(&mut Self, &Worker) -> Result<T, Halt>,
    ) -> Result<(T, StopReport), Halt> {
        let worker = Worker::builder(&self.queue)
            .version(concat!("redrive-cli ", env!("CARGO_PKG_VERSION")))
            .handle_kind(KIND, move |job| handler(job.payload().get()))
            .start()?;
        let ended = until(self, &worker);
        let stopped = worker.stop(GRACE);
        Ok((ended?, stopped?))
    }

    /// The letters that wait for an operator.
    fn letters_waiting(&self) -> LetterFilter {
        LetterFilter::new()
            .queue(self.queue.name())
            .states([LetterState::Open, LetterState::Quarantined])
    }

    fn waiting(&self) -> Result<u64, Halt> {
        Ok(self.db.dlq().count(&self.letters_waiting())?.letters)
    }

    /// Counts the letters and describes their groups.
    fn letters(&self) -> Result<String, Halt> {
        let filter = GroupFilter::new().queue(self.queue.name());
        let groups = self.db.dlq().groups().list(&filter)?;
        let described = groups
            .iter()
            .map(|group| format!("{} {}", group.deaths, one_line(&group.error_class)));
        let described: Vec<String> = described.collect();
        Ok(format!(
            "{} in {}: {}",
            counted(self.waiting()?, "letter"),
            counted(groups.len() as u64, "failure group"),
            described.join(", ")
        ))
    }

    /// Waits for an alert. Returns whether it is missing.
    fn alert(
        &mut self,
        alerts: Option<(&AlertSource, Duration)>,
        cx: &mut Context<'_>,
    ) -> Result<bool, Halt> {
        let begin = Instant::now();
        let Some((source, within)) = alerts else {
            let text = "skipped, no --prometheus".to_owned();
            self.report(Step::Alert, Outcome::Skipped, begin, text, None, cx)?;
            return Ok(false);
        };
        let command = Some(format!("curl {source}/api/v1/alerts"));
        loop {
            let answer = source.firing(self.queue.name());
            if let Ok(Some(alert)) = &answer {
                let text = format!("{} fires for the queue", one_line(alert));
                self.end(Step::Alert, begin, text, command, cx)?;
                return Ok(false);
            }
            if begin.elapsed() >= within {
                let problem = match answer {
                    Ok(_) => "no alert has the queue as a label".to_owned(),
                    Err(error) => format!("could not ask {source}: {}", one_line(&error)),
                };
                let text = format!("none fired within {}: {problem}", time::short(within));
                self.report(Step::Alert, Outcome::Failed, begin, text, command, cx)?;
                return Ok(true);
            }
            self.pause(ASK_EVERY.min(within))?;
        }
    }

    /// Counts the letters whose payload is invalid.
    fn invalid(&self) -> Result<u64, Halt> {
        let check = |letter: &Letter| match &letter.payload {
            Some(payload) => fault::check(payload.get()),
            None => Err("the payload is not JSON".to_owned()),
        };
        let validators = Validators::new().any(check);
        let validation = self
            .db
            .dlq()
            .validate(&self.letters_waiting(), &validators)?;
        Ok(validation.failed)
    }

    /// Adds the missing field to the payloads.
    fn edit(&mut self, invalid: u64, cx: &mut Context<'_>) -> Result<(), Halt> {
        let begin = Instant::now();
        if invalid == 0 {
            let text = "skipped, because every payload is valid".to_owned();
            self.report(Step::Edit, Outcome::Skipped, begin, text, None, cx)?;
            return Ok(());
        }
        let edited = self.db.dlq().edit(
            &self.letters_waiting(),
            &Edit::merge(MISSING)?,
            &self.operator,
        )?;
        let text = format!(
            "{} edited, {} unchanged",
            counted(edited.edited.len() as u64, "letter"),
            edited.unchanged
        );
        let name = self.queue.name();
        let command = format!("redrive dlq edit {name} --merge '{MISSING}' --yes");
        self.end(Step::Edit, begin, text, Some(command), cx)
    }

    /// Redrives the letters with a canary, and runs the jobs with the handler that works.
    fn redrive(&mut self) -> Result<RedriveRun, Halt> {
        let deadline = Instant::now() + OUTCOMES_WITHIN;
        let (run, _) = self.work(fault::work, |rehearsal, worker| {
            let db = rehearsal.db;
            let filter = LetterFilter::new().queue(rehearsal.queue.name());
            let options = RunOptions::new().canary(CANARY);
            let started = db
                .dlq()
                .runs()
                .start(&filter, &options, &rehearsal.operator)?;
            let Some((run, mut driver)) = started else {
                return Err(Error::new("no letter of the rehearsal is open").into());
            };
            loop {
                let step = driver.step()?;
                // Otherwise the run ended, or a worker drives it.
                if step.status == DriveStatus::Running {
                    rehearsal.pause(step.wait)?;
                }
                let stored = stored(db, run.id)?;
                if stored.state != RunState::Running && stored.still_running == 0 {
                    return Ok(stored);
                }
                if let Some(failure) = worker.failure() {
                    return Err(Error::new(format!("the worker failed: {failure}")).into());
                }
                if Instant::now() > deadline {
                    return Err(too_late("the letters have no outcome").into());
                }
                rehearsal.pause(CHECK_EVERY)?;
            }
        })?;
        // The outcomes of the last jobs are counted once the worker has stopped.
        stored(self.db, run.id)
    }
}

fn stored(db: &Database, run: RunId) -> Result<RedriveRun, Halt> {
    let stored = db.dlq().runs().get(run)?;
    stored.ok_or_else(|| Error::new(format!("run {run} no longer exists")).into())
}

fn too_late(problem: &str) -> Error {
    Error::new(format!("{problem} within {}", time::short(OUTCOMES_WITHIN)))
}
