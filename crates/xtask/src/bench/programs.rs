//! The programs that hold the scenarios: built, and asked what they hold.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::{Profile, Scale};
use crate::cargo::{cargo, typed};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;

/// The bench targets with scenarios.
const TARGETS: &[&str] = &["scenarios", "allocations"];
/// How long a build may take on a slow machine.
const BUILD: Duration = Duration::from_mins(30);
/// How long a program may take to list what it holds.
const ANSWER: Duration = Duration::from_secs(10);

/// A scenario and the program that holds it.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// What it is called.
    pub(crate) name: String,
    /// What it measures.
    pub(crate) what: String,
    program: PathBuf,
}

impl Scenario {
    /// The command that runs it.
    pub(super) fn command(&self, scale: Scale) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(&self.name);
        if scale == Scale::Quick {
            command.arg("--quick");
        }
        command
    }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Programs(Vec<Scenario>);

impl Programs {
    /// Builds the programs.
    pub(super) fn build(root: &Path, profile: Profile, interrupt: &Interrupt) -> Result<Programs> {
        let mut build = cargo(["bench", "--locked", "--no-run"]);
        match profile {
            Profile::Bench => build.args(["--package", "redrive-benches"]),
            // With the features that the tests have, or all is built once more.
            Profile::Dev => build.args(["--profile", "dev", "--workspace", "--all-features"]),
        };
        for target in TARGETS {
            build.args(["--bench", target]);
        }
        build.args(["--message-format=json-render-diagnostics"]);
        build.current_dir(root);
        println!("    $ {}", typed(&build));
        let output = interrupt.output(&mut build, BUILD)?;
        let told = match output {
            Some(output) if output.status.success() => output.stdout,
            Some(output) => {
                return Err(Error::new(format!(
                    "`{}` failed:\n{}",
                    typed(&build),
                    String::from_utf8_lossy(&output.stderr).trim_end()
                )));
            }
            None => {
                return Err(Error::new(format!(
                    "`{}` did not end within {} minutes",
                    typed(&build),
                    BUILD.as_secs() / 60
                )));
            }
        };
        let told = String::from_utf8_lossy(&told);
        let mut all = Vec::new();
        for target in TARGETS {
            let program = executable(&told, target)
                .ok_or_else(|| Error::new(format!("`{}` built no `{target}`", typed(&build))))?;
            all.append(&mut held(&program, interrupt)?);
        }
        Ok(Programs(all))
    }

    /// The scenarios of these names, in this order; all without names.
    pub(super) fn chosen(&self, names: &[String]) -> Result<Vec<&Scenario>> {
        if names.is_empty() {
            return Ok(self.0.iter().collect());
        }
        names
            .iter()
            .map(|name| {
                self.0
                    .iter()
                    .find(|scenario| scenario.name == *name)
                    .ok_or_else(|| {
                        let known: Vec<String> = self
                            .0
                            .iter()
                            .map(|known| format!("\n    {:<14} {}", known.name, known.what))
                            .collect();
                        let known = known.concat();
                        Error::new(format!("there is no scenario `{name}`; there are:{known}"))
                    })
            })
            .collect()
    }
}

/// What a program holds.
fn held(program: &Path, interrupt: &Interrupt) -> Result<Vec<Scenario>> {
    let output = interrupt
        .output(&mut Command::new(program), ANSWER)?
        .filter(|output| output.status.success())
        .ok_or_else(|| Error::new(format!("{} lists nothing", program.display())))?;
    let list = String::from_utf8_lossy(&output.stdout);
    Ok(list
        .lines()
        .filter_map(|line| line.split_once('\t'))
        .map(|(name, what)| Scenario {
            name: name.to_owned(),
            what: what.to_owned(),
            program: program.to_owned(),
        })
        .collect())
}

/// Where cargo says that it put a target.
fn executable(told: &str, target: &str) -> Option<PathBuf> {
    told.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == target)
        .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_answered_with_the_names() {
        let scenario = |name: &str| Scenario {
            name: name.to_owned(),
            what: format!("Measures {name}."),
            program: PathBuf::from("/x"),
        };
        let programs = Programs(vec![scenario("bulk"), scenario("drain")]);
        let names =
            |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.to_owned()).collect() };
        let chosen = programs.chosen(&names(&["drain"])).expect("it is there");
        assert_eq!(chosen.len(), 1);
        assert_eq!(chosen[0].name, "drain");
        assert_eq!(programs.chosen(&[]).expect("all").len(), 2);
        let error = programs
            .chosen(&names(&["drain", "drian"]))
            .expect_err("it is not there")
            .to_string();
        assert!(
            error.contains("`drian`") && error.contains("Measures bulk."),
            "{error}"
        );
    }

    #[test]
    fn the_program_is_where_cargo_says() {
        let told = "{\"reason\":\"x\",\"target\":{\"name\":\"scenarios\"},\"executable\":null}\n\
                    {\"target\":{\"name\":\"scenarios\"},\"executable\":\"/t/scenarios-1\"}\n";
        assert_eq!(
            executable(told, "scenarios"),
            Some(PathBuf::from("/t/scenarios-1"))
        );
        assert_eq!(executable(told, "micro"), None);
    }
}
