//! Names of files and types, and the words of the glossary.

use std::collections::BTreeMap;
use std::path::Path;

use super::source::Source;
use super::{assert_none, files, read, root, shown};

#[test]
fn no_file_has_a_vague_name() {
    let vague = [
        "utils", "util", "helpers", "helper", "common", "misc", "manager", "types",
    ];
    let offences: Vec<String> = files("", &["rs"])
        .iter()
        .filter(|path| {
            path.file_stem()
                .is_some_and(|stem| vague.iter().any(|word| stem == *word))
        })
        .map(|path| shown(path))
        .collect();
    assert_none(&offences);
}

/// Returns the name of the type or trait that a line at the outermost level defines.
fn defined(line: &str) -> Option<&str> {
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut word = words.next()?;
    if word == "pub" {
        word = words.find(|word| !matches!(*word, "" | "crate" | "super" | "in"))?;
    }
    matches!(word, "struct" | "enum" | "union" | "trait" | "type").then(|| words.next())?
}

#[test]
fn no_type_name_is_defined_twice_in_a_crate() {
    let mut offences = Vec::new();
    for manifest in files("", &["toml"]) {
        if manifest.file_name().is_none_or(|name| name != "Cargo.toml") {
            continue;
        }
        let package = manifest.parent().expect("the folder of the package");
        let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for path in sources(package) {
            let source = Source::of(&read(&path));
            for (number, line) in (1..).zip(source.code.lines()) {
                if let Some(name) = defined(line) {
                    let place = format!("{}:{number}", shown(&path));
                    types.entry(name.to_owned()).or_default().push(place);
                }
            }
        }
        offences.extend(
            types
                .iter()
                .filter(|(_, places)| places.len() > 1)
                .map(|(name, places)| format!("`{name}` is defined in {}", places.join(", "))),
        );
    }
    assert_none(&offences);
}

/// Returns the sources of a package without those of a package in one of its folders.
fn sources(package: &Path) -> Vec<std::path::PathBuf> {
    let below = package.strip_prefix(root()).expect("below the root");
    files(&below.to_string_lossy(), &["rs"])
        .into_iter()
        .filter(|path| {
            let nearest = path
                .ancestors()
                .skip(1)
                .find(|folder| folder.join("Cargo.toml").exists());
            // Each example is a program.
            nearest == Some(package) && !path.starts_with(package.join("examples"))
        })
        .collect()
}

#[test]
fn the_documentation_uses_the_words_of_the_glossary() {
    let banned = [
        (" heart", "beat"),
        (" visibility ", "timeout"),
        (" dead ", "job"),
        ("re", "queue"),
        ("re", "play"),
        (" call", "back"),
        (" work", " item"),
        (" back", "log of"),
    ];
    let mut offences = Vec::new();
    for path in files("crates/redrive/src", &["rs"]) {
        for (number, line) in (1..).zip(read(&path).lines()) {
            let comment = line.trim_start();
            if !comment.starts_with("///") && !comment.starts_with("//!") {
                continue;
            }
            let lower = comment.to_lowercase();
            for (head, tail) in banned {
                if lower.contains(&format!("{head}{tail}")) {
                    offences.push(format!("{}:{number}: `{head}{tail}`", shown(&path)));
                }
            }
        }
    }
    assert_none(&offences);
}
