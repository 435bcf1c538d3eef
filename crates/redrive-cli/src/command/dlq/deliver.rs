//! `redrive dlq deliver`: letters to a command or a sink instead of a queue.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::{ArgGroup, Args};
use redrive::{Deliveries, Failure, Letter, LetterState, Sink};
use serde_json::json;

use super::chosen::Chosen;
use super::filter::quoted;
use super::list::open_letters;
use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::person;
use crate::progress::Progress;
use crate::render::{counted, grouped, json_line};
use crate::shell::{Output, Shell};
use crate::{Ending, Streams, duration};

/// How many letters a dry run shows.
const SAMPLE: u64 = 5;
/// How many letters that were not delivered are named.
const NAMED: usize = 20;

/// Deliver open letters to a command, or to a sink of the program, one after the other.
///
/// The command gets the payload on its stdin as a line, or the captured bytes just as they came,
/// and what else is known in its environment. When it exits with 0 the letter is recovered;
/// otherwise it stays open, and its story tells the error. If this program is killed in between,
/// the letter stays open and goes again the next time: at least once.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("which").required(true)),
    group(ArgGroup::new("where").required(true)),
    after_help = "\
Examples:
  redrive dlq deliver --id 42 --exec 'curl -fsS --data-binary @- https://example.org/hook'
  redrive dlq deliver orders --kind order.placed --exec 'kcat -P -b broker -t orders' --yes

Environment:
  REDRIVE_LETTER_ID, REDRIVE_QUEUE, REDRIVE_KIND, REDRIVE_STATE,
  REDRIVE_REASON, REDRIVE_ERROR_CLASS, REDRIVE_ERROR_MESSAGE,
  REDRIVE_GENERATION, REDRIVE_ENQUEUED_AT, REDRIVE_DIED_AT (RFC 3339), and of
  captured ones REDRIVE_SOURCE, REDRIVE_POSITION, REDRIVE_CONTENT_TYPE and
  REDRIVE_HEADERS (a JSON object)

The exit code is 1 when a letter was not delivered, or none matches."
)]
pub(crate) struct Deliver {
    #[command(flatten)]
    chosen: Chosen,
    /// The command, run by `sh -c` for each letter.
    #[arg(long, value_name = "COMMAND", group = "where")]
    exec: Option<String>,
    /// A sink that this program registered.
    #[arg(long, value_name = "NAME", group = "where")]
    sink: Option<String>,
    /// How long a command may run.
    #[arg(long, value_parser = duration::parse, default_value = "1m", allow_hyphen_values = true)]
    deadline: Duration,
    /// Why, for the story of the letters and the audit.
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// Change nothing: say how many letters match, and show a few.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Deliver all letters of the queue that match; those that are named by --id go at once.
    #[arg(long)]
    yes: bool,
}

