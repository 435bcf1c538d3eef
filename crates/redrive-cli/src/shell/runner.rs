//! Runs a shell command for a job or a letter.

use std::fmt;
use std::io::ErrorKind;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use redrive::dlq::Letter;
use redrive::{Failure, Job};
use serde_json::json;
use serde_json::value::RawValue;

use super::exit::{is_refused_fork, outcome, with_detail};
use super::process::{MAX_STDOUT, Process, Running};
use crate::error::Error;
use crate::ndjson::without_mark;
use crate::stop;
use crate::terminal::as_line;
use crate::time::rfc3339;

/// The default time limit of a command for a letter or a payload.
const DEADLINE: Duration = Duration::from_mins(1);
/// The longest time between SIGTERM and SIGKILL.
const MAX_TERM_GRACE: Duration = Duration::from_secs(1);
/// How long a command may wait until the host lets it start, and the part of the deadline that it may
/// use for that.
const MAX_START_WAIT: Duration = Duration::from_secs(10);
const START_SHARE: u32 = 10;
/// The shortest and the longest pause between two attempts to start a command.
const MIN_START_PAUSE: Duration = Duration::from_millis(20);
const MAX_START_PAUSE: Duration = Duration::from_secs(1);
/// When a job that the host did not let start is tried again, perhaps by another host.
const HOST_PAUSE: Duration = Duration::from_secs(5);

/// Runs a shell command per job or letter, and can kill those that run.
#[derive(Debug)]
pub(crate) struct Shell {
    command: String,
    /// The time limit of a command for a letter or a payload. The worker has that of a job.
    deadline: Duration,
    /// The time between SIGTERM and SIGKILL.
    term_grace: Duration,
    /// How long a command may wait until the host lets it start.
    start_wait: Duration,
    running: Running,
    /// Whether no further command should start.
    is_stopping: AtomicBool,
    /// Whether the host refused to start the last command.
    is_refused: AtomicBool,
}

/// One run of the command.
struct Task<'a> {
    /// The prefix of log lines.
    subject: String,
    environment: Vec<(&'static str, String)>,
    input: Vec<u8>,
    stdout: fn() -> Stdio,
    /// The job, which the worker cancels at its deadline. Without one, the deadline is that of the shell.
    job: Option<&'a Job<Box<RawValue>>>,
}

impl Shell {
    /// A shell whose commands may run as long as the deadline.
    pub(crate) fn new(command: &str, deadline: Duration) -> Shell {
        stop::pass_on_defaults();
        Shell {
            command: command.to_owned(),
            deadline,
            // A command that overran its deadline is killed before the next one can overrun its own.
            term_grace: MAX_TERM_GRACE.min(deadline / 4),
            start_wait: MAX_START_WAIT.min(deadline / START_SHARE),
            running: Running::default(),
            is_stopping: AtomicBool::new(false),
            is_refused: AtomicBool::new(false),
        }
    }

    /// The shell of `--exec`, with the time limit of `--deadline`; `None`: there is none. Its commands end when a signal
    /// asks this process to stop.
    pub(crate) fn given(
        exec: Option<&str>,
        deadline: Option<Duration>,
    ) -> crate::error::Result<Option<Shell>> {
        let Some(command) = exec else {
            return match deadline {
                Some(_) => Err(Error::new(
                    "--deadline limits a command: it needs --exec COMMAND",
                )),
                None => Ok(None),
            };
        };
        let mut shell = Shell::new(command, deadline.unwrap_or(DEADLINE));
        shell.running.is_ending = Arc::clone(stop::is_stopping());
        shell.check().map_err(Error::new)?;
        Ok(Some(shell))
    }

