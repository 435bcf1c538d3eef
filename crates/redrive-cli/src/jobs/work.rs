//! `redrive work`: a worker that runs a shell command or the program's own handlers.

mod options;
mod room;
mod left;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redrive::worker::StopReport;
use redrive::{Backoff, Handlers, Job, Queue, Worker, WorkerBuilder, Workers};
use serde_json::value::RawValue;
use signal_hook::iterator::Signals;

use crate::prelude::*;
use crate::program::Program;
use crate::shell::Shell;
use crate::stop;
use left::Left;
use options::{backoff, flood_guard};

/// The interval between two checks for signals and a failed worker.
const CHECK_EVERY: Duration = Duration::from_millis(50);
/// The interval between two checks whether the queues are drained.
const CHECK_DRAINED_EVERY: Duration = Duration::from_millis(500);
/// How long a drain is idle before it says what it waits for, and between two such messages.
const SAY_WAITS_EVERY: Duration = Duration::from_secs(5);

/// Run a shell command for every job of a queue, or of several
///
/// The command gets the payload on stdin and the job in its environment. Its stdout is the stdout
/// of the worker. The counts at the end go to stderr, or with --json to stdout.
///
/// Exit status 0 completes the job. 65 rejects it: the job becomes a dead letter. 69 reports an
/// outage: the attempt does not count, and five outages in a row open the breaker of the queue
/// (see `redrive breaker`). Any other status, or a signal, retries the job after a backoff.
///
/// The last line of stderr is the error message; all of it, cut in the middle if long, is the
/// detail. The error class is `exit:1` or `signal:9`, unless stderr has a line
/// `redrive-error-class: CLASS`. A line `redrive-failure-key: KEY` is the key of the failure group, in
/// place of the message.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive work orders --exec ./deliver.sh
  redrive work mail --exec 'to=$(jq -er .to) && ./send \"$to\"' --slots 8
  redrive work orders --exec ./deliver.sh --drain
  redrive work orders mail --exec ./handle.sh
  redrive work orders --exec ./deliver.sh --app-version 1.4.2 \\
    --backoff exponential:5s..1h --flood-guard 100/1m
",
    after_help = "\
Environment of the command:
  REDRIVE_JOB_ID, REDRIVE_QUEUE, REDRIVE_KIND, REDRIVE_PRIORITY,
  REDRIVE_ATTEMPT (from 1), REDRIVE_MAX_ATTEMPTS,
  REDRIVE_GENERATION (number of redrives, from 0),
  REDRIVE_ENQUEUED_AT (RFC 3339),
  REDRIVE_HEADERS (a JSON object)

Signals: SIGTERM, SIGINT (Ctrl-C), SIGQUIT and SIGHUP stop the worker
gracefully, SIGHUP not under nohup. Running commands have --grace to finish;
other jobs go back to the queue. A second signal ends the commands, and a third
one the worker. A command that exceeds its deadline, is cancelled or must end
gets SIGTERM and, within one second, SIGKILL, with its process group. If the
worker itself is killed with SIGKILL, its commands keep running."
)]
pub(crate) struct Work {
    /// Queues to work on.
    #[arg(value_name = "QUEUE", required = true)]
    queues: Vec<String>,
    /// Command that `sh -c` runs for each job. Without it, the program's own handlers run.
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,
    /// Commands that run at the same time, in equal parts while several queues have jobs [default: number of processors].
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    slots: Option<u32>,
    /// Exit when the queues are empty: no ready, delayed or leased job, and no letter that a running
    /// redrive run still sends. Jobs of kinds that no live worker handles, or behind a letter that
    /// holds their group, are left, and their number is printed. After 5 seconds without a job, a line
    /// names what it waits for, such as delayed jobs, a pause or an open breaker.
    #[arg(long)]
    drain: bool,
    /// Time limit of a command [default: 15m].
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
    deadline: Option<Duration>,
    /// How long running commands may take to finish after SIGTERM.
    #[arg(long, value_name = "TIME", value_parser = time::parse, default_value = "25s", allow_hyphen_values = true)]
    grace: Duration,
    /// Time after which a silent worker is presumed dead [default: 60s].
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
    lease: Option<Duration>,
    /// Delay before retries: SHAPE:TIME or SHAPE:TIME..MAX, with the shape exponential, linear or
    /// fixed [default: exponential with jitter].
    #[arg(long, value_name = "BACKOFF", value_parser = backoff)]
    backoff: Option<Backoff>,
    /// Open the breaker of the queue when more than LETTERS jobs die within TIME, such as 100/1m.
    #[arg(long, value_name = "LETTERS/TIME", value_parser = flood_guard)]
    flood_guard: Option<(usize, Duration)>,
    /// Keep finished jobs for `job list state=done` and `job show`, without payload [default: not at all].
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
    keep_done: Option<Duration>,
    /// Version of the command, stored with every attempt.
    #[arg(long, value_name = "VERSION")]
    app_version: Option<String>,
    /// Only jobs of this kind; repeatable [default: all kinds].
    #[arg(long = "kind", value_name = "KIND")]
    kinds: Vec<String>,
}

