//! An edit of payloads, as options.

use std::fs;
use std::io;
use std::time::Duration;

use redrive::dlq::Edit;

use crate::ndjson::without_mark;
use crate::prelude::*;
use crate::shell::Shell;

/// The edit. At most one of these is given.
#[derive(Args, Debug)]
#[command(next_help_heading = "Edit (one of these)")]
#[group(skip)]
pub(crate) struct PayloadEdit {
    /// JSON Patch (RFC 6902). @FILE reads it from a file, @- from stdin.
    #[arg(long, value_name = "JSON", group = "how", allow_hyphen_values = true)]
    patch: Option<String>,
    /// JSON Merge Patch (RFC 7386): members to set, or to remove if they are null.
    #[arg(long, value_name = "JSON", group = "how", allow_hyphen_values = true)]
    merge: Option<String>,
    /// The whole payload; also for captured bytes that are not JSON.
    #[arg(long, value_name = "JSON", group = "how", allow_hyphen_values = true)]
    set: Option<String>,
    /// Command that `sh -c` runs for each payload: the old one on stdin, the new one on stdout. A payload
    /// for which it does not exit with 0 stays unchanged. It also runs in the dry run.
    #[arg(long, value_name = "COMMAND", group = "how")]
    exec: Option<String>,
    /// Time limit of the command.
    #[arg(long, value_name = "TIME", value_parser = time::parse, default_value = "1m", requires = "exec", allow_hyphen_values = true)]
    deadline: Duration,
}

impl PayloadEdit {
    /// The edit; `None` if there is none.
    pub(crate) fn read(&self) -> Result<Option<Edit>> {
        if let Some(command) = &self.exec {
            let deadline = self.deadline;
            let shell = Shell::new(command, Some(deadline));
            return Ok(Some(Edit::transform(move |payload| {
                let edited = shell.transform(payload, deadline);
                edited.map_err(|failure| failure.message().to_owned())
            })));
        }
        Ok(match (&self.patch, &self.merge, &self.set) {
            (Some(patch), ..) => Some(Edit::patch(&text(patch)?)?),
            (_, Some(merge), _) => Some(Edit::merge(&text(merge)?)?),
            (.., Some(set)) => Some(Edit::set(text(set)?.trim())?),
            (None, None, None) => None,
        })
    }
}

/// The text of an argument, or of the file that it names with `@`.
fn text(argument: &str) -> Result<String> {
    let Some(file) = argument.strip_prefix('@') else {
        return Ok(argument.to_owned());
    };
    let text = match file {
        "-" => io::read_to_string(io::stdin()),
        file => fs::read_to_string(file),
    };
    let text = text.map_err(|error| Error::caused_by(format!("could not read `{file}`"), error))?;
    Ok(without_mark(&text).to_owned())
}
