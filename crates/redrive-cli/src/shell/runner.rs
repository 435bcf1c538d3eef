//! Runs a shell command for a job or a letter.

use std::time::{Duration, Instant};

use redrive::dlq::Letter;
use redrive::{Failure, Job};
use serde_json::json;
use serde_json::value::RawValue;

use super::exit::outcome;
use super::process::{Ended, MAX_STDOUT, Process, Running, Stdout};
use crate::terminal::as_line;
use crate::time::rfc3339;

/// The longest time between SIGTERM and SIGKILL.
const MAX_TERM_GRACE: Duration = Duration::from_secs(1);

/// Runs a shell command per job or letter, and can kill those that run.
#[derive(Debug)]
pub(crate) struct Shell {
    command: String,
    /// The time between SIGTERM and SIGKILL.
    term_grace: Duration,
    running: Running,
}

/// One run of the command.
struct Task<'a> {
    /// The prefix of log lines.
    subject: String,
    environment: Vec<(&'static str, String)>,
    input: Vec<u8>,
    stdout: Stdout,
    is_cancelled: &'a dyn Fn() -> bool,
    /// The failure of a command that was killed.
    on_kill: fn() -> Failure,
}

impl Shell {
    /// A shell whose commands may run as long as the deadline.
    pub(crate) fn new(command: &str, deadline: Option<Duration>) -> Shell {
        // A command that overran its deadline is killed before the next one can overrun its own.
        let term_grace =
            deadline.map_or(MAX_TERM_GRACE, |deadline| MAX_TERM_GRACE.min(deadline / 4));
        Shell {
            command: command.to_owned(),
            term_grace,
            running: Running::default(),
        }
    }

    /// Runs the command for a job. A cancelled attempt does not count.
    pub(crate) fn run_job(&self, job: &Job<Box<RawValue>>) -> Result<(), Failure> {
        self.run(Task {
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
            stdout: Stdout::Inherit,
            is_cancelled: &|| job.is_cancelled(),
            on_kill: || Failure::snooze(Duration::ZERO).class("cancelled"),
        })
        .map(drop)
    }

    /// Runs the command for a letter, which fails when it exceeds the deadline.
    pub(crate) fn run_letter(
        &self,
        letter: &Letter,
        stdout: Stdout,
        deadline: Duration,
    ) -> Result<(), Failure> {
        let begin = Instant::now();
        self.run(Task {
            subject: format!("queue={} letter={}", letter.queue, letter.id),
            environment: letter_environment(letter),
            // Captured bytes are passed on unchanged, without a line break.
            input: letter.raw.clone().unwrap_or_else(|| {
                let payload = letter.payload.as_deref();
                payload.map(line_of).unwrap_or_default()
            }),
            stdout,
            is_cancelled: &|| begin.elapsed() > deadline,
            on_kill: overran,
        })
        .map(drop)
    }

    /// Runs the command with a payload on stdin and returns its stdout.
    pub(crate) fn transform(&self, payload: &str, deadline: Duration) -> Result<String, Failure> {
        let begin = Instant::now();
        let output = self.run(Task {
            subject: "edit".to_owned(),
            environment: Vec::new(),
            input: format!("{payload}\n").into_bytes(),
            stdout: Stdout::Keep,
            is_cancelled: &|| begin.elapsed() > deadline,
            on_kill: overran,
        })?;
        let bytes = output.ok_or_else(|| Failure::retry("the command left its stdout open"))?;
        if bytes.len() > MAX_STDOUT {
            return Err(Failure::retry(
                "the command wrote more than a payload can hold",
            ));
        }
        String::from_utf8(bytes)
            .map_err(|_| Failure::retry("the command wrote bytes that are not UTF-8"))
    }

    /// Kills every running command and its process group.
    pub(crate) fn kill_all(&self) {
        self.running.kill_all();
    }

    fn run(&self, task: Task<'_>) -> Result<Option<Vec<u8>>, Failure> {
        let (process, output) =
            Process::start(&self.command, &task.environment, task.input, task.stdout).map_err(
                |error| Failure::retry(format!("could not start `sh`: {error}")).class("spawn"),
            )?;
        self.running.add(&process);
        let ended = process.wait(
            &output.stderr_closed,
            task.is_cancelled,
            &self.running,
            self.term_grace,
        );
        self.running.remove(&process);
        let stderr = process.stderr(&output.stderr_closed);
        match ended {
            Ok(Ended::Exited(status)) => {
                outcome(status, stderr, &task.subject).map(|()| output.stdout())
            }
            Ok(Ended::Killed) => {
                let failure = (task.on_kill)();
                Err(match stderr.is_empty() {
                    true => failure,
                    false => failure.detail(stderr),
                })
            }
            Err(error) => Err(
                Failure::retry(format!("could not wait for the command: {error}")).class("wait"),
            ),
        }
    }
}

