//! A redrive run as text and as JSON.

use std::io::Write;

use redrive::dlq::runs::{RedriveRun, RunState};
use redrive::dlq::{Blocked, Skip, stored_conditions};
use serde_json::Value;

use super::blocked::blocked_json;
use crate::prelude::*;
use crate::terminal::write_labelled;

/// A run as one line of JSON, with the letters that it skipped and what its jobs wait for if these are known.
pub(super) fn run_line(
    run: &RedriveRun,
    skips: Option<&[(Skip, u64)]>,
    blocked: Option<&[Blocked]>,
) -> impl Serialize {
    object!(run =>
        id, state, filter, person, reason, to_queue, priority, delay_ms = run.delay.json(),
        rate, canary, tolerated_percent = run.tolerated, stage,
        stage_to, is_driven, letters = run.total, tried, sent, skipped = skips.map(skips_json),
        recovered, died_alike, died_differently, still_running, halted_because, approved_by,
        approved_at, created_at, started_at, ended_at,
        blocked = blocked.map(blocked_json),
    )
}

/// The letters that a run skipped, by reason.
pub(super) fn skips(run: &RedriveRun, db: &Database) -> redrive::Result<Vec<(Skip, u64)>> {
    match run.skipped {
        0 => Ok(Vec::new()),
        _ => db.dlq().runs().skips(run.id),
    }
}

fn skips_json(skips: &[(Skip, u64)]) -> Vec<Value> {
    let reasons = skips.iter();
    reasons
        .map(|(skip, letters)| json!({ "reason": skip.as_str(), "letters": letters }))
        .collect()
}

/// When the run halts.
fn tolerance(run: &RedriveRun) -> String {
    match run.tolerated {
        100 => "never halts".to_owned(),
        share => format!("halts if more than {share} % of at least 20 outcomes die again"),
    }
}

fn pace(run: &RedriveRun) -> String {
    let rate = run.rate.map_or_else(
        || "unthrottled".to_owned(),
        |rate| format!("{} per second", grouped(rate.into())),
    );
    match run.canary {
        0 => rate,
        canary => format!("{rate}, after a canary of {}", grouped(canary)),
    }
}

/// The approval of a run that needs one: who gave it, or how to give it.
fn approval(run: &RedriveRun) -> Option<String> {
    if run.state == RunState::Unapproved {
        return Some(format!(
            "missing; another operator gives it with `{Me} dlq runs approve {}`",
            run.id
        ));
    }
    let (by, at) = (run.approved_by.as_ref()?, run.approved_at?);
    Some(format!("by {by}, {} ago", ago(at)))
}

/// The outcomes of a run so far, in one line.
pub(super) fn outcomes(run: &RedriveRun) -> String {
    let state = match run.state == RunState::Finished {
        true => String::new(),
        false => format!(" {}", run.state),
    };
    let known = format!(
        "run {}{state}: {} sent, {} recovered, {} died again",
        run.id,
        grouped(run.sent),
        grouped(run.recovered),
        grouped(run.died())
    );
    let others = [
        (run.still_running, "still running"),
        (run.skipped, "skipped"),
        (run.total.saturating_sub(run.tried), "not tried"),
    ];
    let others = others.into_iter().filter(|(letters, _)| *letters > 0);
    let others = others.map(|(letters, what)| format!("{} {what}", grouped(letters)));
    let parts: Vec<String> = [known].into_iter().chain(others).collect();
    parts.join(", ")
}

/// Prints the outcomes of a run in one line, why it halted, and why letters were skipped.
pub(super) fn print_outcomes(
    run: &RedriveRun,
    skips: &[(Skip, u64)],
    out: &mut dyn Write,
) -> Result<()> {
    write_labelled(out, "", &outcomes(run))?;
    if let Some(cause) = &run.halted_because {
        write_labelled(out, "  halted because   ", &clean(cause))?;
    }
    for (skip, letters) in skips {
        let label = format!("  {:<16} {:>9}  ", "skipped", grouped(*letters));
        write_labelled(out, &label, &skip.to_string())?;
    }
    Ok(())
}

/// The conditions of the letters of a run.
pub(super) fn filter(run: &RedriveRun) -> String {
    match &*stored_conditions(run.filter.get()) {
        [] => "all letters".to_owned(),
        conditions => conditions.join(" "),
    }
}

/// Prints a run with its filter, pace, operator and driver.
pub(super) fn print_run(
    run: &RedriveRun,
    skips: &[(Skip, u64)],
    out: &mut dyn Write,
) -> Result<()> {
    print_outcomes(run, skips, out)?;
    let is_running = run.state == RunState::Running;
    let stage = run.stage_to.filter(|_| is_running).map(|to| {
        let (stage, to) = (run.stage + 1, grouped(to.min(run.total)));
        format!(
            "{stage}, up to letter {to} of {}",
            counted(run.total, "letter")
        )
    });
    let deaths = (run.died() > 0).then(|| {
        let (alike, other) = (grouped(run.died_alike), grouped(run.died_differently));
        format!("{alike} of the same error, {other} of another one")
    });
    let driver = is_running.then(|| match run.is_driven {
        true => "active".to_owned(),
        false => format!(
            "none; any worker takes it within seconds, or use `{Me} dlq runs resume {}`",
            run.id
        ),
    });
    writeln!(out)?;
    Details::default()
        .add("filter", filter(run))
        .add("pace", pace(run))
        .add("tolerance", tolerance(run))
        .add("created", format!("{} ago", ago(run.created_at)))
        .some("deaths", deaths)
        .some("by", run.person.as_ref())
        .some("reason", run.reason.as_ref())
        .some("approval", approval(run))
        .some("to queue", run.to_queue.as_ref())
        .some("priority", run.priority)
        .some("delay", run.delay.map(short))
        .some("ended", run.ended_at.map(|at| format!("{} ago", ago(at))))
        .some("stage", stage)
        .some("driver", driver)
        .write(16, out)
}
