//! The dry run of `redrive dlq edit`: the differences that an edit would make.

use redrive::Database;
use redrive::dlq::{EditDiff, EditPreview, LetterFilter};
use serde_json::json;

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::terminal::{Style, counted, diff, grouped, json_line, pretty};

/// How many letters are shown with their differences.
const SHOWN: u64 = 5;
/// How many letters that cannot be edited are listed.
const MAX_NAMED: u64 = 5;

/// Shows what an edit would change. `repeat` says how to repeat the command to act.
pub(super) fn preview(
    filter: &LetterFilter,
    edit: &redrive::dlq::Edit,
    repeat: &str,
    db: &Database,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let (mut changed, mut unchanged, mut invalid) = (0_u64, 0_u64, 0_u64);
    db.dlq().preview_edit(filter, edit, |preview| -> Result<()> {
        match &preview.after {
            EditDiff::Changed(after) => {
                changed += 1;
                if cx.global.json {
                    json_line(
                        cx.out,
                        &json!({ "id": preview.id.get(), "before": preview.before, "after": after }),
                    )?;
                } else if changed <= SHOWN {
                    show(preview, after.get(), cx)?;
                }
            }
                        EditDiff::Refused(error) => {
                invalid += 1;
                if cx.global.json {
                    json_line(cx.out, &json!({ "id": preview.id.get(), "invalid": error }))?;
                } else if invalid <= MAX_NAMED {
                    cx.say(format!("letter {} cannot be edited: {error}", preview.id));
                }
            }
            EditDiff::Unchanged | _ => unchanged += 1,
        }
        Ok(())
    })?;
    if changed + unchanged + invalid == 0 {
        cx.say("no open or quarantined letter matches");
        return Ok(Ending::NothingMatched);
    }
    if cx.global.json {
        json_line(
            cx.out,
            &json!({
                "dry_run": true, "action": "edit", "letters": changed,
                "unchanged": unchanged, "invalid": invalid,
            }),
        )?;
    } else {
        if changed > SHOWN {
            writeln!(cx.out, "... and {} more.\n", grouped(changed - SHOWN))?;
        }
        writeln!(
            cx.out,
            "{} would be edited, {} would not change, {} cannot be edited.\n\
             Nothing was changed. To act, repeat the command {repeat}.",
            counted(changed, "letter"),
            grouped(unchanged),
            grouped(invalid),
        )?;
    }
    Ok(match invalid {
        0 => Ending::Done,
        _ => Ending::NothingMatched,
    })
}

/// Shows the differences of one letter.
fn show(preview: &EditPreview, after: &str, cx: &mut Context<'_>) -> Result<()> {
    let style = Style::of_stdout();
    let heading = format!("letter {}:", preview.id);
    writeln!(cx.out, "{}", style.heading(&heading))?;
    match &preview.before {
        Some(before) => diff(cx.out, style, before.get(), after)?,
        None => {
            for line in pretty(after).lines() {
                writeln!(cx.out, "{}", style.added(&format!("  + {line}")))?;
            }
        }
    }
    Ok(writeln!(cx.out)?)
}