impl Deliver {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let (sink, _interrupt) = self.sink(io)?;
        let db = connect::database(arguments, Patience::Minute, io)?;
        let open = self.chosen.letters()?.state(LetterState::Open);
        let matching = db.count_letters(&open)?.letters;
        let total = self.chosen.limited(matching);
        if self.dry_run || (self.chosen.ids().is_empty() && !self.yes) {
            let sample = db.letters(&open.limit(SAMPLE.min(total.max(1))))?;
            return self.dry_run(total, &sample, arguments, io);
        }
        let progress = Progress::of("delivering", total);
        let watched = Watched {
            sink: &*sink,
            name: self.name(),
            sent: AtomicU64::new(0),
            progress: &progress,
        };
        let done = db.redrive_to(&open, &watched, &person::act(self.why.as_deref()))?;
        drop(progress);
        report(&done, arguments, io)?;
        Ok(
            match done.failed.is_empty() && done.skipped.is_empty() && !done.delivered.is_empty() {
                true => Ending::Done,
                false => Ending::NothingMatched,
            },
        )
    }

    /// Where the letters go.
    fn sink(&self, io: &Streams<'_>) -> Result<(Arc<dyn Sink + Send + Sync>, Option<Interrupt>)> {
        if let Some(name) = &self.sink {
            let known = io.program.sinks.get(name).ok_or_else(|| {
                let names: Vec<&str> = io.program.sinks.keys().map(String::as_str).collect();
                Error::new(match names.is_empty() {
                    true => "this program has no sinks; give --exec COMMAND".to_owned(),
                    false => format!("there is no sink `{name}`; there are {}", names.join(", ")),
                })
            })?;
            return Ok((Arc::clone(known), None));
        }
        let command = self.exec.as_deref().unwrap_or_default();
        let deadline = self.deadline;
        let shell = Arc::new(Shell::new(command, Some(deadline)));
        let interrupt = Interrupt::of(&shell)?;
        let send = move |letter: &Letter| shell.handle_letter(letter, Output::Ours, deadline);
        Ok((Arc::new(send), Some(interrupt)))
    }

    /// What the story of a letter calls the sink.
    fn name(&self) -> &str {
        self.sink.as_deref().unwrap_or("command")
    }

    fn dry_run(
        &self,
        total: u64,
        sample: &[Letter],
        arguments: &Arguments,
        io: &mut Streams<'_>,
    ) -> Result<Ending> {
        if arguments.json {
            json_line(io.out, &json!({ "dry_run": true, "would_deliver": total }))?;
        }
        if total == 0 {
            io.say("no open letter matches");
            return Ok(Ending::NothingMatched);
        }
        if !arguments.json {
            writeln!(
                io.out,
                "{} would be delivered.\n",
                counted(total, "open letter")
            )?;
            open_letters(sample).write(io.out)?;
            let to = match (&self.sink, &self.exec) {
                (Some(name), _) => format!("--sink {}", quoted(name)),
                (None, command) => {
                    format!("--exec {}", quoted(command.as_deref().unwrap_or_default()))
                }
            };
            writeln!(
                io.out,
                "\nNothing was delivered. To act:\n  {} dlq deliver {} {to} --yes",
                io.program.name,
                self.chosen.words()
            )?;
        }
        Ok(Ending::Done)
    }
}

/// A sink whose progress is shown.
struct Watched<'a> {
    sink: &'a (dyn Sink + Send + Sync),
    name: &'a str,
    sent: AtomicU64,
    progress: &'a Progress,
}

impl Sink for Watched<'_> {
    fn send(&self, letter: &Letter) -> Result<(), Failure> {
        let sent = self.sink.send(letter);
        self.progress
            .at(self.sent.fetch_add(1, Ordering::Relaxed) + 1);
        sent
    }

    fn name(&self) -> &str {
        self.name
    }
}

fn report(done: &Deliveries, arguments: &Arguments, io: &mut Streams<'_>) -> Result<()> {
    if arguments.json {
        for id in &done.delivered {
            json_line(io.out, &json!({ "id": id.get(), "outcome": "delivered" }))?;
        }
        for failed in &done.failed {
            json_line(
                io.out,
                &json!({
                    "id": failed.id.get(), "outcome": "failed",
                    "error_class": failed.error_class, "error_message": failed.error_message,
                }),
            )?;
        }
        for id in &done.skipped {
            json_line(io.out, &json!({ "id": id.get(), "outcome": "skipped" }))?;
        }
        return Ok(());
    }
    writeln!(
        io.out,
        "{} delivered",
        counted(done.delivered.len() as u64, "letter")
    )?;
    for failed in done.failed.iter().take(NAMED) {
        io.say(format!(
            "letter {} is not delivered: {}: {}",
            failed.id, failed.error_class, failed.error_message
        ));
    }
    if done.failed.len() > NAMED {
        let more = (done.failed.len() - NAMED) as u64;
        io.say(format!("and {} more are not delivered", grouped(more)));
    }
    for id in done.skipped.iter().take(NAMED) {
        io.say(format!(
            "letter {id} is not delivered: it is not open, or in other hands"
        ));
    }
    Ok(())
}
