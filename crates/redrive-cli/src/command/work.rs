//! `redrive work`: a worker whose handler is a shell command, or the program's own.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use redrive::{Queue, Stopped, Worker};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::duration;
use crate::error::{Error, Result};
use crate::render::{counted, grouped, json_line};
use crate::shell::Shell;
use crate::{Ending, Program, Streams};

/// How often signals and the worker's trouble are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How often to ask whether the queue is drained.
const DRAINED_EVERY: Duration = Duration::from_millis(250);
/// How long a worker may still take when it is told to end at once.
const AT_ONCE: Duration = Duration::from_secs(2);

/// Run a shell command for every job of a queue.
///
/// The payload is the stdin of the command, and the job's facts are in its environment.
///
/// Exit status 0: done. 65: rejected, the job becomes a dead letter. 69: what it needs is down, the
/// attempt does not count, and after five in a row the queue waits (see `redrive breaker`). Any
/// other status, or death by a signal: another attempt after a backoff. The last line of stderr is the error's message, all
/// of it (head and tail when long) its detail, `exit 1` or `signal 9` its class.
///
/// The stdout of the commands is the stdout of the worker; commands that run at the same time may
/// interleave there. The counts at the end go to stderr, or as JSON to stdout with --json.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  redrive work orders --exec ./deliver.sh
  redrive work mail --exec 'jq -r .to | xargs ./send' --slots 8 --deadline 30s
  redrive work orders --exec ./deliver.sh --drain

Environment:
  REDRIVE_JOB_ID, REDRIVE_QUEUE, REDRIVE_KIND, REDRIVE_PRIORITY,
  REDRIVE_ATTEMPT (from 1), REDRIVE_MAX_ATTEMPTS,
  REDRIVE_GENERATION (how often it was redriven, from 0),
  REDRIVE_ENQUEUED_AT (RFC 3339)

SIGTERM and Ctrl-C stop it gracefully: what runs may end within --grace, the
rest goes back to the queue. A second signal ends it at once. A command that
overruns its deadline, or is cancelled, gets SIGTERM and within a second
SIGKILL, with its whole process group. A worker that is itself killed by
SIGKILL cannot end its commands: they run on.")]
pub(crate) struct Work {
    /// The queue.
    queue: String,
    /// The command, run by `sh -c`; by default a program's own handlers, if it has some.
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,
    /// How many commands run at a time; by default as many as the machine has processors.
    #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: Option<u32>,
    /// End when the queue holds no job any more: none ready, delayed or leased, of any kind.
    #[arg(long)]
    drain: bool,
    /// How long a command may run [default: 15m].
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true)]
    deadline: Option<Duration>,
    /// How long commands may run on after SIGTERM.
    #[arg(long, value_parser = duration::parse, default_value = "25s", allow_hyphen_values = true)]
    grace: Duration,
    /// How long after its last sign of life this worker is taken for lost [default: 60s].
    #[arg(long, value_parser = duration::parse, allow_hyphen_values = true)]
    lease: Option<Duration>,
    /// Only jobs of this kind; may be repeated. By default all kinds.
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
}

/// Why a worker ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Drained,
    Signalled,
    Trouble,
}

