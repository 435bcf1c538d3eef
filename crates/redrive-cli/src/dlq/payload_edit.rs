//! An edit of payloads, as options.

use std::path::Path;
use std::sync::Arc;
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

/// An edit, with the shell if it is a command.
pub(crate) struct GivenEdit {
    pub(crate) edit: Edit,
    shell: Option<Arc<Shell>>,
}

impl PayloadEdit {
    /// The edit; `None` if there is none.
    pub(crate) fn read(&self) -> Result<Option<GivenEdit>> {
        if let Some(shell) = Shell::given(self.exec.as_deref(), self.deadline)? {
            let running = Arc::clone(&shell);
            let edit = Edit::transform(move |payload| {
                let edited = running.transform(payload);
                edited.map_err(|failure| failure.message().to_owned())
            });
            let shell = Some(shell);
            return Ok(Some(GivenEdit { edit, shell }));
        }
        let edit = match (&self.patch, &self.merge, &self.set) {
            (Some(patch), ..) => Edit::patch(&text(patch)?)?,
            (_, Some(merge), _) => Edit::merge(&text(merge)?)?,
            (.., Some(set)) => Edit::set(text(set)?.trim())?,
            (None, None, None) => return Ok(None),
        };
        Ok(Some(GivenEdit { edit, shell: None }))
    }
}

impl GivenEdit {
    /// Ends the command at a signal from now on. The process ends after its batch.
    pub(crate) fn end_at_signal(&self) -> Result<()> {
        match &self.shell {
            Some(shell) => shell.end_at_signal(),
            None => Ok(()),
        }
    }
}

/// The text of an argument, or of the file that it names with `@`.
fn text(argument: &str) -> Result<String> {
    let Some(file) = argument.strip_prefix('@') else {
        return Ok(argument.to_owned());
    };
    read_text(Path::new(file))
}