impl Work {
    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        if self.exec.is_none() && cx.program.handlers.is_empty() {
            return Err(Error::new("no handler: use --exec COMMAND"));
        }
        // Before the worker runs, there is nothing to stop gracefully.
        let ends_at_signal = Arc::new(AtomicBool::new(true));
        stop::end_at_signal(&ends_at_signal)?;
        let mut signals = stop::listen()?;
        let processors = || thread::available_parallelism().map_or(4, NonZeroUsize::get);
        let wanted = self.slots.and_then(|slots| usize::try_from(slots).ok());
        let slots = wanted.unwrap_or_else(processors);
        room::raise(slots);
        // Without --exec the shell never runs a command.
        let command = self.exec.as_deref().unwrap_or_default();
        let deadline = self.deadline.unwrap_or(Duration::MAX);
        let shell = Arc::new(Shell::new(command, deadline));
        if self.exec.is_some() {
            std::env::current_dir()
                .map_err(|error| Error::caused_by("the working directory is gone", error))?;
            shell.check().map_err(Error::new)?;
        }
        let db = cx.database_for_worker()?;
        let queues = self.queues.iter().map(|name| Queue::new(&db, name));
        let queues = queues.collect::<redrive::Result<Vec<Queue>>>()?;
        let workers = self.start(&db, slots, &shell, cx.program)?;
        ends_at_signal.store(false, Ordering::SeqCst);
        let left = self.watch(&workers, &queues, &shell, &mut signals, cx);
        shell.stop();
        // The next signal ends the commands, and the one after it this process. Handlers of the program cannot be ended.
        ends_at_signal.store(self.exec.is_none(), Ordering::SeqCst);
        stop::set_at_signal(&ends_at_signal)?;
        shell.end_at_signal()?;
        // It may have come before.
        if signals.pending().next().is_some() {
            shell.kill_all();
        }
        let stopped = workers.stop(self.grace);
        // A command that outlived the grace no longer owns its job: another worker may have it.
        let killed = shell.kill_all();
        report(&stopped?, killed, &left, cx)?;
        Ok(Ending::Done)
    }

    fn start(
        &self,
        db: &Database,
        slots: usize,
        shell: &Arc<Shell>,
        program: &Program,
    ) -> Result<Worker> {
        let handlers = self.handlers(shell, program);
        let version = self.app_version.clone();
        let version = version.unwrap_or_else(|| program.attempt_version());
        let configured = |builder: WorkerBuilder| {
            builder
                .share(1)
                .handlers(&handlers)
                .version(version.clone())
                .with(self.backoff.clone(), WorkerBuilder::backoff)
                .with(self.flood_guard, |builder, (letters, per)| {
                    builder.flood_guard(letters, per)
                })
                .with(self.deadline, WorkerBuilder::deadline)
                .with(self.keep_done, WorkerBuilder::keep_done)
                .with(self.lease, WorkerBuilder::lease)
        };
        let workers = Workers::builder(db).pool(slots);
        let names = self.queues.iter();
        let workers = names.fold(workers, |workers, name| {
            workers.queue_with(name, configured)
        });
        Ok(workers.start()?)
    }

    /// The command as the handler of the kinds, or the program's own handlers.
    fn handlers(&self, shell: &Arc<Shell>, program: &Program) -> Handlers {
        let shell = Arc::clone(shell);
        let run = move |job: &Job<Box<RawValue>>| shell.run_job(job);
        match (self.exec.is_some(), self.kinds.as_slice()) {
            (true, []) => Handlers::new().handle_any(run),
            (true, kinds) => kinds.iter().fold(Handlers::new(), |handlers, kind| {
                handlers.handle_kind(kind, run.clone())
            }),
            (false, []) => program.handlers.clone(),
            (false, kinds) => program.handlers.clone().only(kinds),
        }
    }

    /// Waits until the worker must stop. Returns what a drain leaves.
    fn watch(
        &self,
        workers: &Worker,
        queues: &[Queue],
        shell: &Shell,
        signals: &mut Signals,
        cx: &mut Context<'_>,
    ) -> Left {
        let (mut checked, mut idle_since) = (Instant::now(), Instant::now());
        // What it has said that it waits for in this idle time.
        let mut said = String::new();
        // What is left, and since when.
        let mut left = (None, Instant::now());
        loop {
            shell.reap_orphans();
            if signals.pending().next().is_some() {
                cx.say(format!(
                    "stopping; running commands have {} to finish, and a second signal kills them",
                    short(self.grace)
                ));
                return Left::default();
            }
            if workers.failure().is_some() {
                return Left::default();
            }
            if !workers.is_idle() {
                idle_since = Instant::now();
                said.clear();
            }
            if self.drain && checked.elapsed() >= CHECK_DRAINED_EVERY && workers.is_idle() {
                let now = left::of_all(queues, |kind| self.handles(kind));
                // Not the time of the comparison: a thread that waits for a processor would make one look two.
                let looked = Instant::now();
                if now != left.0 {
                    left = (now, looked);
                }
                let is_settled = |of: &Left| looked - left.1 >= of.settles_in(queues);
                if let Some(settled) = left.0.clone().filter(is_settled) {
                    return settled;
                }
                if idle_since.elapsed() >= SAY_WAITS_EVERY {
                    // An error needs no words: the worker logs that the database is unavailable.
                    let waits =
                        left::waits(queues, left.0.as_ref()).unwrap_or_else(|_| said.clone());
                    if waits != said && !waits.is_empty() {
                        cx.say(format!("waiting for {waits}"));
                    }
                    said = waits;
                    idle_since = Instant::now();
                }
                checked = Instant::now();
            }
            thread::sleep(CHECK_EVERY);
        }
    }

    /// Whether this worker handles a kind, as far as its options tell.
    fn handles(&self, kind: &str) -> bool {
        match (self.exec.is_some(), self.kinds.is_empty()) {
            (true, true) => true,
            (_, false) => self.kinds.iter().any(|own| own == kind),
            (false, true) => false,
        }
    }
}

fn report(stopped: &StopReport, killed: usize, left: &Left, cx: &mut Context<'_>) -> Result<()> {
    // Handlers of the program run on without a command.
    let killed = killed.max(stopped.still_running.len()) as u64;
    let counts = &stopped.stats;
    let counts = [
        ("done", counts.done),
        ("retried", counts.retried),
        ("outages", counts.outages),
        ("dead", counts.dead),
        // The handler snoozes a job whose command was killed, which releases it.
        ("released", counts.released + counts.snoozed),
        ("lost", counts.lost),
    ];
    if cx.global.json {
        let reasons = left.reasons();
        let mut line = json!({ "killed": killed, "left": left.jobs(), "left_because": reasons });
        for (name, count) in counts {
            line[name] = count.into();
        }
        return json_line(cx.out, &line);
    }
    if killed > 0 {
        let killed = counted(killed, "command");
        cx.say(format!(
            "killed {killed} that did not finish in time; the jobs were released"
        ));
    }
    let counts = counts.map(|(name, count)| format!("{name} {}", grouped(count)));
    cx.say(counts.join(", "));
    for reason in left.reasons() {
        cx.say(format!("left {reason}"));
    }
    Ok(())
}
