//! Cargo, as seen from a program that cargo runs.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use crate::error::{During, Error, Result};

/// The same cargo that runs us, with these arguments.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(arguments);
    // What `cargo run` told us about xtask is not about the packages that we build.
    for (variable, _) in env::vars_os() {
        let name = variable.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(variable);
        }
    }
    command
}

/// The root of the workspace we are run in.
pub(crate) fn workspace() -> Result<PathBuf> {
    let output = cargo(["locate-project", "--workspace", "--message-format=plain"])
        .output()
        .during(|| "cannot ask cargo for the workspace")?;
    let manifest = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    manifest
        .parent()
        .filter(|_| output.status.success())
        .map(PathBuf::from)
        .ok_or_else(|| {
            Error::new(
                "this is not a folder of the redrive repository: run `cargo xtask` inside it",
            )
        })
}

/// A command line as a person would type it.
pub(crate) fn typed(command: &Command) -> String {
    let word = |word: &std::ffi::OsStr| {
        let word = word.to_string_lossy().into_owned();
        if word.contains(|c: char| c.is_whitespace() || "'\"$*&|;()<>".contains(c)) {
            format!("'{word}'")
        } else {
            word
        }
    };
    let program = PathBuf::from(command.get_program());
    let name = program.file_name().unwrap_or_else(|| command.get_program());
    std::iter::once(name)
        .chain(command.get_args())
        .map(word)
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_typed() {
        let mut command = Command::new("/some/where/cargo");
        command.args(["clippy", "--", "-D", "a b"]);
        assert_eq!(typed(&command), "cargo clippy -- -D 'a b'");
    }
}
