//! Commands as handlers, sinks and validators: a job or letter is the stdin and the environment of
//! a shell command, and its exit status is the outcome.

mod captured;

use std::io::{self, Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use redrive::{Failure, Job, Letter};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::value::RawValue;

use crate::duration::rfc3339;
use captured::Captured;

/// What a command exits with when no retry can help: `EX_DATAERR` of sysexits.h.
const REJECTED: i32 = 65;
/// The exit status by which a command says that something it needs is down (`EX_UNAVAILABLE`).
const OUTAGE: i32 = 69;
/// How often a running command is looked at: how late it learns that it is cancelled.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a command has between SIGTERM and SIGKILL, at most.
const TERM_GRACE: Duration = Duration::from_secs(1);
/// How long to wait for the rest of stderr when something the command left behind holds it open.
const STDERR_GRACE: Duration = Duration::from_millis(200);

/// Runs a shell command for each job, and knows those that run.
#[derive(Debug)]
pub(crate) struct Shell {
    command: String,
    /// How long a command has between SIGTERM and SIGKILL.
    term_grace: Duration,
    running: Mutex<Vec<Arc<Mutex<Child>>>>,
    /// Everything is to end now.
    ending: AtomicBool,
}

impl Shell {
    /// A handler of jobs that may run for so long.
    pub(crate) fn new(command: &str, deadline: Option<Duration>) -> Shell {
        // One that overran its deadline is gone before the next one does.
        let term_grace = deadline.map_or(TERM_GRACE, |deadline| TERM_GRACE.min(deadline / 4));
        Shell {
            command: command.to_owned(),
            term_grace,
            running: Mutex::default(),
            ending: AtomicBool::new(false),
        }
    }

    /// Runs the command for a job, to its end.
    pub(crate) fn handle(&self, job: &Job<Box<RawValue>>) -> Result<(), Failure> {
        self.run(&Errand {
            subject: format!("job {}", job.id()),
            environment: vec![
                ("REDRIVE_JOB_ID", job.id().to_string()),
                ("REDRIVE_QUEUE", job.queue().to_owned()),
                ("REDRIVE_KIND", job.kind().to_owned()),
                ("REDRIVE_ATTEMPT", job.attempt().to_string()),
                ("REDRIVE_MAX_ATTEMPTS", job.max_attempts().to_string()),
                ("REDRIVE_GENERATION", job.generation().to_string()),
                ("REDRIVE_PRIORITY", job.priority().to_string()),
                ("REDRIVE_ENQUEUED_AT", rfc3339(job.enqueued_at())),
            ],
            input: line_of(job.payload()),
            output: Output::Ours,
            is_cancelled: &|| job.is_cancelled(),
            // It could not finish; that is not its fault, so the attempt does not count.
            cut_short: || Failure::snooze(Duration::ZERO).class("cancelled"),
        })
    }

    /// Runs the command for a letter, to its end or the deadline.
    pub(crate) fn handle_letter(
        &self,
        letter: &Letter,
        output: Output,
        deadline: Duration,
    ) -> Result<(), Failure> {
        let begin = Instant::now();
        let mut environment = vec![
            ("REDRIVE_LETTER_ID", letter.id.to_string()),
            ("REDRIVE_QUEUE", letter.queue.clone()),
            ("REDRIVE_KIND", letter.kind.clone()),
            ("REDRIVE_STATE", letter.state.to_string()),
            ("REDRIVE_REASON", letter.reason.to_string()),
            ("REDRIVE_ERROR_CLASS", letter.error_class.clone()),
            ("REDRIVE_ERROR_MESSAGE", letter.error_message.clone()),
            ("REDRIVE_GENERATION", letter.generation.to_string()),
            ("REDRIVE_ENQUEUED_AT", rfc3339(letter.enqueued_at)),
            ("REDRIVE_DIED_AT", rfc3339(letter.died_at)),
        ];
        let captured = [
            ("REDRIVE_SOURCE", &letter.source),
            ("REDRIVE_POSITION", &letter.position),
            ("REDRIVE_CONTENT_TYPE", &letter.content_type),
        ];
        environment.extend(
            captured
                .into_iter()
                .filter_map(|(name, value)| Some((name, value.clone()?))),
        );
        let headers = letter.headers.as_deref().map(RawValue::get);
        environment.extend(headers.map(|headers| ("REDRIVE_HEADERS", headers.to_owned())));
        self.run(&Errand {
            subject: format!("letter {}", letter.id),
            environment,
            // Captured bytes go as they came, without a line break of ours.
            input: letter.raw.clone().unwrap_or_else(|| {
                let payload = letter.payload.as_deref();
                payload.map(line_of).unwrap_or_default()
            }),
            output,
            is_cancelled: &|| begin.elapsed() > deadline,
            cut_short: || {
                Failure::retry("the command was ended: it took too long").class("timeout")
            },
        })
    }

    /// Runs the command, to its end.
    fn run(&self, errand: &Errand<'_>) -> Result<(), Failure> {
        let mut child = self.start(errand).map_err(|error| {
            Failure::retry(format!("could not start `sh`: {error}")).class("spawn")
        })?;
        let captured = Arc::new(Mutex::new(Captured::default()));
        feed(&mut child, errand.input.clone());
        let stderr_ended = listen(&mut child, &captured);
        let child = Arc::new(Mutex::new(child));
        lock(&self.running).push(Arc::clone(&child));
        let ended = self.wait(&child, &stderr_ended, errand);
        lock(&self.running).retain(|other| !Arc::ptr_eq(other, &child));
        // Usually it has ended already.
        _ = stderr_ended.recv_timeout(STDERR_GRACE);
        let captured = lock(&captured).text();
        match ended {
            Ok(Ended::ByItself(status)) => outcome(status, captured, &errand.subject),
            Ok(Ended::ByUs) => {
                let failure = (errand.cut_short)();
                Err(if captured.is_empty() {
                    failure
                } else {
                    failure.detail(captured)
                })
            }
            Err(error) => Err(
                Failure::retry(format!("could not wait for the command: {error}")).class("wait"),
            ),
        }
    }

    /// Kills every command that runs, with all of its process group.
    pub(crate) fn kill_all(&self) {
        self.ending.store(true, Ordering::Relaxed);
        for child in &*lock(&self.running) {
            signal(&mut lock(child), Signal::KILL);
        }
    }

    /// Whether a command ended by itself. Success counts, whoever asked it to end.
    fn ended(&self, status: ExitStatus, told: Option<Instant>) -> Ended {
        let by_us = told.is_some() || self.ending.load(Ordering::Relaxed);
        if by_us && !status.success() {
            Ended::ByUs
        } else {
            Ended::ByItself(status)
        }
    }

    fn start(&self, errand: &Errand<'_>) -> io::Result<Child> {
        let environment = errand.environment.iter();
        Command::new("sh")
            .arg("-c")
            .arg(&self.command)
            .envs(environment.map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(match errand.output {
                Output::Ours => Stdio::inherit(),
                Output::Nowhere => Stdio::null(),
            })
            .stderr(Stdio::piped())
            // Its own group: a Ctrl-C reaches us alone, and what it starts ends with it.
            .process_group(0)
            .spawn()
    }

    /// Waits for the end of a command. The end of its stderr is a sign that it is near; a
    /// cancellation is passed on as SIGTERM, and as SIGKILL soon after.
    fn wait(
        &self,
        child: &Mutex<Child>,
        stderr_ended: &Receiver<()>,
        errand: &Errand<'_>,
    ) -> io::Result<Ended> {
        let mut nap = Duration::from_millis(1);
        let mut told: Option<Instant> = None;
        loop {
            if stderr_ended.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Disconnected) {
                // Nothing will wake us any more: look soon, then less often.
                if let Some(status) = lock(child).try_wait()? {
                    return Ok(self.ended(status, told));
                }
                thread::sleep(nap);
                nap = (nap * 2).min(LOOK_EVERY);
            }
            if let Some(status) = lock(child).try_wait()? {
                return Ok(self.ended(status, told));
            }
            if (errand.is_cancelled)() || self.ending.load(Ordering::Relaxed) {
                match told {
                    None => {
                        signal(&mut lock(child), Signal::TERM);
                        told = Some(Instant::now());
                    }
                    Some(at) if at.elapsed() > self.term_grace => {
                        signal(&mut lock(child), Signal::KILL);
                    }
                    Some(_) => {}
                }
            }
        }
    }
}

/// Where the stdout of a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// To ours.
    Ours,
    /// Nobody reads it.
    Nowhere,
}

