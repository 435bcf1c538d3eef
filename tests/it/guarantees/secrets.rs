//! Secrets: passwords and payloads never appear in output, logs or errors.

pub(crate) mod password;
mod payload;

use std::error::Error as StdError;
use std::ffi::OsStr;

use redrive_tests::prelude::*;

use crate::worker_process::program;

/// Runs `redrive` as a process with its URL in the environment.
fn run(url: &str, arguments: &[impl AsRef<OsStr>]) -> Output {
    let output = program(url).arg("-vv").args(arguments).output();
    output.expect("run redrive")
}

#[track_caller]
fn nowhere(canary: &str, what: &str, text: impl AsRef<[u8]>) {
    let text = String::from_utf8_lossy(text.as_ref());
    assert!(!text.contains(canary), "{what} tells a secret:\n{text}");
}

/// Returns an error and its sources in every format that programs print.
fn error_text(error: &(dyn StdError + 'static)) -> String {
    let mut error_text = Vec::new();
    let mut cause = Some(error);
    while let Some(error) = cause {
        error_text.push(format!("{error} {error:?} {error:#?}"));
        cause = error.source();
    }
    error_text.join("\n")
}
