//! Tidy: the rules of the repository that a program can check.

mod canary;
mod citations;
mod code;
mod headers;
mod layers;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Returns the root of the repository.
fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = tests.parent().expect("the root of the repository");
    root.to_owned()
}

/// Returns the files below a folder with one of these extensions, sorted.
///
/// Leaves out hidden files, links, and what cargo and npm produce.
fn files(below: &str, extensions: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(below)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.expect("an entry of a folder").path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_made = name.starts_with('.') || name == "target" || name == "node_modules";
            if is_made || path.is_symlink() {
                continue;
            }
            let is_wanted = |has: &OsStr| extensions.iter().any(|wanted| has == *wanted);
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(is_wanted) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the path below the root.
fn shown(path: &Path) -> String {
    let below = path.strip_prefix(root()).unwrap_or(path);
    below.display().to_string()
}

/// Fails with every offence, one per line.
#[track_caller]
fn assert_none(offences: &[String]) {
    assert!(offences.is_empty(), "\n{}", offences.join("\n"));
}

/// Fails with every file that is not as it should be.
#[track_caller]
fn assert_each(files: &[PathBuf], offence: &str, is_right: impl Fn(&Path) -> bool) {
    let wrong = files.iter().filter(|path| !is_right(path));
    let offences = wrong.map(|path| format!("{}: {offence}", shown(path)));
    assert_none(&offences.collect::<Vec<_>>());
}

/// Returns every line of the files that contains one of the words, which are given with `|` between them.
///
/// Each word has a `+` in it, so that this file does not contain it.
fn lines_with(files: &[PathBuf], words: &str) -> Vec<String> {
    let words = words.split('|').map(|word| word.replacen('+', "", 1));
    let words: Vec<String> = words.collect();
    let mut offences = Vec::new();
    for path in files {
        for (number, line) in (1..).zip(read(path).lines()) {
            if let Some(word) = words.iter().find(|word| line.contains(&***word)) {
                offences.push(format!("{}:{number}: `{word}`", shown(path)));
            }
        }
    }
    offences
}