    /// Checks that the host can run the command, and that its first word is a program or a word of the
    /// shell.
    pub(crate) fn check(&self) -> Result<(), String> {
        let Some(word) = self.command.split_whitespace().next() else {
            return Err("the command is empty".to_owned());
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./+-".contains(c);
        // Only the shell can tell what a quoted or computed word is, and `||` allows for a missing one.
        let is_known = word.chars().all(is_plain) && !self.command.contains("||");
        let check = match (is_known, word.contains('/')) {
            (true, true) => format!("test -x {word}"),
            (true, false) => format!("command -v -- {word} >/dev/null"),
            (false, _) => ":".to_owned(),
        };
        let mut process = Process::start(&check, &[], b"", Stdio::null, &self.running)
            .map_err(|error| format!("could not start `sh`: {error}"))?;
        let ended = process.wait(|| false, &self.running, self.term_grace);
        match ended {
            Ok(Some(status)) if status.success() => Ok(()),
            Ok(Some(_)) if process.stderr().trim().is_empty() => Err(format!(
                "the command cannot run: `{word}` does not exist or is not executable"
            )),
            Ok(Some(_)) => Err(format!("`sh` cannot run: {}", process.stderr().trim())),
            Ok(None) => Err("`sh` was killed".to_owned()),
            Err(error) => Err(format!("could not wait for `sh`: {error}")),
        }
    }

    /// Runs the command for a job.
    pub(crate) fn run_job(&self, job: &Job<Box<RawValue>>) -> Result<(), Failure> {
        self.run(&Task {
            subject: format!("queue={} job={}", job.queue(), job.id()),
            environment: vec![
                ("REDRIVE_JOB_ID", job.id().to_string()),
                ("REDRIVE_QUEUE", job.queue().to_owned()),
                ("REDRIVE_KIND", job.kind().to_owned()),
                ("REDRIVE_ATTEMPT", job.attempt().to_string()),
                ("REDRIVE_MAX_ATTEMPTS", job.max_attempts().to_string()),
                ("REDRIVE_GENERATION", job.generation().to_string()),
                ("REDRIVE_PRIORITY", job.priority().to_string()),
                ("REDRIVE_ENQUEUED_AT", rfc3339(job.enqueued_at())),
                ("REDRIVE_HEADERS", json!(job.headers()).to_string()),
            ],
            input: line_of(job.payload()),
            stdout: Stdio::inherit,
            job: Some(job),
        })
        .map(drop)
    }

    /// Runs the command for a letter, which fails when it exceeds the deadline.
    pub(crate) fn run_letter(&self, letter: &Letter, stdout: fn() -> Stdio) -> Result<(), Failure> {
        self.run(&Task {
            subject: format!("queue={} letter={}", letter.queue, letter.id),
            environment: letter_environment(letter),
            // Captured bytes are passed on unchanged, without a line break.
            input: letter.raw.clone().unwrap_or_else(|| {
                let payload = letter.payload.as_deref();
                payload.map(line_of).unwrap_or_default()
            }),
            stdout,
            job: None,
        })
        .map(drop)
    }

    /// Runs the command with a payload on stdin and returns its stdout.
    pub(crate) fn transform(&self, payload: &str) -> Result<String, Failure> {
        let output = self.run(&Task {
            subject: "edit".to_owned(),
            environment: Vec::new(),
            input: format!("{payload}\n").into_bytes(),
            stdout: Stdio::piped,
            job: None,
        })?;
        let bytes = output.ok_or_else(|| Failure::retry("the command left its stdout open"))?;
        if bytes.len() > MAX_STDOUT {
            return Err(Failure::retry(
                "the command wrote more than a payload can hold",
            ));
        }
        String::from_utf8(bytes)
            .map(|text| without_mark(&text).to_owned())
            .map_err(|_| Failure::retry("the command wrote bytes that are not UTF-8"))
    }

    /// Kills every running command and its process group. No other one starts. Returns how many were killed, now or
    /// since the [`stop`](Shell::stop).
    pub(crate) fn kill_all(&self) -> usize {
        self.running.kill_all()
    }

    /// Ends the commands at a signal from now on, and then starts no other one. The process goes on.
    pub(crate) fn end_at_signal(&self) -> crate::error::Result<()> {
        stop::set_at_signal(&self.running.is_ending)
    }

    /// Starts no further commands. Those that wait for the host give up.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
        self.running.killed.store(0, Ordering::Relaxed);
    }

