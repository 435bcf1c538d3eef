//! The packages that `cargo publish` would upload.

use anyhow::{Context as _, Result, ensure};
use std::time::Duration;
use std::{env, fs};

use super::{Runner, Suite};
use crate::cargo::cargo;
use crate::mutants::sql_files;

/// The published packages, dependencies first.
const PUBLISHED: [&str; 4] = [
    "redrive-derive",
    "redrive",
    "redrive-cli",
    "redrive-exporter",
];
/// Folders that the library includes at compile time. They reach its package through symbolic
/// links, and a broken link would go unnoticed in the workspace.
const INCLUDED: [&str; 2] = ["migrations", "sql"];
/// How long listing a package may take.
const LIST: Duration = Duration::from_mins(5);

/// Checks that the package of the library holds all SQL. The full suite also builds every package
/// from its own files.
pub(super) fn check(runner: &Runner<'_>) -> Result<()> {
    for name in PUBLISHED {
        let mut list = cargo([
            "package",
            "--locked",
            "--allow-dirty",
            "--list",
            "--package",
        ]);
        let list = list.arg(name).current_dir(&runner.root);
        let packed = runner.interrupt.stdout(list, LIST)?;
        ensure!(
            packed.lines().any(|file| file == "README.md"),
            "`{name}` has no README.md"
        );
        if name == "redrive" {
            let packed: Vec<&str> = packed.lines().collect();
            for folder in INCLUDED {
                check_sql(runner, folder, &packed)?;
            }
        }
    }
    match runner.suite {
        Suite::Gate => Ok(()),
        Suite::Deep => build(runner),
    }
}

/// Checks that the package has every SQL file below a folder of the library, and at least one.
fn check_sql(runner: &Runner<'_>, folder: &str, packed: &[&str]) -> Result<()> {
    let root = runner.root.join("crates/redrive");
    let files = sql_files(&root.join(folder))?;
    ensure!(!files.is_empty(), "crates/redrive/{folder} has no SQL file");
    for file in files {
        let file = file.strip_prefix(&root)?.display().to_string();
        ensure!(
            packed.contains(&&*file),
            "{file} is missing from the package `redrive`; check `include` in \
             crates/redrive/Cargo.toml and the links in crates/redrive"
        );
    }
    Ok(())
}

/// Builds each package alone. Dependencies stay built between runs.
fn build(runner: &Runner<'_>) -> Result<()> {
    let target = runner.root.join("target/packages");
    forget(runner)?;
    let mut package = cargo(["package", "--locked", "--allow-dirty", "--target-dir"]);
    package.arg(&target);
    for name in PUBLISHED {
        package.args(["--package", name]);
    }
    runner.succeed(&mut package)
}

/// Removes what an earlier run unpacked and built: to cargo, a package of the same name and version
/// never changes.
fn forget(runner: &Runner<'_>) -> Result<()> {
    let mut clean = cargo(["clean", "--quiet", "--target-dir"]);
    clean.arg(runner.root.join("target/packages"));
    for name in PUBLISHED {
        clean.args(["--package", name]);
    }
    runner.succeed(&mut clean)?;
    let home = env::var_os("CARGO_HOME").map(Into::into);
    let home = home.or_else(|| Some(env::home_dir()?.join(".cargo")));
    let sources = home.unwrap_or_default().join("registry/src");
    // No such folder: cargo has unpacked nothing yet.
    for registry in sources.read_dir().into_iter().flatten().flatten() {
        for name in PUBLISHED {
            let unpacked = registry
                .path()
                .join(format!("{name}-{}", env!("CARGO_PKG_VERSION")));
            if unpacked.is_dir() {
                fs::remove_dir_all(&unpacked)
                    .with_context(|| format!("cannot remove {}", unpacked.display()))?;
            }
        }
    }
    Ok(())
}
