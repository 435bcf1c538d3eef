//! What an edit of letters or jobs did.

use redrive::JobId;
use redrive::dlq::Edited;

use super::not_done::{say_not_done, skipped_json};
use super::validators::{error_json, print_errors};
use crate::left_out::{LeftOut, left_out_json, write_left_out};
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
    noun: &'static str,
    done: &Edited,
    left_out: &[LeftOut],
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let (db, names) = (&cx.database()?, format!("{noun}s"));
    let why = |id: JobId| {
        Ok::<_, Error>(match noun {
            "job" => (
                "changed",
                "a worker claimed it or another operator changed it",
            ),
            _ if done.locked.contains(&id) => {
                ("locked", "another operation or a consumer holds it")
            }
            _ if db.dlq().get(id)?.is_none() => ("gone", "it does not exist"),
            _ => ("not_open", "it is neither open nor quarantined"),
        })
    };
    let not_done = done.skipped.iter().map(|id| Ok((*id, why(*id)?)));
    let not_done = not_done.collect::<Result<Vec<_>>>()?;
    let mut skipped = left_out_json(&names, left_out);
    let reasons = not_done.iter().map(|(id, (reason, _))| (*id, *reason));
    skipped.extend(skipped_json(&names, reasons));
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
            "action": "edit", "dry_run": false, &*names: done.edited.len(), "unchanged": done.unchanged,
            "invalid": invalid, "errors": errors.collect::<Vec<_>>(), "skipped": skipped,
            "audit": done.audit,
        }),
        counts,
    )?;
    if !cx.global.json {
        write_left_out(noun, left_out, cx.out)?;
        print_errors(noun, &done.refused, cx)?;
        let causes = not_done
            .iter()
            .map(|(id, (_, cause))| (*id, (*cause).to_owned()));
        say_not_done(noun, &causes.collect::<Vec<_>>(), "edited", cx);
    }
    let is_any_done = !done.edited.is_empty() || done.unchanged > 0;
    Ok(Ending::of(
        is_any_done && invalid == 0 && done.skipped.is_empty(),
    ))
}
