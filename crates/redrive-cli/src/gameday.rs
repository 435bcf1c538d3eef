//! `redrive gameday`: a rehearsal of the way from a failure to a closed group, on a scratch queue.

mod fault;
mod step;
mod alert;
mod rehearsal;

use std::hash::{BuildHasher as _, RandomState};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use clap::Args;
use redrive::Database;

use crate::context::{Context, Ending};
use crate::error::{Error, Result};
use crate::operator;
use crate::stop::StopSignal;
use crate::terminal::{counted, one_line};
use crate::time;
use alert::{AlertSource, alerts_url};
use fault::FailureMode;
use rehearsal::{Halt, Rehearsal};
use step::{Outcome, Step, StepReport, write_plan, write_step};

/// Rehearse a failure on a scratch queue: jobs die, are fixed and recover
///
/// Without --yes this prints the plan. With --yes it enqueues 20 jobs into a new queue `gameday-` and
/// 12 hexadecimal digits, runs a worker in which they die, looks at the letters and failure groups,
/// waits for an alert, validates and edits the letters, and redrives them with a canary. Then it
/// removes every row of the queue, apart from its audit. No job of another queue is claimed.
#[derive(Args, Debug)]
#[command(
    override_usage = "redrive gameday [OPTIONS]\n       redrive gameday --clean QUEUE",
    before_help = "\
Examples:
  redrive gameday
  redrive gameday --fail schema --jobs 50 --yes
  redrive gameday --prometheus http://prometheus:9090 --alert-within 10m --yes
  redrive gameday --clean gameday-0123456789ab
",
    after_help = "\
The command needs the roles operator and worker. Its worker also does the chores of
every worker, such as running due policies. Prometheus must answer plain HTTP.

Ctrl-C ends the rehearsal and removes the queue. The exit code is 1 then, if no alert
fires in time, and if a letter does not recover. If the queue could not be removed,
the last line is the command that removes it."
)]
pub(crate) struct Gameday {
    /// How the jobs fail: a timeout, a missing field, a panic, or a mix.
    #[arg(
        long,
        help_heading = "Rehearsal",
        value_name = "HOW",
        default_value = "timeout"
    )]
    fail: FailureMode,
    /// Number of jobs, from 1 to 1000.
    #[arg(long, help_heading = "Rehearsal", value_name = "N", default_value_t = 20, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1000))]
    jobs: u32,
    /// Wait until an alert about the queue fires in this Prometheus.
    #[arg(long, help_heading = "Rehearsal", value_name = "URL", value_parser = alerts_url)]
    prometheus: Option<AlertSource>,
    /// How long to wait for the alert.
    #[arg(long, help_heading = "Rehearsal", value_name = "TIME", value_parser = time::parse, default_value = "5m", requires = "prometheus", allow_hyphen_values = true)]
    alert_within: Duration,
    /// Leave the queue as it is at the end, to look at it.
    #[arg(long, help_heading = "Rehearsal")]
    keep: bool,
    /// Remove the queue of an earlier rehearsal, and do nothing else.
    #[arg(long, help_heading = "Action", value_name = "QUEUE", conflicts_with_all = ["fail", "jobs", "prometheus", "keep", "yes"])]
    clean: Option<String>,
    /// Play the rehearsal.
    #[arg(long, help_heading = "Action")]
    yes: bool,
}

