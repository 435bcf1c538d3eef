//! The mutated texts: the statements of the library, and the functions of the schema.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use regex::Regex;

/// The folder of the statements.
const STATEMENTS: &str = "crates/redrive/sql";
/// The folder of the migrations, which create the functions.
const MIGRATIONS: &str = "migrations";
/// A function with its name and its body, as every migration writes it.
const FUNCTION: &str = r"(?xms)^CREATE\ (?:OR\ REPLACE\ )?(?<function>
    FUNCTION\ redrive\.(?<name>\w+)\(.*?
    ^\ *(?<body>(?:AS\ )?\$\$.*?\$\$ | BEGIN\ ATOMIC\n.*?^END | RETURN\ [^;]*));";

/// The place where a text is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// Sent by the library.
    Statement,
    /// Stored in the database.
    Function,
}

/// A statement or a function.
#[derive(Clone, Debug)]
pub(super) struct Source {
    pub(super) origin: Origin,
    /// The name without folder and schema.
    pub(super) name: String,
    /// The file, below the root of the repository.
    pub(super) path: String,
    /// The line in the file where the text begins.
    pub(super) line: usize,
    pub(super) text: String,
    /// The first byte of the text that may change.
    pub(super) body: usize,
}

#[cfg(test)]
impl Source {
    /// A statement in a file with its name.
    pub(super) fn statement(name: &str, text: &str) -> Source {
        Source {
            origin: Origin::Statement,
            name: name.to_owned(),
            path: format!("sql/{name}.sql"),
            line: 1,
            text: text.to_owned(),
            body: 0,
        }
    }
}

/// Returns the statements and the functions of a repository, in the order of their files.
pub(super) fn sources(root: &Path) -> Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in files(&root.join(STATEMENTS))? {
        let name = path.file_stem().unwrap_or_default();
        sources.push(Source {
            origin: Origin::Statement,
            name: name.to_string_lossy().into_owned(),
            path: below(root, &path),
            line: 1,
            text: read(&path)?,
            body: 0,
        });
    }
    let pattern = Regex::new(FUNCTION)?;
    for path in files(&root.join(MIGRATIONS))? {
        sources.extend(functions(&pattern, &below(root, &path), &read(&path)?));
    }
    Ok(sources)
}

/// Checks that the functions of a database are those of the sources.
pub(super) fn check_functions(sources: &[Source], database: &[String]) -> Result<()> {
    let functions = sources
        .iter()
        .filter(|source| source.origin == Origin::Function);
    let found: BTreeSet<&str> = functions.clone().map(|source| &*source.name).collect();
    let expected: BTreeSet<&str> = database.iter().map(|name| &**name).collect();
    let differing: Vec<&&str> = found.symmetric_difference(&expected).collect();
    ensure!(
        differing.is_empty() && functions.count() == database.len(),
        "the functions in {MIGRATIONS} are not those of a migrated database: {differing:?}; \
         the pattern in source.rs must find each function once"
    );
    Ok(())
}

/// Returns the functions that a migration creates. Each replaces itself when its text runs.
fn functions(pattern: &Regex, path: &str, text: &str) -> Vec<Source> {
    let create = "CREATE OR REPLACE ";
    let functions = pattern.captures_iter(text).filter_map(|found| {
        let [function, name, body] = ["function", "name", "body"].map(|part| found.name(part));
        let (function, name, body) = (function?, name?, body?);
        Some(Source {
            origin: Origin::Function,
            name: name.as_str().to_owned(),
            path: path.to_owned(),
            line: 1 + text[..function.start()].matches('\n').count(),
            text: format!("{create}{}", function.as_str()),
            body: create.len() + body.start() - function.start(),
        })
    });
    functions.collect()
}

/// Returns the SQL files below a folder, sorted.
pub(crate) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            files.extend(self::files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "sql") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn below(root: &Path, path: &Path) -> String {
    path.strip_prefix(root)
        .unwrap_or(path)
        .display()
        .to_string()
}
