//! The dry run of `redrive dlq redrive`.

use redrive::dlq::{LetterFilter, LetterState, RedriveOptions, RedrivePreview, Skip};

use super::validated::Validated;
use crate::dlq::blocked::{gated_json, unserved_json, warn_blocked, warn_overlapping};
use crate::dlq::letter_table::letter_table;
use crate::dlq::none_matched::words;
use crate::dlq::validators::{error_json, print_errors};
use crate::left_out::{LeftOut, left_out_json, matching, redacted_include, write_left_out};
use crate::prelude::*;

/// How many groups are shown.
const GROUPS: usize = 10;

/// A redrive that is only shown.
pub(super) struct DryRun<'a> {
    pub(super) selection: &'a Bulk,
    pub(super) options: RedriveOptions,
    pub(super) states: &'a [LetterState],
    /// The letters that pass validation; `None` if they are not validated.
    pub(super) validated: Option<&'a Validated>,
    /// The words that make the command act.
    pub(super) to_act: Vec<&'static str>,
}

/// Shows the letters that would be redriven, those left out, and the command that acts. Returns
/// `None` if no letter matches.
pub(super) fn preview(dry_run: &DryRun<'_>, cx: &mut Context<'_>) -> Result<Option<Ending>> {
    let db = &cx.database()?;
    let filter = dry_run.selection.letters()?;
    let mut preview = db.dlq().preview_redrive(&filter, &dry_run.options)?;
    let mut left_out_lines = Vec::new();
    if let Some(validated) = dry_run.validated {
        let passing = LetterFilter::new().ids(validated.passing.iter().copied());
        let of_passing = db.dlq().preview_redrive(&passing, &dry_run.options)?;
        // Of the other letters, only the states count: those that fail are left out anyway.
        let mut states = preview.left_out;
        states.retain(|left_out| left_out.state.is_some());
        preview = of_passing;
        preview.left_out.extend(states);
        left_out_lines = validated.left_out();
    }
    let matching_letters = db.dlq().count(&filter.within(dry_run.states))?.letters;
    let affected = preview.letters();
    left_out_lines.extend(left_out(&preview));
    let left_out = left_out_lines;
    if cx.global.json {
        json_line(
            cx.out,
            &json!({
                "dry_run": true,
                "action": "redrive",
                "letters": affected,
                "matching": matching_letters,
                "skipped": left_out_json("letters", &left_out),
                "errors": dry_run.validated.iter().flat_map(|validated| {
                    let errors = validated.validation.errors.iter();
                    errors.map(|error| error_json("letter", error))
                }).collect::<Vec<_>>(),
                "groups": preview.groups.iter().map(|of| {
                    json!(object!(of => group, queue, kind, error_class, title, letters))
                }).collect::<Vec<_>>(),
                "unserved": unserved_json(&preview.blocked.unserved),
                "gated": gated_json(&preview.blocked.gated),
                "overlapping": preview.overlapping.iter().map(|of| {
                    json!(object!(of => run, letters))
                }).collect::<Vec<_>>(),
            }),
        )?;
    } else if matching_letters > 0 {
        writeln!(
            cx.out,
            "{}; {} would be redriven.\n",
            matching(
                matching_letters,
                &format!("{} letter", words(dry_run.states))
            ),
            grouped(affected)
        )?;
        write_left_out("letter", &left_out, cx)?;
        if let Some(validated) = dry_run.validated.filter(|of| of.validation.failed > 0) {
            writeln!(cx.out, "Validation errors:")?;
            print_errors("letter", &validated.validation.errors, cx)?;
            writeln!(cx.out)?;
        }
        write_groups(&preview, cx)?;
        if preview.sample.is_empty() {
            writeln!(
                cx.out,
                "Nothing was changed, and nothing would be redriven."
            )?;
        } else {
            let sample = LetterFilter::new().ids(preview.sample.iter().copied());
            letter_table(&db.dlq().list(&sample)?).write(cx.out)?;
            writeln!(cx.out)?;
            cx.propose(&dry_run.to_act)?;
        }
    }
    warn_blocked(&preview.blocked, cx);
    warn_overlapping(&preview.overlapping, cx);
    Ok(match (matching_letters, affected) {
        (0, _) => None,
        (_, 0) => Some(Ending::NothingMatched),
        _ => Some(Ending::Done),
    })
}

fn left_out(preview: &RedrivePreview) -> Vec<LeftOut> {
    let lines = preview.left_out.iter().map(|left_out| {
        let (because, include) = match (left_out.reason, left_out.state) {
            (Skip::Quarantined, _) => (
                "quarantined".to_owned(),
                Some("--force --reason TEXT includes them".to_owned()),
            ),
            (_, Some(state)) => (format!("{state}; only open letters are redriven"), None),
            (Skip::TooLarge, None) => (
                "the captured bytes exceed 16 MiB".to_owned(),
                Some(format!(
                    "`{Me} dlq deliver` sends them, `{Me} dlq edit` replaces them"
                )),
            ),
            (Skip::NoJson, None) => (
                "the captured bytes are not JSON".to_owned(),
                Some(format!("`{Me} dlq edit` replaces them")),
            ),
            (Skip::Redacted, None) => (
                "the payload was redacted".to_owned(),
                Some(redacted_include()),
            ),
            (reason, None) => (reason.to_string(), None),
        };
        LeftOut {
            count: left_out.letters,
            reason: left_out.reason.as_str(),
            state: left_out.state.map(LetterState::as_str),
            because,
            include,
        }
    });
    lines.collect()
}

fn write_groups(preview: &RedrivePreview, cx: &mut Context<'_>) -> Result<()> {
    if preview.groups.is_empty() {
        return Ok(());
    }
    let table = table!(group in preview.groups.iter().take(GROUPS) => {
        Number "GROUP" => group.group,
        Number "LETTERS" => grouped(group.letters),
        Text "QUEUE" => group.queue,
        Name "KIND" => group.kind,
        Text "ERROR" => format!("{}: {}", group.error_class, group.title),
    });
    table.write(cx.out)?;
    let more = preview.groups.len().saturating_sub(GROUPS) as u64;
    if more > 0 {
        writeln!(cx.out, "and {} more", counted(more, "group"))?;
    }
    writeln!(cx.out)?;
    Ok(())
}
