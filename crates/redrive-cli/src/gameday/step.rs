//! The steps of a rehearsal, as text and as JSON.

use std::time::Duration;

use serde_json::json;

use crate::context::Context;
use crate::error::Result;
use crate::terminal::{Window, clean, command_lines, json_line, write_labelled};
use crate::time;

/// A step, in the order in which they are played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Enqueue,
    Fail,
    Letters,
    Alert,
    Validate,
    Edit,
    Redrive,
    Report,
    Clean,
}

impl Step {
    fn as_str(self) -> &'static str {
        match self {
            Step::Enqueue => "enqueue",
            Step::Fail => "fail",
            Step::Letters => "letters",
            Step::Alert => "alert",
            Step::Validate => "validate",
            Step::Edit => "edit",
            Step::Redrive => "redrive",
            Step::Report => "report",
            Step::Clean => "clean",
        }
    }
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    Skipped,
    Failed,
}

impl Outcome {
    fn as_str(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Skipped => "skipped",
            Outcome::Failed => "failed",
        }
    }
}

/// A step that was played.
#[derive(Debug)]
pub(super) struct StepReport {
    pub(super) step: Step,
    pub(super) outcome: Outcome,
    /// What happened, in one sentence.
    pub(super) text: String,
    pub(super) took: Duration,
    /// The command that an operator would have typed.
    pub(super) command: Option<String>,
}

/// Writes a step that was played.
pub(super) fn write_step(queue: &str, report: &StepReport, cx: &mut Context<'_>) -> Result<()> {
    if cx.global.json {
        json_line(
            cx.out,
            &json!({
                "queue": queue,
                "step": report.step.as_str(),
                "outcome": report.outcome.as_str(),
                "text": report.text,
                "took_ms": u64::try_from(report.took.as_millis()).unwrap_or(u64::MAX),
                "command": report.command,
            }),
        )?;
    } else {
        let failed = match report.outcome {
            Outcome::Failed => "failed: ",
            Outcome::Done | Outcome::Skipped => "",
        };
        let took = time::short(report.took);
        let label = format!("  {:<9} {took:>8}  {failed}", report.step.as_str());
        write_labelled(cx.out, &label, &clean(&report.text))?;
    }
    Ok(cx.out.flush()?)
}

/// Writes what each step would do.
pub(super) fn write_plan(steps: &[(Step, String)], cx: &mut Context<'_>) -> Result<()> {
    for (step, text) in steps {
        if cx.global.json {
            json_line(
                cx.out,
                &json!({ "dry_run": true, "step": step.as_str(), "text": text }),
            )?;
        } else {
            write_labelled(cx.out, &format!("  {:<9} ", step.as_str()), text)?;
        }
    }
    if !cx.global.json {
        writeln!(
            cx.out,
            "\nNothing was changed. To act, repeat the command with --yes."
        )?;
    }
    Ok(())
}

/// Writes the commands that an operator would have typed.
pub(super) fn write_commands(steps: &[StepReport], cx: &mut Context<'_>) -> Result<()> {
    // Each JSON line has its command.
    if cx.global.json {
        return Ok(());
    }
    writeln!(cx.out, "\nThe commands for an operator:")?;
    let columns = Window::of_stdout().columns();
    for command in steps.iter().filter_map(|step| step.command.as_ref()) {
        writeln!(cx.out, "{}", command_lines("  ", command, columns))?;
    }
    writeln!(cx.out)?;
    Ok(())
}
