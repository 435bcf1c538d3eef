//! The packages: that what would be published is complete, and builds by itself.

use std::path::PathBuf;
use std::{env, fs};

use super::Bench;
use crate::cargo::cargo;
use crate::error::{During, Error, Result};

/// The packages that are published, in the order of their dependencies.
const PUBLISHED: [&str; 3] = ["redrive", "redrive-cli", "redrive-exporter"];
/// What the library includes at compile time: files below the repository's root that reach its
/// package through symbolic links, so that a broken link would go unnoticed here.
const INCLUDED: [&str; 2] = ["migrations", "sql"];

/// Packs the published packages, builds each from its package alone, and looks for the SQL.
pub(super) fn check(bench: &Bench<'_>) -> Result<()> {
    // Everything anew: to cargo a package of the same name and version is the same package, unpacked
    // and built at an earlier check.
    forget_unpacked()?;
    let folder = bench.root.join("target").join("packages");
    if folder.is_dir() {
        fs::remove_dir_all(&folder).during(|| format!("cannot remove {}", folder.display()))?;
    }
    let mut package = cargo(["package", "--locked", "--allow-dirty", "--target-dir"]);
    package.arg(&folder);
    for name in PUBLISHED {
        package.args(["--package", name]);
    }
    bench.run(&mut package)?;

    let mut list = cargo([
        "package",
        "--locked",
        "--allow-dirty",
        "--list",
        "--package",
        "redrive",
    ]);
    let packed = bench.lines_of(&mut list)?;
    for folder in INCLUDED {
        let missing = sql_files(bench, folder)?
            .into_iter()
            .filter(|file| !packed.lines().any(|line| line == file))
            .collect::<Vec<_>>();
        if !missing.is_empty() {
            return Err(Error::new(format!(
                "not in the package of `redrive`: {}\n\
                 See `include` in crates/redrive/Cargo.toml and the links in crates/redrive.",
                missing.join(", ")
            )));
        }
    }
    Ok(())
}

/// Removes what cargo unpacked of these packages at an earlier check.
fn forget_unpacked() -> Result<()> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let Some(sources) = home.map(|home| home.join("registry").join("src")) else {
        return Ok(());
    };
    // No folder: nothing was ever unpacked.
    for registry in sources.read_dir().into_iter().flatten().flatten() {
        for name in PUBLISHED {
            let unpacked = registry
                .path()
                .join(format!("{name}-{}", env!("CARGO_PKG_VERSION")));
            if unpacked.is_dir() {
                fs::remove_dir_all(&unpacked)
                    .during(|| format!("cannot remove {}", unpacked.display()))?;
            }
        }
    }
    Ok(())
}

/// The SQL files in a folder of the library, by their names in its package. Never none.
fn sql_files(bench: &Bench<'_>, folder: &str) -> Result<Vec<String>> {
    let path = bench.root.join("crates").join("redrive").join(folder);
    let entries = path
        .read_dir()
        .during(|| format!("cannot list {}", path.display()))?;
    let files: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.rsplit_once('.').is_some_and(|(_, end)| end == "sql"))
        .map(|name| format!("{folder}/{name}"))
        .collect();
    if files.is_empty() {
        return Err(Error::new(format!(
            "there is no SQL file in {}",
            path.display()
        )));
    }
    Ok(files)
}