/// The failure of a command that was killed at its deadline.
fn overran() -> Failure {
    Failure::retry("the command exceeded its deadline").class("timeout")
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
    use std::sync::Arc;
    use std::thread;

    use super::*;

    fn run(command: &str, payload: &str) -> Result<(), Failure> {
        let payload = RawValue::from_string(payload.to_owned()).expect("JSON");
        Shell::new(command, None).run_job(&Job::sample(payload))
    }

    fn failure(command: &str) -> String {
        format!("{:?}", run(command, "{}").expect_err("it fails"))
    }

    #[test]
    fn a_command_gets_the_payload_on_stdin_and_the_job_in_its_environment() {
        let check = r#"test "$(cat)" = '{"a": 1}' && test "$REDRIVE_ATTEMPT/$REDRIVE_MAX_ATTEMPTS" = 1/5 &&
            test "$REDRIVE_HEADERS" = '{}' && test "$REDRIVE_KIND" = sample && case $REDRIVE_ENQUEUED_AT in 20*Z) ;; *) exit 1;; esac"#;
        run(check, r#"{"a": 1}"#).expect("the payload and the environment match");
        run("true", &format!("\"{}\"", "x".repeat(1_000_000))).expect("a command need not read");
    }

    #[test]
    fn the_exit_status_decides_the_outcome() {
        let rejected = failure("echo first >&2; echo 'bad order' >&2; echo >&2; exit 65");
        assert!(
            rejected.contains("Reject") && rejected.contains("exit:65"),
            "{rejected}"
        );
        assert!(
            rejected.contains("message: \"bad order\"") && rejected.contains("first\\n"),
            "{rejected}"
        );
        let retry = failure("exit 1");
        assert!(
            retry.contains("Retry") && retry.contains("exit:1") && retry.contains("exited with 1"),
            "{retry}"
        );
        let outage = failure("echo 'no route' >&2; exit 69");
        assert!(
            outage.contains("Outage") && outage.contains("no route"),
            "{outage}"
        );
        let killed = failure("kill -9 $$");
        assert!(
            killed.contains("Retry") && killed.contains("signal:9"),
            "{killed}"
        );
    }

    #[test]
    fn a_line_of_stderr_gives_the_key_of_the_failure_group() {
        let keyed = failure(
            "echo 'bad order 17' >&2; echo 'redrive-group-key: carrier closed' >&2; exit 1",
        );
        assert!(
            keyed.contains("message: \"bad order 17\"")
                && keyed.contains("key: Some(\"carrier closed\")"),
            "{keyed}"
        );
        let alone = failure("echo 'redrive-group-key: closed' >&2; exit 65");
        assert!(
            alone.contains("exited with 65") && alone.contains("key: Some(\"closed\")"),
            "{alone}"
        );
        let empty = failure("echo 'redrive-group-key:' >&2; exit 1");
        assert!(empty.contains("key: None"), "{empty}");
    }

    #[test]
    fn a_line_of_stderr_gives_the_error_class() {
        let classed = failure(
            "echo 'redrive-error-class: SchemaError' >&2; echo 'field missing' >&2; exit 65",
        );
        assert!(
            classed.contains("message: \"field missing\"")
                && classed.contains("SchemaError")
                && !classed.contains("exit:65"),
            "{classed}"
        );
        let empty = failure("echo 'redrive-error-class: ' >&2; exit 1");
        assert!(empty.contains("exit:1"), "{empty}");
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
    fn a_flood_on_stderr_is_cut() {
        let failed = failure("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo end >&2; exit 1");
        assert!(
            failed.len() < 200_000 && failed.contains("cut ...]"),
            "{}",
            failed.len()
        );
    }

    #[test]
    fn kill_all_ends_the_process_group_and_the_attempt_does_not_count() {
        let shell = Arc::new(Shell::new("sleep 30; true", None));
        let handler = thread::spawn({
            let shell = Arc::clone(&shell);
            move || shell.run_job(&Job::sample(RawValue::NULL.to_owned()))
        });
        let begin = Instant::now();
        while shell.running.is_empty() && begin.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(5));
        }
        shell.kill_all();
        let failure = handler.join().expect("no panic").expect_err("killed");
        assert!(format!("{failure:?}").contains("Snooze"), "{failure:?}");
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
}
