//! `redrive dlq deliver`: sends letters to a command or a sink instead of a queue.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::ArgGroup;
use redrive::dlq::{Deliveries, Letter, LetterFilter, LetterState, Sink};
use redrive::{Failure, JobId};
use serde_json::Value;

use super::letter_table::letter_sample;
use super::none_matched::{no_letter, none_matched};
use crate::batches::{Batches, GoOn, Undo};
use crate::bulk::{Change, Changed, Found};
use crate::left_out::{LeftOut, redacted_include};
use crate::not_done::NotDone;
use crate::prelude::*;
use crate::shell::{Interrupt, Shell, Stdout};
use crate::terminal::Progress;

/// The states of the letters that are delivered.
const STATES: [LetterState; 1] = [LetterState::Open];

const DELIVER: Batches = Batches {
    noun: "letter",
    action: "deliver",
    progressive: "delivering",
    participle: "delivered",
    undo: Undo::Always("the others stay open"),
};

/// Deliver open letters to a command or a sink, one at a time
///
/// Without --yes this is a dry run. Letters given by id are delivered at once. The command gets
/// the payload as one line on stdin, or the captured bytes unchanged. Its stdout is that of this
/// program, and is discarded with --json.
///
/// If the command exits with 0, the letter is recovered. Otherwise it stays open and its timeline
/// records the error. Delivery is at least once: if this program is killed during a delivery, the
/// letter stays open and is delivered again. A letter whose payload was redacted stays open unless
/// --force is given.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("where").required(true)),
    before_help = "\
Examples:
  redrive dlq deliver 42 --exec 'curl -fsS --data-binary @- example.org/hook'
  redrive dlq deliver orders kind=order --exec 'kcat -P -t orders' --yes
",
    after_help = "\
Environment of the command:
  REDRIVE_LETTER_ID, REDRIVE_QUEUE, REDRIVE_KIND, REDRIVE_STATE,
  REDRIVE_CAUSE, REDRIVE_ERROR_CLASS, REDRIVE_ERROR_MESSAGE,
  REDRIVE_GENERATION, REDRIVE_ENQUEUED_AT, REDRIVE_DIED_AT (RFC 3339);
  for captured letters also REDRIVE_SOURCE, REDRIVE_POSITION,
  REDRIVE_CONTENT_TYPE and REDRIVE_HEADERS (a JSON object)

The exit code is 1 if a letter was not delivered or none matches. Ctrl-C ends the
command, prints how many letters were delivered, and exits with 130."
)]
pub(super) struct Deliver {
    #[command(flatten)]
    selection: Bulk,
    /// Command that `sh -c` runs for each letter.
    #[arg(long, help_heading = "Action", value_name = "COMMAND", group = "where")]
    exec: Option<String>,
    /// Sink that this program registered.
    #[arg(long, help_heading = "Action", value_name = "NAME", group = "where")]
    sink: Option<String>,
    /// Time limit of the command [default: 1m].
    #[arg(long, help_heading = "Action", value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
    deadline: Option<Duration>,
    /// Also deliver letters whose payload was redacted.
    #[arg(long, help_heading = "Action")]
    force: bool,
}

