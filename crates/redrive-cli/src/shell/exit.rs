//! Maps the exit status of a command to the outcome of its job.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use redrive::Failure;

use crate::optional::Optional as _;

/// The exit status of a permanent failure: `EX_DATAERR` of sysexits.h.
const REJECTED: i32 = 65;
/// The exit status of an outage of a dependency: `EX_UNAVAILABLE` of sysexits.h.
const OUTAGE: i32 = 69;
/// The start of a line of stderr that gives the key of the failure group.
const FAILURE_KEY: &str = "redrive-failure-key:";
/// The start of a line of stderr that gives the error class.
const ERROR_CLASS: &str = "redrive-error-class:";

/// Whether the shell of a command could not start a process: the host refused it, not the command. The
/// texts are those of dash, busybox and bash.
pub(super) fn is_refused_fork(status: ExitStatus, stderr: &str) -> bool {
    let last = stderr.trim_end().lines().last().unwrap_or_default();
    let is_refused = ["Resource temporarily unavailable", "Cannot allocate memory"]
        .iter()
        .any(|cause| last.ends_with(cause));
    !status.success()
        && (last.ends_with(": Cannot fork")
            || is_refused && (last.contains(": can't fork: ") || last.contains(": fork: ")))
}

/// Exit status 0 is success, 65 rejects the job, 69 reports an outage, anything else retries.
///
/// The last line of stderr is the error message, because programs report there what made them
/// give up. A line `redrive-failure-key: KEY` sets the key of the failure group instead, and a line
/// `redrive-error-class: CLASS` the error class.
pub(super) fn outcome(status: ExitStatus, stderr: String, subject: &str) -> Result<(), Failure> {
    if status.success() {
        if !stderr.is_empty() {
            log::info!("{subject}: succeeded: {}", stderr.trim_end());
        }
        return Ok(());
    }
    let (class, message) = match (status.code(), status.signal()) {
        (Some(code), _) => (
            format!("exit:{code}"),
            format!("the command exited with {code}"),
        ),
        (None, Some(signal)) => (
            format!("signal:{signal}"),
            format!("the command was killed by signal {signal}"),
        ),
        (None, None) => ("unknown".to_owned(), format!("the command ended: {status}")),
    };
    let lines = || stderr.lines().rev().map(str::trim);
    let told = |name: &str| {
        lines()
            .find_map(|line| line.strip_prefix(name))
            .map(str::trim)
            .filter(|value| !value.is_empty())
    };
    let is_message = |line: &&str| {
        !line.is_empty() && !line.starts_with(FAILURE_KEY) && !line.starts_with(ERROR_CLASS)
    };
    let last = lines().find(is_message);
    let class = told(ERROR_CLASS).map_or(class, ToOwned::to_owned);
    let message = last.map_or(message, ToOwned::to_owned);
    log::info!("{subject}: failed: {class}: {message}");
    let failure = match status.code() {
        Some(REJECTED) => Failure::reject(message),
        Some(OUTAGE) => Failure::outage(message),
        _ => Failure::retry(message),
    };
    let failure = failure
        .class(class)
        .with(told(FAILURE_KEY), Failure::failure_key);
    Err(with_detail(failure, stderr))
}

/// Adds what the command wrote.
pub(super) fn with_detail(failure: Failure, stderr: String) -> Failure {
    let detail = Some(stderr).filter(|stderr| !stderr.is_empty());
    failure.with(detail, Failure::detail)
}
