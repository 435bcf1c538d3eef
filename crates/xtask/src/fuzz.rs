//! `cargo xtask fuzz`: a million inputs for the properties, and many schedules for the models.
//!
//! The properties are the tests in the modules `inputs` of the library, the command line and the
//! exporter, made with proptest: random inputs from a seed, and the smallest one of those that
//! fail. Fuzzing by coverage would need a nightly compiler, and this builds with the stable one.

use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::Args;

use crate::cargo::{cargo, typed, workspace};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;

/// The packages that have properties.
const PACKAGES: [&str; 6] = [
    "-p",
    "redrive",
    "-p",
    "redrive-cli",
    "-p",
    "redrive-exporter",
];
/// How long the list of the properties may take; they are built by then.
const LIST: Duration = Duration::from_mins(1);

/// How much, and which.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many inputs, for all properties together; at least so many
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    inputs: u64,
    /// How many schedules for each scene of the models; heavy scenes get a part of it
    #[arg(long, value_name = "N", default_value_t = 20_000)]
    schedules: u64,
    /// What the inputs and the schedules are made from; another one each day unless said
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

/// Tries them.
pub(crate) fn run(options: &Options, interrupt: &Interrupt) -> Result<()> {
    let seed = options.seed.unwrap_or_else(today);
    let begin = Instant::now();
    if options.inputs > 0 {
        inputs(options.inputs, seed, interrupt)?;
    }
    if options.schedules > 0 {
        schedules(options.schedules, seed, interrupt)?;
    }
    println!("nothing was found in {} s", begin.elapsed().as_secs());
    Ok(())
}

fn inputs(at_least: u64, seed: u64, interrupt: &Interrupt) -> Result<()> {
    // The list below has a minute, and a build may take longer.
    finish(properties().arg("--no-run"), interrupt)?;
    let mut list = properties();
    list.args(["inputs::", "--", "--list", "--format", "terse"]);
    let output = interrupt.output(list.current_dir(workspace()?), LIST)?;
    let listed = output.filter(|output| output.status.success());
    let listed = listed.ok_or_else(|| Error::new("could not list the properties"))?;
    let count = count(&String::from_utf8_lossy(&listed.stdout));
    if count == 0 {
        return Err(Error::new("there are no properties"));
    }
    let each = at_least.div_ceil(count);
    println!(
        "{count} properties, {each} inputs each: {} inputs, seed {seed}",
        count * each
    );
    let mut command = properties();
    command
        .args(["--no-fail-fast", "inputs::"])
        .env("PROPTEST_CASES", each.to_string())
        .env("PROPTEST_RNG_SEED", seed.to_string());
    finish(&mut command, interrupt)
}

fn schedules(schedules: u64, seed: u64, interrupt: &Interrupt) -> Result<()> {
    println!("the models, {schedules} schedules for each light scene, seeds from {seed} on");
    let mut command = cargo([
        "test",
        "--locked",
        "--profile",
        "fuzz",
        "-p",
        "redrive-models",
    ]);
    command
        .args(["--test", "schedules"])
        .env("REDRIVE_SCHEDULES", schedules.to_string())
        .env("REDRIVE_SEED", seed.to_string());
    finish(&mut command, interrupt)
}

fn properties() -> Command {
    let mut command = cargo(["test", "--locked", "--profile", "fuzz", "--lib"]);
    command.args(PACKAGES);
    command
}

/// How many tests a list has.
fn count(list: &str) -> u64 {
    let tests = list.lines().filter(|line| line.ends_with(": test"));
    tests.count() as u64
}

fn today() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1, |since| since.as_secs() / 86_400)
}

fn finish(command: &mut Command, interrupt: &Interrupt) -> Result<()> {
    println!("    $ {}", typed(command));
    let status = interrupt.run(command.current_dir(workspace()?))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::new(format!(
        "`{}` ended with {status}",
        typed(command)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_are_counted_over_all_packages() {
        let list =
            "inputs::a::b: test\ninputs::c: test\n\n2 tests, 0 benchmarks\ninputs::d: test\n";
        assert_eq!(count(list), 3);
        assert_eq!(count("0 tests, 0 benchmarks\n"), 0);
    }
}
