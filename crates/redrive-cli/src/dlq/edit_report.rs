//! What an edit of letters or jobs did.

use redrive::JobId;
use redrive::dlq::Edited;

use super::not_done::say_not_done;
use super::validators::{error_json, print_errors};
use crate::left_out::{LeftOut, left_out_json, write_left_out};
use crate::prelude::*;

/// Reports an edit of letters or jobs. The exit code is 1 if one of them could not be changed, or if
/// none matches.
pub(crate) fn report_edit(
    noun: &'static str,
    done: &Edited,
    left_out: &[LeftOut],
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let names = format!("{noun}s");
    let (reason, cause) = match noun {
        "job" => (
            "changed",
            "a worker claimed it or another operator changed it",
        ),
        _ => ("not_open", "it is neither open nor quarantined"),
    };
    let mut skipped = left_out_json(&names, left_out);
    if !done.skipped.is_empty() {
        let ids: Vec<i64> = done.skipped.iter().copied().map(JobId::get).collect();
        skipped.push(json!({ "reason": reason, &*names: ids.len(), "ids": ids }));
    }
    let invalid: u64 = done.refused.iter().map(|error| error.letters).sum();
    let errors = done.refused.iter().map(|error| error_json(noun, error));
    let mut counts = format!("{} edited", counted(done.edited.len() as u64, noun));
    for (count, name) in [(done.unchanged, "unchanged"), (invalid, "invalid")] {
        if count > 0 {
            counts.extend([", ", &*grouped(count), " ", name]);
        }
    }
    cx.print(
        &json!({
            "action": "edit", &*names: done.edited.len(), "unchanged": done.unchanged,
            "invalid": invalid, "errors": errors.collect::<Vec<_>>(), "skipped": skipped,
            "audit": done.audit,
        }),
        counts,
    )?;
    if !cx.global.json {
        write_left_out(noun, left_out, cx.out)?;
        print_errors(noun, &done.refused, cx)?;
        let skipped = done.skipped.iter().map(|id| (*id, cause.to_owned()));
        let skipped: Vec<(JobId, String)> = skipped.collect();
        say_not_done(noun, &skipped, "edited", cx);
    }
    let is_any_done = !done.edited.is_empty() || done.unchanged > 0;
    Ok(Ending::of(
        is_any_done && invalid == 0 && done.skipped.is_empty(),
    ))
}