/// What a command is run for.
struct Errand<'a> {
    /// The job or letter, for the log.
    subject: String,
    environment: Vec<(&'static str, String)>,
    /// What it reads from its stdin.
    input: Vec<u8>,
    output: Output,
    is_cancelled: &'a dyn Fn() -> bool,
    /// What it means that it was ended by us.
    cut_short: fn() -> Failure,
}

/// JSON as a line.
fn line_of(json: &RawValue) -> Vec<u8> {
    let mut line = json.get().as_bytes().to_vec();
    line.push(b'\n');
    line
}

/// How a command ended.
#[derive(Clone, Copy, Debug)]
enum Ended {
    ByItself(ExitStatus),
    ByUs,
}

/// Signals the process group of a command that has not ended: its number is its own until it
/// has been waited for.
fn signal(child: &mut Child, signal: Signal) {
    if matches!(child.try_wait(), Ok(None))
        && let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw)
    {
        // It may have ended just now; then there is nothing to do.
        _ = kill_process_group(group, signal);
    }
}

/// Writes to the command's stdin, on a thread: it need not read it.
fn feed(child: &mut Child, input: Vec<u8>) {
    if let Some(mut stdin) = child.stdin.take() {
        thread::spawn(move || {
            // A command that does not want its payload is no failure.
            _ = stdin.write_all(&input);
        });
    }
}