impl Gameday {
    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        if let Some(queue) = &self.clean {
            let db = cx.database()?;
            return match clean(queue, &db, cx)? {
                0 => Ok(Ending::NothingMatched),
                _ => Ok(Ending::Done),
            };
        }
        if !self.yes {
            write_plan(&self.steps(), cx)?;
            return Ok(Ending::Done);
        }
        self.play(cx)
    }

    /// The steps, each with a sentence about what it will do.
    fn steps(&self) -> Vec<(Step, String)> {
        let fix = match self.fail {
            FailureMode::Schema | FailureMode::Random => "add the missing field to the payloads",
            FailureMode::Timeout | FailureMode::Crash => "skipped, because every payload is valid",
        };
        let alert = match &self.prometheus {
            Some(source) => format!(
                "wait up to {} for an alert about the queue in {source}",
                time::short(self.alert_within)
            ),
            None => "skipped, no --prometheus".to_owned(),
        };
        let clean = match self.keep {
            true => "skipped, --keep",
            false => "remove every row of the queue except its audit",
        };
        vec![
            (
                Step::Enqueue,
                format!(
                    "enqueue {} into a new queue",
                    counted(self.jobs.into(), "job")
                ),
            ),
            (
                Step::Fail,
                format!("run a worker in which they {}", self.fail.verb()),
            ),
            (
                Step::Letters,
                "count the letters and their failure groups".to_owned(),
            ),
            (Step::Alert, alert),
            (
                Step::Validate,
                "check the payloads of the letters".to_owned(),
            ),
            (Step::Edit, fix.to_owned()),
            (
                Step::Redrive,
                "redrive the letters with a canary, with a handler that works".to_owned(),
            ),
            (
                Step::Report,
                "count what died, recovered and is left".to_owned(),
            ),
            (Step::Clean, clean.to_owned()),
        ]
    }

    /// Plays the rehearsal, and removes its queue however it ended.
    fn play(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let stop = StopSignal::listen()?;
        let db = cx.database()?;
        let queue = new_queue_name();
        let mut rehearsal = Rehearsal::new(&db, &queue, self.fail, self.jobs, stop)?;
        let alerts = self
            .prometheus
            .as_ref()
            .map(|source| (source, self.alert_within));
        let played = rehearsal.play(alerts, cx);
        // The queue is removed even if the reader of the output is gone.
        let cleaned = match self.keep {
            true => {
                cx.say(format!(
                    "the queue was kept; to remove it: redrive gameday --clean {queue}"
                ));
                Ok(())
            }
            false => clean(&queue, &db, cx).map(drop),
        };
        let ending = match played {
            Ok(ControlFlow::Continue(())) => Ending::Done,
            Ok(ControlFlow::Break(())) => Ending::NothingMatched,
            Err(Halt::Stopped) => {
                cx.say("stopped by a signal");
                Ending::NothingMatched
            }
            Err(Halt::Failed(error)) => {
                if let Err(error) = cleaned {
                    cx.say(error.one_line());
                }
                return Err(match error {
                    Error::Denied(message) => {
                        Error::Denied(format!("{message}; its worker also needs the role worker"))
                    }
                    Error::BrokenPipe | Error::Failed(..) => error,
                });
            }
        };
        cleaned.map(|()| ending)
    }
}

/// A queue name that no other rehearsal has.
fn new_queue_name() -> String {
    let random = RandomState::new().hash_one(Instant::now());
    format!("gameday-{:012x}", random & 0xffff_ffff_ffff)
}

/// Removes the queue of a rehearsal. Returns the number of jobs and letters that it removed.
fn clean(queue: &str, db: &Database, cx: &mut Context<'_>) -> Result<u64> {
    let begin = Instant::now();
    let removed = db
        .admin()
        .remove_gameday(queue, &operator::current(Some("gameday")))
        .map_err(|error| match error.is_invalid() {
            true => Error::from(error),
            false => Error::caused_by(
                format!(
                    "could not remove the queue {}; repeat: redrive gameday --clean {0}",
                    one_line(queue)
                ),
                error,
            ),
        })?;
    let report = StepReport {
        step: Step::Clean,
        outcome: Outcome::Done,
        text: format!("{removed} jobs and letters removed; the audit stays"),
        took: begin.elapsed(),
        command: Some(format!("redrive gameday --clean {queue}")),
    };
    write_step(queue, &report, cx)?;
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_name_has_twelve_hexadecimal_digits_and_is_new() {
        let names = [new_queue_name(), new_queue_name()];
        for name in &names {
            let digits = name.strip_prefix("gameday-").expect("the prefix");
            assert_eq!(digits.len(), 12, "{name}");
            assert!(
                digits
                    .chars()
                    .all(|digit| matches!(digit, '0'..='9' | 'a'..='f'))
            );
        }
        assert_ne!(names[0], names[1]);
    }
}
