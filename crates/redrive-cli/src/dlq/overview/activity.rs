//! Active runs and open breakers, each with the command to type next.

use redrive::Database;
use redrive::admin::BreakerState;
use redrive::dlq::runs::{RedriveRun, RunState};
use serde_json::{Value, json};

use crate::dlq::filter::quoted;
use crate::dlq::run_report::RunLine;
use crate::error::{Error, Result};
use crate::terminal::grouped;
use crate::time::{ago, rfc3339};

/// How many of the newest runs are considered.
const RUNS: u32 = 100;

/// A run or a breaker on the screen.
pub(super) struct Activity {
    /// One line of text.
    pub(super) line: String,
    /// The command to type next.
    pub(super) next: String,
    pub(super) json: Value,
}

/// The redrive runs that halted and await a decision, and those in progress or paused.
pub(super) fn runs(db: &Database) -> Result<(Vec<Activity>, Vec<Activity>)> {
    let (mut halted, mut in_progress) = (Vec::new(), Vec::new());
    for run in &db.dlq().runs().list(RUNS)? {
        match run.state {
            RunState::Halted => halted.push(activity(run)?),
            RunState::Unapproved | RunState::Running | RunState::Paused => {
                in_progress.push(activity(run)?)
            }
            RunState::Cancelled | RunState::Finished | _ => {}
        }
    }
    Ok((halted, in_progress))
}

fn activity(run: &RedriveRun) -> Result<Activity> {
    let line = format!(
        "run {} {}: {} of {} sent, {} recovered, {} died again",
        run.id,
        run.state,
        grouped(run.sent),
        grouped(run.total),
        grouped(run.recovered),
        grouped(run.died())
    );
    Ok(Activity {
        line,
        next: format!("redrive dlq runs show {}", run.id),
        json: serde_json::to_value(RunLine::of(run))
            .map_err(|error| Error::caused_by("could not write a run as JSON", error))?,
    })
}

/// The breakers that are not closed.
pub(super) fn breakers(db: &Database) -> Result<Vec<Activity>> {
    let breakers = db.admin().breakers()?;
    let open = breakers
        .iter()
        .filter(|breaker| breaker.state != BreakerState::Closed);
    Ok(open
        .map(|breaker| Activity {
            line: format!(
                "{} {} for {} ({}) {}",
                breaker.name,
                breaker.state,
                ago(breaker.opened_at),
                breaker.cause,
                breaker.message.as_deref().unwrap_or_default()
            ),
            next: format!("redrive breaker close {}", quoted(&breaker.name)),
            json: json!({
                "name": breaker.name,
                "state": breaker.state.as_str(),
                "cause": breaker.cause.as_str(),
                "message": breaker.message,
                "opened_at": rfc3339(breaker.opened_at),
                "probe_at": breaker.probe_at.map(rfc3339),
            }),
        })
        .collect())
}
