//! The mutated texts: the statements of the library, and the functions of the schema.

use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::code::Code;
use super::lexer::Kind;

/// The folder of the statements.
const STATEMENTS: &str = "crates/redrive/sql";
/// The folder of the migrations, which create the functions.
const MIGRATIONS: &str = "migrations";

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
    for path in files(&root.join(MIGRATIONS))? {
        sources.extend(functions(&below(root, &path), &read(&path)?));
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
         source.rs must find each function once"
    );
    Ok(())
}

/// Returns the functions that a migration creates. Each replaces itself when its text runs.
fn functions(path: &str, text: &str) -> Vec<Source> {
    let code = Code::new(text);
    let mut functions = Vec::new();
    let mut at = 0;
    while at < code.tokens.len() {
        let Some(function) = function(&code, at) else {
            at += 1;
            continue;
        };
        at = function.tokens.end;
        let place = code.place(&function.tokens);
        let rest = &text[code.tokens[function.noun].at..place.end];
        let text_before_body = &text[code.tokens[function.noun].at..code.tokens[function.body].at];
        let create = "CREATE OR REPLACE ";
        functions.push(Source {
            origin: Origin::Function,
            name: code.tokens[function.name].text.to_owned(),
            path: path.to_owned(),
            line: 1 + text[..place.start].matches('\n').count(),
            text: format!("{create}{rest}"),
            body: create.len() + text_before_body.len(),
        });
    }
    functions
}

/// A function by its tokens.
struct Function {
    tokens: Range<usize>,
    /// The word FUNCTION or PROCEDURE.
    noun: usize,
    name: usize,
    body: usize,
}

/// Returns the function that is created at a token.
fn function(code: &Code<'_>, at: usize) -> Option<Function> {
    let is_noun = |at: &usize| code.is(*at, "FUNCTION") || code.is(*at, "PROCEDURE");
    let noun = [at + 1, at + 3].into_iter().find(is_noun)?;
    let is_replacing = noun == at + 1 || code.is(at + 1, "OR");
    if !code.is(at, "CREATE") || !is_replacing {
        return None;
    }
    let count = code.tokens.len();
    let is_body = |at: &usize| {
        code.tokens[*at].kind == Kind::Dollar || code.is(*at, "ATOMIC") || code.is(*at, "RETURN")
    };
    let body = (noun..count).find(is_body)?;
    let last = if code.tokens[body].kind == Kind::Dollar {
        (body + 1..count).find(|at| code.tokens[*at].text == code.tokens[body].text)?
    } else if code.is(body, "ATOMIC") {
        let mut at = body + 1;
        while at < count && !code.is(at, "END") {
            at = code.after(at);
        }
        at
    } else {
        code.end(body, &[]) - 1
    };
    let end = (last..count).find(|at| code.is(*at, ";"))?;
    let open = (noun..count).find(|at| code.is(*at, "("))?;
    Some(Function {
        tokens: at..end,
        noun,
        name: open - 1,
        body,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_with_their_bodies() {
        let text = "\
CREATE TABLE t (a integer);
CREATE FUNCTION redrive.one(a text DEFAULT 'b;') RETURNS text
    LANGUAGE plpgsql
AS $$
BEGIN
    RETURN CASE WHEN a = 'x' THEN b; END;
END
$$;
CREATE OR REPLACE FUNCTION redrive.two() RETURNS integer LANGUAGE sql
BEGIN ATOMIC
    SELECT CASE WHEN true THEN 1 END;
    SELECT 2;
END;
CREATE FUNCTION redrive.three() RETURNS integer RETURN 1 + (2);
CREATE TRIGGER x AFTER INSERT ON t EXECUTE FUNCTION redrive.one();
";
        let functions = functions("m.sql", text);
        let found: Vec<_> = functions
            .iter()
            .map(|function| {
                (
                    &*function.name,
                    function.line,
                    &function.text[function.body..],
                )
            })
            .collect();
        let one = "$$\nBEGIN\n    RETURN CASE WHEN a = 'x' THEN b; END;\nEND\n$$";
        let two = "ATOMIC\n    SELECT CASE WHEN true THEN 1 END;\n    SELECT 2;\nEND";
        assert_eq!(
            found,
            [
                ("one", 2, one),
                ("two", 9, two),
                ("three", 14, "RETURN 1 + (2)")
            ]
        );
        let start = "CREATE OR REPLACE FUNCTION redrive.two() RETURNS integer LANGUAGE sql\nBEGIN ";
        assert!(
            functions[1].text.starts_with(start),
            "{}",
            functions[1].text
        );
    }
}