impl Deliver {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let (sink, shell) = self.sink(cx)?;
        let db = &cx.database()?;
        if self.force {
            self.selection.check_reason("--force")?;
        }
        let letters = self.selection.letters()?;
        let open = &letters.within(&STATES);
        let (selection, found) = (&self.selection, self.find(open, db)?);
        let has_letters = found.matching > 0 || !selection.ids().is_empty();
        if has_letters && !selection.is_dry_run() {
            return self.deliver(open, found.affected, &*sink, shell.as_ref(), cx);
        }
        Change {
            batches: DELIVER,
            to_act: selection.is_dry_run().then(|| selection.to_act(self.force)),
            found,
            act: |_: GoOn<'_>| Ok(Changed::default()),
            none: |cx: &mut Context<'_>| {
                none_matched(
                    &no_letter(&STATES),
                    selection.queue(),
                    &letters,
                    &STATES,
                    None,
                    cx,
                )
            },
        }
        .run(cx)
    }

    /// Counts the letters that would be delivered, and in a dry run those that were redacted.
    fn find(&self, open: &LetterFilter, db: &Database) -> Result<Found> {
        let count = db.dlq().count(open)?;
        let total = self.selection.limited(count.letters);
        let mut redacted = 0;
        // A letter that could be redriven was not redacted.
        if self.selection.is_dry_run() && !self.force && count.redrivable < count.letters {
            let tried = open.clone().limit(total);
            db.dlq().for_each(&tried, |letter| -> Result<()> {
                redacted += u64::from(!letter.redacted.is_empty());
                Ok(())
            })?;
        }
        let left_out = LeftOut::of(redacted, "redacted", "the payload was redacted");
        let left_out = left_out.map(|line| line.including(redacted_include()));
        let affected = total - redacted;
        let is_shown = |letter: &Letter| self.force || letter.redacted.is_empty();
        Ok(Found {
            matching: count.letters,
            affected,
            left_out: left_out.into_iter().collect(),
            heading: format!("{} would be delivered.", counted(affected, "open letter")),
            sample: match self.selection.is_dry_run() {
                true => Some(letter_sample(open, total, is_shown, db)?),
                false => None,
            },
        })
    }

    /// Delivers the letters, until a signal ends the process.
    fn deliver(
        &self,
        open: &LetterFilter,
        total: u64,
        sink: &(dyn Sink + Send + Sync),
        shell: Option<&Arc<Shell>>,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let db = &cx.database()?;
        let progress = Progress::of(DELIVER.progressive, total);
        let so_far = Arc::new(Mutex::new(SoFar::default()));
        let sink = ProgressSink {
            sink,
            name: self.sink.as_deref().unwrap_or("command"),
            so_far: Arc::clone(&so_far),
            progress: &progress,
        };
        let (is_json, at_signal) = (cx.global.json, Arc::clone(&so_far));
        let interrupt = Interrupt::of(shell, move || {
            let (mut out, mut err) = (io::stdout().lock(), io::stderr());
            // If stdout or stderr is closed, the exit code still reports the interruption.
            _ = lock(&at_signal).report_stop(total, is_json, &mut out, &mut err);
        })?;
        let operator = self.selection.operator();
        let done = match self.force {
            true => db.dlq().deliver_forced(open, &sink, &operator),
            false => db.dlq().deliver(open, &sink, &operator),
        };
        drop((interrupt, progress));
        let done = match done {
            Ok(done) => done,
            Err(error) => {
                let mut so_far = lock(&so_far);
                so_far.forget_unrecorded(db);
                if so_far.tried() > 0 {
                    // An error that ended the delivery counts more than a closed output.
                    _ = so_far.report_stop(total, is_json, cx.out, cx.err);
                }
                return Err(error.into());
            }
        };
        let tried = done.delivered.len() + done.failed.len() + done.redacted.len();
        let left = self.selection.left(tried as u64);
        let not_done = NotDone::letters(&done.skipped, &STATES, open, left, db);
        report(&done, not_done, cx)
    }

    /// The sink, and the shell if the sink is a command.
    fn sink(&self, cx: &Context<'_>) -> Result<(SharedSink, Option<Arc<Shell>>)> {
        if let Some((shell, deadline)) = Shell::given(self.exec.as_deref(), self.deadline)? {
            let running = Arc::clone(&shell);
            let stdout = match cx.global.json {
                true => Stdout::Null,
                false => Stdout::Inherit,
            };
            let send = move |letter: &Letter| running.run_letter(letter, stdout, deadline);
            return Ok((Arc::new(send), Some(shell)));
        }
        let (sinks, name) = (&cx.registry.sinks, self.sink.as_deref().unwrap_or_default());
        let names: Vec<&str> = sinks.keys().map(String::as_str).collect();
        match (sinks.get(name), &*names) {
            (Some(sink), _) => Ok((Arc::clone(sink), None)),
            (None, []) => Err(Error::new("this program has no sinks; use --exec COMMAND")),
            (None, names) => Err(Error::new(format!(
                "sink `{name}` does not exist; expected one of {}",
                names.join(", ")
            ))),
        }
    }
}

/// A sink of this program, or a command.
type SharedSink = Arc<dyn Sink + Send + Sync>;

/// What a delivery has done until a signal or an error ends it.
#[derive(Default)]
struct SoFar {
    /// The letters that the sink accepted.
    accepted: Vec<JobId>,
    rejected: u64,
}