/// Collects the command's stderr on a thread; the receiver is disconnected at its end.
fn listen(child: &mut Child, captured: &Arc<Mutex<Captured>>) -> Receiver<()> {
    let (open, ended) = mpsc::channel();
    if let Some(mut stderr) = child.stderr.take() {
        let captured = Arc::clone(captured);
        thread::spawn(move || {
            let _open = open;
            let mut bytes = [0; 8192];
            loop {
                match stderr.read(&mut bytes) {
                    Ok(0) => break,
                    Ok(read) => lock(&captured).push(&bytes[..read]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
            }
        });
    }
    ended
}

/// What an exit status means: 0 done, 65 rejected, 69 an outage, anything else another attempt.
fn outcome(status: ExitStatus, stderr: String, subject: &str) -> Result<(), Failure> {
    if status.success() {
        if !stderr.is_empty() {
            log::info!("{subject} is done and says: {}", stderr.trim_end());
        }
        return Ok(());
    }
    let (class, ended) = match (status.code(), status.signal()) {
        (Some(code), _) => (
            format!("exit {code}"),
            format!("the command exited with {code}"),
        ),
        (None, Some(signal)) => (
            format!("signal {signal}"),
            format!("the command was killed by signal {signal}"),
        ),
        (None, None) => ("unknown".to_owned(), format!("the command ended: {status}")),
    };
    // Programs say last what made them give up.
    let last = stderr
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty());
    let message = last.map_or(ended, ToOwned::to_owned);
    log::info!("{subject} failed with {class}: {message}");
    let failure = match status.code() {
        Some(REJECTED) => Failure::reject(message),
        Some(OUTAGE) => Failure::outage(message),
        _ => Failure::retry(message),
    };
    Err(match stderr.is_empty() {
        true => failure.class(class),
        false => failure.class(class).detail(stderr),
    })
}

/// Locks what is good in any state that a panic could have left it in.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &str, payload: &str) -> Result<(), Failure> {
        let payload = RawValue::from_string(payload.to_owned()).expect("JSON");
        Shell::new(command, None).handle(&Job::sample(payload))
    }

    fn told(command: &str) -> String {
        format!("{:?}", run(command, "{}").expect_err("it fails"))
    }

    #[test]
    fn the_payload_is_stdin_and_the_facts_are_the_environment() {
        let check = r#"test "$(cat)" = '{"a": 1}' && test "$REDRIVE_ATTEMPT/$REDRIVE_MAX_ATTEMPTS" = 1/5 &&
            test "$REDRIVE_KIND" = sample && case $REDRIVE_ENQUEUED_AT in 20*Z) ;; *) exit 1;; esac"#;
        run(check, r#"{"a": 1}"#).expect("all as it should be");
        run("true", &format!("\"{}\"", "x".repeat(1_000_000))).expect("a command need not read");
    }

    #[test]
    fn the_exit_status_decides() {
        let rejected = told("echo first >&2; echo 'bad order' >&2; echo >&2; exit 65");
        assert!(
            rejected.contains("Reject") && rejected.contains("exit 65"),
            "{rejected}"
        );
        assert!(
            rejected.contains("message: \"bad order\"") && rejected.contains("first\\n"),
            "{rejected}"
        );
        let retry = told("exit 1");
        assert!(
            retry.contains("Retry") && retry.contains("exit 1") && retry.contains("exited with 1"),
            "{retry}"
        );
        let outage = told("echo 'no route' >&2; exit 69");
        assert!(
            outage.contains("wish: Outage") && outage.contains("no route"),
            "{outage}"
        );
        let killed = told("kill -9 $$");
        assert!(
            killed.contains("Retry") && killed.contains("signal 9"),
            "{killed}"
        );
    }

    #[test]
    fn what_a_command_leaves_behind_does_not_hold_the_slot() {
        let begin = Instant::now();
        let told = told("sleep 20 >/dev/null & echo gone >&2; exit 3");
        assert!(told.contains("exit 3") && told.contains("gone"), "{told}");
        assert!(begin.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn a_flood_on_stderr_is_bounded() {
        let told = told("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo end >&2; exit 1");
        assert!(
            told.len() < 200_000 && told.contains("cut ...]"),
            "{}",
            told.len()
        );
    }

    #[test]
    fn killing_all_ends_the_group_and_the_attempt_does_not_count() {
        let shell = Arc::new(Shell::new("sleep 30; true", None));
        let handler = thread::spawn({
            let shell = Arc::clone(&shell);
            move || shell.handle(&Job::sample(RawValue::NULL.to_owned()))
        });
        let begin = Instant::now();
        while lock(&shell.running).is_empty() && begin.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(5));
        }
        shell.kill_all();
        let failure = handler.join().expect("no panic").expect_err("killed");
        assert!(format!("{failure:?}").contains("Snooze"), "{failure:?}");
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
}