    /// Takes leave of processes that commands have left behind, which the first process of a container gets. Without
    /// a command, its children are those of the program's handlers, which wait for them.
    pub(crate) fn reap_orphans(&self) {
        if std::process::id() == 1 && !self.command.is_empty() {
            self.running.reap_orphans();
        }
    }

    /// The failure of a command that was ended at its deadline or at a signal. A cancelled attempt of a job does not
    /// count.
    fn stopped(&self, task: &Task<'_>) -> Failure {
        match (task.job, self.running.is_ending()) {
            (Some(_), _) => Failure::snooze(Duration::ZERO).class("cancelled"),
            (None, true) => Failure::retry("a signal stopped the command").class("signal"),
            (None, false) => Failure::retry("the command exceeded its deadline").class("timeout"),
        }
    }

    fn run(&self, task: &Task<'_>) -> Result<Option<Vec<u8>>, Failure> {
        if self.running.is_ending() {
            return Err(self.stopped(task));
        }
        let begun = Instant::now();
        let is_cancelled = || match task.job {
            Some(job) => job.is_cancelled(),
            None => begun.elapsed() > self.deadline,
        };
        let mut process = self.start(task, is_cancelled)?;
        let ended = process.wait(is_cancelled, &self.running, self.term_grace);
        let stderr = process.stderr();
        match ended {
            Ok(Some(status)) if is_refused_fork(status, &stderr) => {
                Err(self.refused(task, stderr.trim()))
            }
            Ok(Some(status)) => {
                if self.is_refused.swap(false, Ordering::Relaxed) {
                    log::info!("commands run again");
                }
                outcome(status, stderr, &task.subject).map(|()| process.stdout())
            }
            Ok(None) => Err(with_detail(self.stopped(task), stderr)),
            Err(error) => Err(
                Failure::retry(format!("could not wait for the command: {error}")).class("wait"),
            ),
        }
    }

    /// Starts the command. Waits a while if the host has no process, descriptor or memory left.
    fn start(&self, task: &Task<'_>, is_cancelled: impl Fn() -> bool) -> Result<Process, Failure> {
        let begun = Instant::now();
        let mut pause = MIN_START_PAUSE;
        loop {
            let error = match Process::start(
                &self.command,
                &task.environment,
                &task.input,
                task.stdout,
                &self.running,
            ) {
                Ok(started) => return Ok(started),
                Err(error) => error,
            };
            // The job has too many headers for an environment, or a payload beyond `ulimit -f`.
            if matches!(
                error.kind(),
                ErrorKind::ArgumentListTooLong | ErrorKind::FileTooLarge
            ) {
                return Err(Failure::retry(format!("could not start `sh`: {error}")).class("spawn"));
            }
            let refusal = self.refused(task, &error);
            let is_over = begun.elapsed() >= self.start_wait
                || self.is_stopping.load(Ordering::Relaxed)
                || self.running.is_ending()
                || is_cancelled();
            if is_over {
                return Err(refusal);
            }
            thread::sleep(pause.min(self.start_wait));
            pause = (pause * 2).min(MAX_START_PAUSE);
        }
    }

    /// Returns the failure of a command that the host did not let run. Logs the first of several.
    fn refused(&self, task: &Task<'_>, why: impl fmt::Display) -> Failure {
        let why = format!("the host refused to run the command: {why}");
        if !self.is_refused.swap(true, Ordering::Relaxed) {
            log::warn!("{}: {why}; waiting", task.subject);
        }
        match task.job {
            // Not an outage: that would open the breaker of the queue, also for workers of other hosts.
            Some(_) => Failure::snooze(HOST_PAUSE).class("host"),
            None => Failure::retry(why).class("host"),
        }
    }
}

