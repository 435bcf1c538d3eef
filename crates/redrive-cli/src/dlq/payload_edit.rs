//! An edit of payloads, as options.

use std::path::Path;
use std::time::Duration;

use redrive::dlq::Edit;

use crate::ndjson::read_text;
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
    /// Time limit of the command [default: 1m].
    #[arg(long, value_name = "TIME", value_parser = time::parse, allow_hyphen_values = true)]
    deadline: Option<Duration>,
}

impl PayloadEdit {
    /// The edit; `None` if there is none.
    pub(crate) fn read(&self) -> Result<Option<Edit>> {
        let shell = Shell::given(self.exec.as_deref(), self.deadline)?;
        Ok(Some(match (shell, &self.patch, &self.merge, &self.set) {
            (Some(shell), ..) => Edit::transform(move |payload| {
                let edited = shell.transform(payload);
                edited.map_err(|failure| failure.message().to_owned())
            }),
            (_, Some(patch), ..) => Edit::patch(&text(patch)?)?,
            (_, _, Some(merge), _) => Edit::merge(&text(merge)?)?,
            (.., Some(set)) => Edit::set(text(set)?.trim())?,
            (None, None, None, None) => return Ok(None),
        }))
    }
}

/// The text of an argument, or of the file that it names with `@`.
fn text(argument: &str) -> Result<String> {
    let Some(file) = argument.strip_prefix('@') else {
        return Ok(argument.to_owned());
    };
    read_text(Path::new(file))
}
