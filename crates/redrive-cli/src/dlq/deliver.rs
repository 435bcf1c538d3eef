//! `redrive dlq deliver`: sends letters to a command or a sink instead of a queue.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use clap::ArgGroup;
use redrive::Failure;
use redrive::dlq::{Letter, LetterFilter, LetterState, Sink};

use super::letter_table::letter_table;
use super::none_matched::none_of;
use crate::batches::{Batches, Undo, Watched};
use crate::bulk::{Changed, Found, SAMPLE};
use crate::left_out::LeftOut;
use crate::not_done::{NotDone, locked};
use crate::prelude::*;
use crate::shell::Shell;

/// The states of the letters that are delivered.
const STATES: [LetterState; 1] = [LetterState::Open];

const DELIVER: Batches =
    Batches::of_letters("deliver", "delivered", Undo::Hint("the others stay open"));

/// Deliver open letters to a command or a sink, one at a time
///
/// Without --yes this is a dry run. Letters given by id are delivered at once. The command gets
/// the payload as one line on stdin, or the captured bytes unchanged. Its stdout is that of this
/// program, and is discarded with --json.
///
/// If the command exits with 0, the letter is recovered. Otherwise it stays open and its timeline
/// records the error. Delivery is at least once: if this program is killed during a delivery, the
/// letter stays open and is delivered again. A letter whose payload was redacted stays open until
/// `dlq edit` replaces it.
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

Ctrl-C ends the command, and stops after its letter. The exit code is 1 then, and if
a letter was not delivered or none matches."
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
}

impl Deliver {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let sink = self.sink(cx)?;
        let db = &cx.database()?;
        let to_act = self.selection.to_act(None)?;
        let letters = self.selection.letters()?;
        let open = &letters.within(&STATES);
        let (selection, found) = (&self.selection, self.find(open, db)?);
        found.change(
            DELIVER,
            to_act,
            cx,
            |db| self.act(open, &*sink, db),
            |cx| none_of(&STATES, selection, &letters, None, cx),
        )
    }

    /// Counts the letters that would be delivered, and in a dry run those that were redacted.
    fn find(&self, open: &LetterFilter, db: &Database) -> Result<Found> {
        let count = db.dlq().count(open)?;
        let total = self.selection.limited(count);
        let (mut redacted, mut shown) = (0, Vec::new());
        let is_dry_run = self.selection.is_dry_run();
        if is_dry_run {
            let tried = open.clone().limit(total);
            db.dlq().for_each(&tried, |letter| -> Result<()> {
                match letter.redacted.is_empty() {
                    true if shown.len() < SAMPLE.into() => shown.push(letter.clone()),
                    true => {}
                    false => redacted += 1,
                }
                Ok(())
            })?;
        }
        let left_out = LeftOut::of(redacted, "redacted", "the payload was redacted");
        let include = Some(format!("`{Me} dlq edit` replaces it"));
        let left_out = left_out.map(|line| LeftOut { include, ..line });
        Ok(Found {
            affected: total - redacted,
            left_out: left_out.into_iter().collect(),
            sample: is_dry_run.then(|| letter_table(&shown)),
            ..Found::of(count, "open letter", &self.selection)
        })
    }

    /// Delivers the letters, and finds out which it did not deliver.
    fn act(
        &self,
        open: &LetterFilter,
        sink: &(dyn Sink + Send + Sync),
        db: &Watched,
    ) -> redrive::Result<Changed> {
        let sink = NamedSink {
            sink,
            name: self.sink.as_deref().unwrap_or("command"),
        };
        let operator = self.selection.operator();
        let done = db.dlq().deliver(open, &sink, &operator)?;
        let failed = done.failed.into_iter().map(|failed| {
            let cause = format!("{}: {}", failed.error_class, failed.error_message);
            (failed.id, ("failed", cause))
        });
        let redacted = format!("its payload was redacted; `{Me} dlq edit` replaces it");
        let why = |letter: &Letter| match letter.redacted.is_empty() {
            true => locked(),
            false => ("redacted", redacted.clone()),
        };
        let skipped = NotDone::letters(&done.skipped, &STATES, why, db).0;
        Ok(NotDone(failed.chain(skipped).collect()).into())
    }

    fn sink(&self, cx: &Context<'_>) -> Result<SharedSink> {
        if let Some(shell) = Shell::given(self.exec.as_deref(), self.deadline)? {
            let stdout: fn() -> Stdio = match cx.global.json {
                true => Stdio::null,
                false => Stdio::inherit,
            };
            return Ok(Arc::new(move |letter: &Letter| {
                shell.run_letter(letter, stdout)
            }));
        }
        let (sinks, name) = (&cx.program.sinks, self.sink.as_deref().unwrap_or_default());
        let names: Vec<&str> = sinks.keys().map(String::as_str).collect();
        match (sinks.get(name), &*names) {
            (Some(sink), _) => Ok(Arc::clone(sink)),
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

/// A sink by the name that this program gave it.
struct NamedSink<'a> {
    sink: &'a (dyn Sink + Send + Sync),
    name: &'a str,
}

impl Sink for NamedSink<'_> {
    fn send(&self, letter: &Letter) -> Result<(), Failure> {
        self.sink.send(letter)
    }

    fn name(&self) -> &str {
        self.name
    }
}
