//! Cargo, called from a program that cargo runs.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::interrupt::Interrupt;

/// How long a build may take on a slow machine.
const BUILD: Duration = Duration::from_mins(30);

/// How long git may take.
const GIT: Duration = Duration::from_mins(1);

/// The cargo that runs this program, with these arguments.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let program = env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.args(arguments);
    // `cargo run` describes xtask in these, which is wrong for the packages built from here.
    for (variable, _) in env::vars_os() {
        let name = variable.to_string_lossy();
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            command.env_remove(variable);
        }
    }
    command
}

/// Returns the root of the workspace.
pub(crate) fn workspace() -> Result<PathBuf> {
    let output = cargo(["locate-project", "--workspace", "--message-format=plain"])
        .output()
        .context("cannot run `cargo locate-project`")?;
    let manifest = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let root = manifest.parent().filter(|_| output.status.success());
    root.map(PathBuf::from)
        .context("not inside the redrive repository; run `cargo xtask` in one of its folders")
}

/// Returns the folder of what cargo builds.
pub(crate) fn target_folder(root: &Path) -> PathBuf {
    let named = env::var_os("CARGO_TARGET_DIR").filter(|folder| !folder.is_empty());
    root.join(named.unwrap_or_else(|| OsString::from("target")))
}

/// Returns what git says about a folder.
pub(crate) fn git(folder: &Path, arguments: &[&str], interrupt: &Interrupt) -> Result<String> {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder).args(arguments);
    interrupt.stdout(&mut git, GIT)
}

/// The executables of one build.
#[derive(Debug)]
pub(crate) struct Artifacts(Vec<Value>);

impl Artifacts {
    /// Builds targets, such as `["--bin", "redrive"]`, in the profile of this program.
    ///
    /// The build selects the whole workspace with all features, as the tests do, so both share
    /// their dependencies.
    pub(crate) fn build(targets: &[&str], interrupt: &Interrupt) -> Result<Artifacts> {
        let mut build = cargo(["build"]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        // An example makes cargo unify features with dev-dependencies, as for tests.
        build.args(targets).args(["--example", "hello"]);
        Artifacts::of(&mut build, interrupt)
    }

    /// Runs a build command of cargo and collects what it reports.
    pub(crate) fn of(build: &mut Command, interrupt: &Interrupt) -> Result<Artifacts> {
        build
            .args(["--locked", "--workspace", "--all-features"])
            .arg("--message-format=json-render-diagnostics")
            .current_dir(workspace()?);
        println!("    $ {}", typed(build));
        // Progress and diagnostics go to the terminal.
        let (status, messages) = interrupt
            .ended(build, BUILD)?
            .with_context(|| format!("the build did not end within {BUILD:?}"))?;
        ensure!(status.success(), "the build ended with {status}");
        let messages = messages
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        Ok(Artifacts(messages.collect()))
    }

    /// Returns the path of an executable by the name of its target.
    pub(crate) fn executable(&self, target: &str) -> Result<PathBuf> {
        let is_wanted = |message: &&Value| {
            // The test harness of a program has the name of its target, too.
            let kind = &message["target"]["kind"][0];
            let is_harness =
                message["profile"]["test"] == true && kind != "bench" && kind != "test";
            message["target"]["name"] == target && !is_harness
        };
        self.0
            .iter()
            .filter(is_wanted)
            .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
            .with_context(|| format!("cargo built no executable of the target `{target}`"))
    }
}

/// A command line as a person would type it.
pub(crate) fn typed(command: &Command) -> String {
    let quoted = |word: &OsStr| {
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
        .map(quoted)
        .collect::<Vec<_>>()
        .join(" ")
}