fn letter_environment(letter: &Letter) -> Vec<(&'static str, String)> {
    let mut environment = vec![
        ("REDRIVE_LETTER_ID", letter.id.to_string()),
        ("REDRIVE_QUEUE", letter.queue.clone()),
        ("REDRIVE_KIND", letter.kind.clone()),
        ("REDRIVE_STATE", letter.state.to_string()),
        ("REDRIVE_CAUSE", letter.cause.to_string()),
        ("REDRIVE_ERROR_CLASS", letter.error_class.clone()),
        ("REDRIVE_ERROR_MESSAGE", letter.error_message.clone()),
        ("REDRIVE_GENERATION", letter.generation.to_string()),
        ("REDRIVE_ENQUEUED_AT", rfc3339(letter.enqueued_at)),
        ("REDRIVE_DIED_AT", rfc3339(letter.died_at)),
    ];
    let headers = letter.headers.as_deref().map(RawValue::get);
    let optional = [
        ("REDRIVE_SOURCE", letter.source.as_deref()),
        ("REDRIVE_POSITION", letter.position.as_deref()),
        ("REDRIVE_CONTENT_TYPE", letter.content_type.as_deref()),
        ("REDRIVE_HEADERS", headers),
    ];
    environment.extend(
        optional
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?.to_owned()))),
    );
    environment
}

fn line_of(json: &RawValue) -> Vec<u8> {
    as_line(json.get().as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(command: &str) -> String {
        let job = Job::sample(RawValue::NULL.to_owned());
        let failed = Shell::new(command, DEADLINE).run_job(&job);
        format!("{:?}", failed.expect_err("it fails"))
    }

    #[test]
    fn the_exit_status_and_lines_of_stderr_decide_the_outcome() {
        let key = "echo 'bad order 17' >&2; echo 'redrive-failure-key: carrier closed' >&2; exit 1";
        let class = "echo 'redrive-error-class: SchemaError' >&2; echo 'no field' >&2; exit 65";
        for (command, parts) in [
            (
                "echo first >&2; echo 'bad order' >&2; echo >&2; exit 65",
                &["Reject", "exit:65", "message: \"bad order\"", "first\\n"][..],
            ),
            ("exit 1", &["Retry", "exit:1", "exited with 1"]),
            ("echo 'no route' >&2; exit 69", &["Outage", "no route"]),
            ("kill -9 $$", &["Retry", "signal:9"]),
            (
                key,
                &["message: \"bad order 17\"", "key: Some(\"carrier closed\")"],
            ),
            (
                "echo 'redrive-failure-key: closed' >&2; exit 65",
                &["exited with 65", "key: Some(\"closed\")"],
            ),
            ("echo 'redrive-failure-key:' >&2; exit 1", &["key: None"]),
            (class, &["message: \"no field\"", "SchemaError"]),
            ("echo 'redrive-error-class: ' >&2; exit 1", &["exit:1"]),
        ] {
            let failure = failure(command);
            for part in parts {
                assert!(failure.contains(part), "{command}: {part}: {failure}");
            }
        }
    }

    #[test]
    fn a_background_process_does_not_hold_the_slot() {
        let begin = Instant::now();
        let failed = failure("sleep 20 >/dev/null & echo gone >&2; exit 3");
        assert!(
            failed.contains("exit:3") && failed.contains("gone"),
            "{failed}"
        );
        assert!(begin.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_process_that_ignores_a_signal_does_not_outlive_its_shell() {
        let command = r#"sh -c 'trap "" TERM; echo pid=$$ >&2; sleep 30'; true"#;
        let shell = Shell::new(command, Duration::from_millis(400));
        let killed = shell.transform("{}").expect_err("killed");
        let killed = format!("{killed:?}");
        assert!(killed.contains("deadline"), "{killed}");
        let (_, pid) = killed.split_once("pid=").expect(&killed);
        let pid: String = pid.chars().take_while(char::is_ascii_digit).collect();
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
    }
}
