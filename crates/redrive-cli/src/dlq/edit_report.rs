//! What an edit of letters or jobs did.

use redrive::dlq::Edited;

use super::validators::{error_json, print_errors};
use crate::batches::Batches;
use crate::left_out::{LeftOut, left_out_json, write_left_out};
use crate::not_done::NotDone;
use crate::prelude::*;

/// Whether no letter or job matched.
pub(crate) fn is_nothing(done: &Edited) -> bool {
    done.edited.is_empty()
        && done.unchanged == 0
        && done.refused.is_empty()
        && done.skipped.is_empty()
}

/// Reports an edit of letters or jobs. The exit code is 1 if one of them could not be changed, or if
/// none matches.
pub(crate) fn report_edit(
    batches: &Batches,
    done: &Edited,
    left_out: &[LeftOut],
    not_done: &NotDone,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let (noun, edited) = (batches.noun, done.edited.len() as u64);
    let names = format!("{noun}s");
    let mut skipped = left_out_json(&names, left_out);
    skipped.extend(not_done.json(&names));
    let invalid: u64 = done.refused.iter().map(|error| error.letters).sum();
    let errors = done.refused.iter().map(|error| error_json(noun, error));
    let mut counts = batches.text(edited);
    for (count, name) in [(done.unchanged, "unchanged"), (invalid, "invalid")] {
        if count > 0 {
            counts.extend([", ", &*grouped(count), " ", name]);
        }
    }
    let mut line = batches.line(edited, skipped, done.audit);
    line["unchanged"] = done.unchanged.into();
    line["invalid"] = invalid.into();
    line["errors"] = errors.collect();
    cx.print(&line, counts)?;
    if !cx.global.json {
        write_left_out(noun, left_out, cx)?;
        print_errors(noun, &done.refused, cx)?;
        not_done.say(noun, "edited", cx);
    }
    let is_any_done = edited > 0 || done.unchanged > 0;
    Ok(Ending::of(
        is_any_done && invalid == 0 && not_done.0.is_empty(),
    ))
}
