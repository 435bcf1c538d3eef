//! What an edit of letters or jobs did.

use redrive::dlq::Edited;

use super::validators::{error_json, print_errors};
use crate::batches::{Batches, Ended};
use crate::left_out::{LeftOut, left_out_json, write_left_out};
use crate::not_done::NotDone;
use crate::prelude::*;

/// Reports an edit of letters or jobs, and perhaps that none matches. The exit code is 1 then, and if one of them could
/// not be changed.
pub(crate) fn report_edit(
    batches: &Batches,
    ended: &Ended<Edited>,
    left_out: &[LeftOut],
    not_done: &NotDone,
    none: Option<&str>,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let done = &ended.result;
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
    let tried = edited + done.unchanged;
    let is_nothing = tried == 0 && done.refused.is_empty() && done.skipped.is_empty();
    match none.filter(|_| is_nothing && !ended.is_stopped()) {
        Some(none) => cx.nothing(none),
        None => {
            let is_done = tried > 0 && invalid == 0 && not_done.0.is_empty();
            ended.or_stopped(Ending::of(is_done), cx)
        }
    }
}
