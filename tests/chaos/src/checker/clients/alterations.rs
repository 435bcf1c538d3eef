//! Checks that an operation of a client explains each change of a waiting job: what it changed, and that it selected
//! the job.

use serde_json::Value;

use crate::checker::job_history::{Altered, JobHistory};
use crate::checker::requests::Call;
use crate::checker::{Findings, Rule, Run};
use crate::db_trace::Place;
use crate::facts::Fact;
use crate::history::{JobSelection, LiveChange, Operation};

/// The operations that may change waiting jobs.
const ALTERING: [Operation; 4] = [
    Operation::Cancel,
    Operation::ChangeJobs,
    Operation::Priority,
    Operation::Replace,
];
/// The field that an edit of a waiting job sets.
const EDITED: &str = "edited";

pub(super) fn check(run: &Run<'_>, findings: &mut Findings) {
    for job in run.jobs() {
        for altered in &job.altered {
            let during = ALTERING.iter();
            let during = during.flat_map(|one| run.calls.at(&altered.by, *one, altered.at));
            let made: Vec<&Call<'_>> = during.filter(|call| makes(call, altered)).collect();
            if !made.iter().any(|call| selects(call, job, altered)) {
                unexplained(job, altered, !made.is_empty(), findings);
            }
        }
    }
    check_answers(run, findings);
}

/// Whether a call makes changes of this kind.
fn makes(call: &Call<'_>, altered: &Altered) -> bool {
    let differences = altered.before.differences(&altered.after);
    let changes = |fact| differences.contains(&fact);
    let is_cancelled = altered.to == Place::Letter;
    let stays = altered.from == altered.to && !altered.is_rescheduled;
    let (is_edited, is_reordered) = (changes(Fact::Payload), changes(Fact::Priority));
    match (call.operation, call.selection.map(|one| one.change)) {
        (Operation::Cancel, _) | (_, Some(LiveChange::Cancel)) => is_cancelled,
        (Operation::Replace, _) => !is_cancelled && !is_reordered,
        (Operation::Priority, _) => stays && !is_edited,
        (_, Some(LiveChange::Priority(priority))) => {
            stays && !is_edited && altered.after.priority == i32::from(priority)
        }
        (_, Some(LiveChange::RunNow)) => {
            let places = (altered.from, altered.to);
            places == (Place::Delayed, Place::Ready) && !is_edited && !is_reordered
        }
        (_, Some(LiveChange::Edit(value))) => {
            stays && !is_reordered && edit(&altered.before.payload, value) == parsed(altered)
        }
        (_, None) => false,
    }
}

/// Returns a payload after an edit.
fn edit(payload: &str, value: i64) -> Option<Value> {
    let mut payload: Value = serde_json::from_str(payload).ok()?;
    let fields = payload.as_object_mut()?;
    fields.insert(EDITED.to_owned(), Value::from(value));
    Some(payload)
}

fn parsed(altered: &Altered) -> Option<Value> {
    serde_json::from_str(&altered.after.payload).ok()
}

/// Whether a call selected the job: by its id or by a filter. The answer of a bulk change has all its jobs.
fn selects(call: &Call<'_>, job: &JobHistory, altered: &Altered) -> bool {
    let is_named = call.ids.is_empty() || call.ids.contains(&job.job);
    let matches = |one: &JobSelection| {
        let kind = one.kind.as_deref();
        let least = one.least_priority.map_or(i32::MIN, i32::from);
        *one.queue == *altered.before.queue
            && kind.is_none_or(|kind| *kind == *altered.before.kind)
            && least <= altered.before.priority
    };
    let is_told = match (call.selection, call.answer()) {
        (Some(_), Some((_, ids))) => ids.contains(&job.job),
        _ => true,
    };
    is_named && is_told && call.selection.is_none_or(matches)
}

/// Reports a change that no call explains. `is_asked`: a call made such changes, but did not select the job.
fn unexplained(job: &JobHistory, altered: &Altered, is_asked: bool, findings: &mut Findings) {
    let Altered { at, by, .. } = altered;
    let (rule, text) = match (is_asked, altered.to == Place::Letter) {
        (true, _) => (
            Rule::Unpredicted,
            format!("{by} changed it, but selected other jobs"),
        ),
        (false, true) => (
            Rule::Cause,
            format!("{by} cancelled it without an operation: {altered:?}"),
        ),
        (false, false) => (
            Rule::Content,
            format!("{by} changed it without an operation: {altered:?}"),
        ),
    };
    findings.add(rule, job.job, *at, text);
}

/// Checks that bulk changes made each change that their answers tell, and not more than their limits.
fn check_answers(run: &Run<'_>, findings: &mut Findings) {
    for (call, at, ids) in run.calls.answered(Operation::ChangeJobs) {
        let limit = call.selection.map_or(0, |selection| selection.limit);
        if ids.len() as u64 > limit {
            let text = format!("{} changed {} jobs of {limit}", call.process, ids.len());
            findings.add(Rule::Unpredicted, None, at, text);
        }
    }
    let was_changed = |call: &Call<'_>, id: i64| {
        run.jobs.get(&id).is_some_and(|job| {
            let mut altered = job.altered.iter();
            altered.any(|one| *one.by == *call.process && call.covers(one.at) && makes(call, one))
        })
    };
    let what = "got it as changed, but did not change it";
    let demanded = (Operation::ChangeJobs, Rule::Unpredicted, what);
    run.check_answers(demanded, was_changed, findings);
}