impl Work {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        if self.exec.is_none() && io.program.handlers.is_empty() {
            return Err(Error::new(
                "no handler: give --exec COMMAND, which runs for each job",
            ));
        }
        let queue = connect::queue(arguments, Patience::Endless, &self.queue, io)?;
        let mut signals = Signals::new([SIGTERM, SIGINT])
            .map_err(|error| Error::caused_by("could not listen to signals", error))?;
        // Without a command it has nothing to run, and nothing to end.
        let shell = Arc::new(Shell::new(
            self.exec.as_deref().unwrap_or("exit 1"),
            self.deadline,
        ));
        let worker = self.worker(&queue, &shell, io.program)?;
        let why = self.watch(&worker, &queue, &mut signals);
        if why == Why::Signalled {
            io.say(format!(
                "stopping: commands may run on for {}; a second signal ends them",
                duration::short(self.grace)
            ));
        }
        let stopped = stop(worker, self.grace, &shell, &mut signals);
        // What outlived the grace has lost its job: another worker may have it already.
        shell.kill_all();
        report(&stopped?, arguments, io)?;
        Ok(Ending::Done)
    }

    fn worker(&self, queue: &Queue, shell: &Arc<Shell>, program: &Program) -> Result<Worker> {
        let mut builder = Worker::builder(queue).version(program.told_version());
        if let Some(slots) = self.slots {
            builder = builder.slots(usize::try_from(slots).unwrap_or(usize::MAX));
        }
        if let Some(deadline) = self.deadline {
            builder = builder.deadline(deadline);
        }
        if let Some(lease) = self.lease {
            builder = builder.lease(lease);
        }
        if self.exec.is_none() {
            let handlers = match self.kinds.is_empty() {
                true => program.handlers.clone(),
                false => program.handlers.clone().only(&self.kinds),
            };
            return Ok(builder.handlers(&handlers).start()?);
        }
        for kind in &self.kinds {
            let shell = Arc::clone(shell);
            builder = builder.handle_kind(kind, move |job| shell.handle(job));
        }
        if self.kinds.is_empty() {
            let shell = Arc::clone(shell);
            builder = builder.handle_any(move |job| shell.handle(job));
        }
        Ok(builder.start()?)
    }

    /// Watches a worker until there is a reason to end.
    fn watch(&self, worker: &Worker, queue: &Queue, signals: &mut Signals) -> Why {
        let mut asked = Instant::now();
        loop {
            if signals.pending().next().is_some() {
                return Why::Signalled;
            }
            if worker.trouble().is_some() {
                return Why::Trouble;
            }
            if self.drain && asked.elapsed() >= DRAINED_EVERY && worker.is_idle() {
                match queue.is_drained() {
                    Ok(true) => return Why::Drained,
                    Ok(false) => {}
                    // The worker waits for the database as well, and says so.
                    Err(error) => log::debug!("{error}"),
                }
                asked = Instant::now();
            }
            thread::sleep(LOOK_EVERY);
        }
    }
}

/// Stops a worker on a thread, so that a second signal is heard.
fn stop(worker: Worker, grace: Duration, shell: &Shell, signals: &mut Signals) -> Result<Stopped> {
    let stopping = thread::spawn(move || worker.stop(grace));
    let mut until: Option<Instant> = None;
    while !stopping.is_finished() {
        if until.is_some_and(|until| Instant::now() > until) {
            return Err(Error::new(
                "ended at once; the jobs it held come back when their lease runs out",
            ));
        }
        if signals.pending().next().is_some() {
            shell.kill_all();
            until.get_or_insert(Instant::now() + AT_ONCE);
        }
        thread::sleep(LOOK_EVERY);
    }
    match stopping.join() {
        Ok(stopped) => Ok(stopped?),
        Err(_) => Err(Error::new(
            "the worker could not be stopped: its thread panicked",
        )),
    }
}

fn report(stopped: &Stopped, arguments: &Arguments, io: &mut Streams<'_>) -> Result<()> {
    let counts = &stopped.counts;
    // Our handler puts off what it had to kill: the job is given back, its attempt refunded.
    let released = stopped.released + counts.snoozed;
    if arguments.json {
        return json_line(
            io.out,
            &json!({
                "done": counts.done, "retried": counts.retried, "outages": counts.outages,
                "dead": counts.dead, "released": released, "lost": counts.lost,
            }),
        );
    }
    if !stopped.still_running.is_empty() {
        let killed = counted(stopped.still_running.len() as u64, "command");
        io.say(format!(
            "{killed} did not end in time: killed, and the jobs given back"
        ));
    }
    let numbers = [
        ("done", counts.done),
        ("retried", counts.retried),
        ("outages", counts.outages),
        ("dead", counts.dead),
        ("released", released),
        ("lost", counts.lost),
    ];
    let told: Vec<String> = numbers
        .iter()
        .map(|(name, count)| format!("{name} {}", grouped(*count)))
        .collect();
    io.say(told.join(", "));
    Ok(())
}
