//! The programs of the demo: the order service and the command line tool `redrive`, built
//! from this workspace and run as anybody would run them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::cargo::{cargo, typed, workspace};
use crate::error::{During, Error, Result};
use crate::interrupt::{Interrupt, Running};

/// How long a program may take that is not meant to stay.
const PATIENCE: Duration = Duration::from_mins(2);
/// How long the order service may take to finish what it has begun.
const GRACE: Duration = Duration::from_secs(15);
/// How many lines of its log an error shows.
const LOG_LINES: usize = 15;

/// The built programs.
#[derive(Debug)]
pub(crate) struct Programs {
    order_service: PathBuf,
    redrive: PathBuf,
    exporter: PathBuf,
}

impl Programs {
    /// Builds them in the profile that this program was built in.
    pub(crate) fn build(interrupt: &Interrupt) -> Result<Programs> {
        let build = || -> Result<Command> {
            let mut build = cargo(["build", "--package=redrive-cli", "--bin=redrive"]);
            build.args(["--package=redrive", "--example=order_service"]);
            build.args(["--package=redrive-exporter", "--bin=redrive-exporter"]);
            if !cfg!(debug_assertions) {
                build.arg("--release");
            }
            build.current_dir(workspace()?);
            Ok(build)
        };
        // Once for people, who may have to wait for it, and once to be told where things are.
        let status = interrupt.run(&mut build()?)?;
        if !status.success() {
            return Err(Error::new(format!(
                "`{}` ended with {status}",
                typed(&build()?)
            )));
        }
        let mut ask = build()?;
        ask.args(["--quiet", "--message-format=json"]);
        let told = interrupt
            .output(&mut ask, PATIENCE)?
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
            .unwrap_or_default();
        let find = |name: &str| {
            executable(&told, name).ok_or_else(|| {
                Error::new(format!("`{}` does not tell where `{name}` is", typed(&ask)))
            })
        };
        Ok(Programs {
            order_service: find("order_service")?,
            redrive: find("redrive")?,
            exporter: find("redrive-exporter")?,
        })
    }

    /// The programs, working on this queue.
    pub(crate) fn on<'a>(&'a self, queue: &'a str, url: &'a str, log: &'a Path) -> Shop<'a> {
        Shop {
            programs: self,
            queue,
            url,
            log,
        }
    }
}

/// The programs at work on one queue of one database, with one file for their log lines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shop<'a> {
    programs: &'a Programs,
    queue: &'a str,
    url: &'a str,
    log: &'a Path,
}

impl<'a> Shop<'a> {
    /// The queue they work on.
    pub(crate) fn queue(&self) -> &'a str {
        self.queue
    }

    /// The database it is in.
    pub(crate) fn url(&self) -> &'a str {
        self.url
    }

    /// The program that publishes its numbers.
    pub(crate) fn exporter(&self) -> &'a Path {
        &self.programs.exporter
    }

    /// The file of the log lines; other programs write theirs beside it.
    pub(crate) fn log(&self) -> &'a Path {
        self.log
    }

    /// Runs the command line tool to its end and answers what it printed.
    pub(crate) fn redrive(&self, interrupt: &Interrupt, arguments: &[&str]) -> Result<String> {
        let mut command = Command::new(&self.programs.redrive);
        self.printed(interrupt, command.args(arguments))
    }

    /// Takes a file of orders.
    pub(crate) fn take(&self, interrupt: &Interrupt, file: &Path) -> Result<String> {
        let mut command = self.order_service();
        self.printed(interrupt, command.arg("take").arg(file))
    }

    /// Starts a release of the order service.
    pub(crate) fn work(&self, gateway: &str, release: u8) -> Result<Running> {
        let log = File::options()
            .append(true)
            .create(true)
            .open(self.log)
            .during(|| format!("cannot write {}", self.log.display()))?;
        let mut command = self.order_service();
        command.args([
            "work",
            "--gateway",
            gateway,
            "--release",
            &release.to_string(),
        ]);
        Running::start(command.env("DATABASE_URL", self.url).stderr(log))
    }

    /// An error when the order service has ended by itself, with the end of its log.
    pub(crate) fn check(&self, service: &mut Running) -> Result<()> {
        match service.status()? {
            None => Ok(()),
            Some(status) => Err(self.ended("the order service ended by itself", status)),
        }
    }

    /// Stops the order service by SIGTERM; its deliveries under way are finished first.
    pub(crate) fn stop(&self, interrupt: &Interrupt, mut service: Running) -> Result<()> {
        let status = service.stop(interrupt, GRACE)?;
        if status.success() {
            return Ok(());
        }
        Err(self.ended("the order service did not stop gracefully", status))
    }

    fn ended(&self, what: &str, status: std::process::ExitStatus) -> Error {
        let log = fs::read_to_string(self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let end = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n    ");
        Error::new(format!("{what}: {status}. The end of its log:\n    {end}"))
    }

    fn order_service(&self) -> Command {
        let mut command = Command::new(&self.programs.order_service);
        command.args(["--queue", self.queue]);
        command
    }

    fn printed(&self, interrupt: &Interrupt, command: &mut Command) -> Result<String> {
        command.env("DATABASE_URL", self.url);
        let Some(output) = interrupt.output(command, PATIENCE)? else {
            return Err(Error::new(format!(
                "`{}` did not end within {} s",
                typed(command),
                PATIENCE.as_secs()
            )));
        };
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        Err(Error::new(format!(
            "`{}` ended with {}: {}",
            typed(command),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )))
    }
}

/// Where cargo says that it put an executable.
fn executable(told: &str, name: &str) -> Option<PathBuf> {
    told.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == name)
        .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_are_where_cargo_says() {
        let told = concat!(
            "{\"target\":{\"name\":\"redrive\"},\"executable\":null}\n",
            "not JSON\n",
            "{\"target\":{\"name\":\"redrive\"},\"executable\":\"/target/debug/redrive\"}\n",
        );
        assert_eq!(
            executable(told, "redrive"),
            Some(PathBuf::from("/target/debug/redrive"))
        );
        assert_eq!(executable(told, "order_service"), None);
    }
}
