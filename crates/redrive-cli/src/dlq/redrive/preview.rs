//! The dry run of `redrive dlq redrive`.

use redrive::Database;
use redrive::dlq::{LetterState, RedriveOptions, RedrivePreview, Unserved};
use serde_json::json;

use crate::context::{Context, Ending};
use crate::dlq::bulk::{BulkAction, BulkSelection};
use crate::dlq::letter_table::letter_table;
use crate::error::Result;
use crate::terminal::{Column, Table, counted, grouped, json_line};

const ACTION: BulkAction<'static> = BulkAction {
    command: "redrive",
    participle: "redriven",
    progressive: "redriving",
    affects: |count| count.redrivable,
    reason: None,
};
/// How many groups are shown.
const GROUPS: usize = 10;
/// How many letters are shown.
const SAMPLE: u64 = 5;

/// A redrive that is only shown.
pub(super) struct DryRun<'a> {
    pub(super) selection: &'a BulkSelection,
    pub(super) options: RedriveOptions,
    /// The states from which letters are redriven.
    pub(super) states: &'a [LetterState],
    /// The options as arguments for a shell.
    pub(super) words: Vec<String>,
}

/// Shows the letters that would be redriven, and the command that redrives them.
pub(super) fn preview(dry_run: &DryRun<'_>, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
    let filter = dry_run.selection.letters()?;
    let preview = db.dlq().preview_redrive(&filter, &dry_run.options)?;
    let mut matching = 0;
    for state in dry_run.states {
        matching += db.dlq().count(&filter.clone().state(*state))?.letters;
    }
    let affected = dry_run.selection.limited(preview.letters());
    if cx.global.json {
        json_line(
            cx.out,
            &json!({
                "dry_run": true,
                "matching": matching,
                "would_change": affected,
                "groups": preview.groups.iter().map(|group| json!({
                    "group": group.group.get(),
                    "queue": group.queue,
                    "kind": group.kind,
                    "error_class": group.error_class,
                    "title": group.title,
                    "letters": group.letters,
                })).collect::<Vec<_>>(),
                "unserved": unserved_json(&preview.unserved),
            }),
        )?;
    } else if matching > 0 {
        let states: Vec<&str> = dry_run.states.iter().map(|state| state.as_str()).collect();
        let letters = counted(matching, &format!("{} letter", states.join(" or ")));
        let verb = if matching == 1 { "matches" } else { "match" };
        writeln!(
            cx.out,
            "{letters} {verb}; {} would be {}.\n",
            grouped(affected),
            ACTION.participle
        )?;
        write_groups(&preview, cx)?;
        let sample = filter.state(LetterState::Open).limit(SAMPLE);
        letter_table(&db.dlq().list(&sample)?).write(cx.out)?;
        writeln!(
            cx.out,
            "\nNothing was changed. To act:\n  {}",
            dry_run.selection.command_line(&ACTION, &dry_run.words)
        )?;
    }
    warn_unserved(&preview.unserved, cx);
    if matching == 0 {
        cx.say("no open letter matches");
        return Ok(Ending::NothingMatched);
    }
    Ok(Ending::Done)
}

fn write_groups(preview: &RedrivePreview, cx: &mut Context<'_>) -> Result<()> {
    if preview.groups.is_empty() {
        return Ok(());
    }
    let mut table = Table::new([
        Column::Number("GROUP"),
        Column::Number("LETTERS"),
        Column::Text("QUEUE"),
        Column::Text("KIND"),
        Column::Text("ERROR"),
    ]);
    for group in preview.groups.iter().take(GROUPS) {
        table.row([
            group.group.to_string(),
            grouped(group.letters),
            group.queue.clone(),
            group.kind.clone(),
            format!("{}: {}", group.error_class, group.title),
        ]);
    }
    table.write(cx.out)?;
    let more = preview.groups.len().saturating_sub(GROUPS) as u64;
    if more > 0 {
        writeln!(cx.out, "and {} more", counted(more, "group"))?;
    }
    writeln!(cx.out)?;
    Ok(())
}

/// Warns about jobs whose queue has no worker for their kind.
pub(super) fn warn_unserved(unserved: &[Unserved], cx: &mut Context<'_>) {
    for waiting in unserved {
        cx.say(format!(
            "warning: no live worker of queue `{}` handles kind `{}`: {} would wait there",
            waiting.queue,
            waiting.kind,
            counted(waiting.letters, "letter")
        ));
    }
}

pub(super) fn unserved_json(unserved: &[Unserved]) -> Vec<serde_json::Value> {
    unserved
        .iter()
        .map(|waiting| {
            json!({
                "queue": waiting.queue,
                "kind": waiting.kind,
                "letters": waiting.letters,
            })
        })
        .collect()
}
