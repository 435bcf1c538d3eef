//! Secrets: passwords and payloads never appear in output, logs or errors.

pub(crate) mod password;
mod payload;

use std::error::Error as StdError;
use std::ffi::OsStr;

use redrive_tests::prelude::*;

/// Runs `redrive` as a process with its URL in the environment.
fn command(url: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_test_cli"));
    command
        .env("DATABASE_URL", url)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .args(["--no-wait", "-vv"]);
    command
}

fn run(url: &str, arguments: &[impl AsRef<OsStr>]) -> Output {
    command(url).args(arguments).output().expect("run redrive")
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