impl SoFar {
    fn tried(&self) -> u64 {
        self.accepted.len() as u64 + self.rejected
    }

    /// Forgets the last letter if the error came before its delivery was recorded.
    fn forget_unrecorded(&mut self, db: &Database) {
        let Some(last) = self.accepted.last() else {
            return;
        };
        let letter = db.dlq().get(*last).ok().flatten();
        if letter.is_none_or(|letter| letter.state != LetterState::Recovered) {
            self.accepted.pop();
        }
    }

    fn report_stop(
        &self,
        total: u64,
        is_json: bool,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> Result<()> {
        let delivered = self.accepted.len() as u64;
        let stopped = DELIVER.stopped(delivered.into(), total);
        if !is_json {
            return Ok(writeln!(err, "{stopped}")?);
        }
        print_outcomes(&self.accepted, "delivered", out)?;
        print_sum(delivered, self.rejected, &[], out)?;
        out.flush()?;
        json_line(err, &json!({ "message": stopped }))
    }
}

fn lock(so_far: &Mutex<SoFar>) -> MutexGuard<'_, SoFar> {
    so_far.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A sink that counts its letters on a progress bar.
struct ProgressSink<'a> {
    sink: &'a (dyn Sink + Send + Sync),
    name: &'a str,
    so_far: Arc<Mutex<SoFar>>,
    progress: &'a Progress,
}

impl Sink for ProgressSink<'_> {
    fn send(&self, letter: &Letter) -> Result<(), Failure> {
        let sent = self.sink.send(letter);
        let mut so_far = lock(&self.so_far);
        match sent {
            Ok(()) => so_far.accepted.push(letter.id),
            Err(_) => so_far.rejected += 1,
        }
        self.progress.at(so_far.tried());
        sent
    }

    fn name(&self) -> &str {
        self.name
    }
}

/// Prints a line of JSON for each letter.
fn print_outcomes(letters: &[JobId], outcome: &str, out: &mut dyn Write) -> Result<()> {
    for id in letters {
        json_line(out, &json!({ "id": id.get(), "outcome": outcome }))?;
    }
    Ok(())
}

/// Prints the last line of JSON.
fn print_sum(delivered: u64, failed: u64, skipped: &[Value], out: &mut dyn Write) -> Result<()> {
    json_line(
        out,
        &json!({ "action": "deliver", "dry_run": false, "letters": delivered, "failed": failed, "skipped": skipped }),
    )
}

/// Reports what was delivered. The exit code is 1 if a letter was not, or if none was.
fn report(done: &Deliveries, mut not_done: NotDone, cx: &mut Context<'_>) -> Result<Ending> {
    let cause = format!(
        "its payload was redacted; `{Me} dlq edit` replaces it, --force --reason TEXT delivers it"
    );
    let redacted = done.redacted.iter();
    not_done
        .0
        .extend(redacted.map(|id| (*id, ("redacted", cause.clone()))));
    let is_all = done.failed.is_empty() && not_done.0.is_empty();
    let ending = Ending::of(is_all && !done.delivered.is_empty());
    if cx.global.json {
        for (ids, outcome) in [
            (&done.delivered, "delivered"),
            (&done.skipped, "skipped"),
            (&done.redacted, "redacted"),
        ] {
            print_outcomes(ids, outcome, cx.out)?;
        }
        for failed in &done.failed {
            let line = object!(failed =>
                id, outcome = "failed", error_class, error_message,
            );
            json_line(cx.out, &line)?;
        }
        let (delivered, failed) = (done.delivered.len() as u64, done.failed.len() as u64);
        print_sum(delivered, failed, &not_done.json("letters"), cx.out)?;
        return Ok(ending);
    }
    writeln!(
        cx.out,
        "{} delivered",
        counted(done.delivered.len() as u64, "letter")
    )?;
    let failed = done.failed.iter().map(|failed| {
        let cause = format!("{}: {}", failed.error_class, failed.error_message);
        (failed.id, ("failed", cause))
    });
    NotDone(failed.collect()).say("letter", DELIVER.participle, cx);
    not_done.say("letter", DELIVER.participle, cx);
    Ok(ending)
}
