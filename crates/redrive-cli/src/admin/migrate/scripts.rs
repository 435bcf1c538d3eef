//! `redrive migrate --print`: the schema for another migration tool.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use redrive::migrate::{self, Script};

use crate::prelude::*;

#[derive(Args, Debug)]
#[command(next_help_heading = "Other migration tools")]
pub(super) struct ScriptArgs {
    /// Print the SQL of all migrations and of the functions, views and triggers. Needs no database.
    #[arg(long)]
    pub(super) print: bool,
    /// Leave out the migrations up to this number, which the schema has already.
    #[arg(
        long,
        requires = "print",
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true
    )]
    from: i32,
    /// Print no BEGIN and COMMIT, for a tool that runs each script in its own transaction.
    #[arg(long, requires = "print")]
    no_transaction: bool,
    /// Write one file per migration into this folder, and one with the functions, views and triggers of this release.
    /// A file with another text is not overwritten. Keep those of earlier releases.
    #[arg(long, requires = "print", value_name = "DIR")]
    split: Option<PathBuf>,
    /// How the files are named: `V0001000000__redrive_0001_types.sql` for refinery and Flyway, or
    /// `0001000000_redrive_0001_types.sql` for sqlx.
    #[arg(
        long,
        requires = "split",
        value_name = "TOOL",
        default_value = "refinery"
    )]
    names: Names,
}

/// The tool that reads the files.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Names {
    Refinery,
    Sqlx,
}

impl ScriptArgs {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        if cx.global.json && self.split.is_none() {
            return Err(Error::new(
                "--print writes SQL and cannot be used with --json",
            ));
        }
        let scripts = migrate::after(self.from)?;
        let Some(folder) = &self.split else {
            cx.out.write_all(self.text(&scripts).as_bytes())?;
            return Ok(Ending::Done);
        };
        fs::create_dir_all(folder).map_err(|error| failed("create the folder", folder, error))?;
        // A conflict writes no file at all.
        let mut missing = Vec::new();
        for script in scripts {
            let Script { number, name, .. } = &script;
            // With leading zeros, a list of the files is in their order.
            let path = folder.join(match self.names {
                Names::Refinery => format!("V{number:010}__{name}.sql"),
                Names::Sqlx => format!("{number:010}_{name}.sql"),
            });
            let text = self.text(&[script]);
            match fs::read(&path) {
                Ok(other) if other == text.as_bytes() => {}
                Ok(_) => {
                    let path = path.display();
                    return Err(Error::new(format!(
                        "`{path}` has another text and was not overwritten; a tool that applied it \
                         would refuse the new one"
                    )));
                }
                Err(error) if error.kind() == ErrorKind::NotFound => missing.push((path, text)),
                Err(error) => return Err(failed("read", &path, error)),
            }
        }
        for (path, text) in &missing {
            let written = File::create_new(path).and_then(|mut file| {
                let written = file.write_all(text.as_bytes());
                // Half a script must not stay.
                written.inspect_err(|_| _ = fs::remove_file(path))
            });
            written.map_err(|error| failed("write", path, error))?;
        }
        for (path, _) in &missing {
            let path = path.display().to_string();
            cx.print(&json!({ "wrote": path }), format!("wrote {path}"))?;
        }
        if missing.is_empty() {
            cx.say("every file is there");
        }
        Ok(Ending::Done)
    }

    fn text(&self, scripts: &[Script]) -> String {
        match self.no_transaction {
            true => scripts.iter().map(|script| &*script.sql).collect(),
            false => migrate::in_transaction(scripts),
        }
    }
}

fn failed(doing: &str, path: &Path, error: std::io::Error) -> Error {
    Error::caused_by(format!("could not {doing} `{}`", path.display()), error)
}
