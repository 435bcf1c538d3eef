//! The programs of the demo: the order service, the command line and the exporter.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};

use crate::cargo::Artifacts;
use crate::child::ChildGuard;
use crate::cluster::tail;
use crate::interrupt::Interrupt;

/// How long a command may take.
const TIMEOUT: Duration = Duration::from_mins(2);
/// How long the order service may take to finish its running jobs.
const GRACE: Duration = Duration::from_secs(15);
/// How many lines of a log an error shows.
const LOG_LINES: usize = 15;

/// What the demo builds.
pub(super) const TARGETS: [&str; 6] = [
    "--bin",
    "redrive",
    "--bin",
    "redrive-exporter",
    "--example",
    "order_service",
];

/// Runs the programs on one queue of one database.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session<'a> {
    pub(crate) programs: &'a Artifacts,
    pub(crate) queue: &'a str,
    pub(crate) url: &'a str,
    /// Where logs go.
    pub(crate) folder: &'a Path,
    pub(crate) interrupt: &'a Interrupt,
}

impl Session<'_> {
    /// Runs the command line to its end and returns its output.
    pub(crate) fn redrive(&self, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(self.programs.executable("redrive")?);
        command.args(arguments).env("DATABASE_URL", self.url);
        self.interrupt.stdout(&mut command, TIMEOUT)
    }

    /// Starts a release of the order service.
    pub(crate) fn start_service(&self, gateway: &str, release: u8) -> Result<ChildGuard> {
        let file = self.log("order_service");
        let log = File::options()
            .append(true)
            .create(true)
            .open(&file)
            .with_context(|| format!("cannot write {}", file.display()))?;
        let mut command = Command::new(self.programs.executable("order_service")?);
        command
            .args(["--queue", self.queue, "--gateway", gateway])
            .args(["--release", &release.to_string()]);
        ChildGuard::start(command.env("DATABASE_URL", self.url).stderr(log))
    }

    /// Returns an error with the end of its log if a program has ended.
    pub(crate) fn check_running(&self, program: &mut ChildGuard, name: &str) -> Result<()> {
        match program.status()? {
            None => Ok(()),
            Some(status) => Err(self.ended(name, status)),
        }
    }

    /// Stops the order service. It finishes its running jobs first.
    pub(crate) fn stop_service(&self, mut service: ChildGuard) -> Result<()> {
        let status = service.stop(self.interrupt, GRACE)?;
        ensure!(status.success(), self.ended("order_service", status));
        Ok(())
    }

    /// The log file of a program.
    pub(crate) fn log(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.log"))
    }

    fn ended(&self, name: &str, status: ExitStatus) -> anyhow::Error {
        let log = fs::read_to_string(self.log(name)).unwrap_or_default();
        let end = tail(&log, LOG_LINES);
        anyhow!("{name} ended with {status}. The end of its log:\n{end}")
    }
}
