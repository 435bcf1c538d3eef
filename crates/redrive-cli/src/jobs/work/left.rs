//! What a drained queue still has, because nothing will run it.

use std::time::Duration;

use redrive::Queue;
use redrive::admin::{BreakerState, KindStats, QueueStats};
use redrive::dlq::runs::{RedriveRun, RunId, RunState};
use serde_json::Value;

use crate::name::Me;
use crate::terminal::{counted, grouped, one_line};

/// How long a run may send nothing before the worker no longer waits for it.
const RUN_PATIENCE: Duration = Duration::from_secs(15);
/// How far two looks that see the same are apart at least.
const ANOTHER_LOOK: Duration = Duration::from_millis(1);
/// How many of the newest runs that have not ended are looked at.
const RUNS: u32 = 100;

/// Jobs and letters that nothing will run or send, by the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// Jobs of kinds that no live worker handles.
    unhandled: u64,
    /// Jobs behind a letter that holds their group.
    held: u64,
    /// Runs that send letters to the queues, with the letters they still have.
    runs: Vec<(RunId, u64)>,
}

impl Left {
    /// The number of live jobs.
    pub(super) fn jobs(&self) -> u64 {
        self.unhandled + self.held
    }

    /// Returns how long this must be all that is left until the worker ends.
    pub(super) fn settles_in(&self, queues: &[Queue]) -> Duration {
        match (&*self.runs, queues) {
            ([_, ..], _) => RUN_PATIENCE,
            // A look at one queue sees all its jobs.
            ([], [_]) if self.jobs() == 0 => Duration::ZERO,
            // A count, or a look at several, may have missed a job that moved meanwhile.
            ([], _) => ANOTHER_LOOK,
        }
    }

    /// Returns each part with its reason.
    pub(super) fn reasons(&self) -> Vec<String> {
        let held =
            format!("behind letters that hold their groups; see `{Me} queue groups held QUEUE`");
        let jobs = [
            (self.unhandled, "of kinds that no worker handles"),
            (self.held, &*held),
        ];
        let jobs = jobs.into_iter().filter(|(jobs, _)| *jobs > 0);
        let runs = self.runs.iter().map(|(run, letters)| {
            format!(
                "{} of redrive run {run}, which sends none now; see `{Me} dlq runs show {run}`",
                counted(*letters, "letter")
            )
        });
        jobs.map(|(jobs, why)| format!("{} {why}", counted(jobs, "job")))
            .chain(runs)
            .collect()
    }

    /// Divides the jobs of a queue; `None`: a worker will run one of them, or there are none to divide.
    fn of(stats: &QueueStats, is_own: impl Fn(&str) -> bool) -> Option<Left> {
        let is_handled = |kind: &KindStats| is_own(&kind.kind) || kind.is_handled;
        // Without a registration of this worker, its own kinds would seem to be unhandled.
        if stats.workers == 0 || stats.kinds.iter().any(|kind| kind.leased > 0) {
            return None;
        }
        let mut left = Left::default();
        for kind in &stats.kinds {
            let jobs = kind.ready + kind.delayed;
            match is_handled(kind) {
                false => left.unhandled += jobs,
                true if jobs == kind.held => left.held += jobs,
                true => return None,
            }
        }
        (left.jobs() > 0).then_some(left)
    }
}

/// Returns what nothing will run or send; `None`: the queues have other jobs, or that is not known.
pub(super) fn of_all(queues: &[Queue], is_own: impl Fn(&str) -> bool) -> Option<Left> {
    look(queues, is_own).unwrap_or_else(|error| {
        // The worker logs that the database is unavailable.
        log::debug!("could not count what is left: {error}");
        None
    })
}

fn look(queues: &[Queue], is_own: impl Fn(&str) -> bool) -> redrive::Result<Option<Left>> {
    let mut all = Left::default();
    // The chores of the worker send their letters. First, because a run that has just ended has sent its last letters to
    // the queues.
    if let Some(first) = queues.first() {
        let runs = first.database().dlq().runs().unfinished(RUNS)?;
        all.runs = runs.iter().filter_map(|run| unsent(run, queues)).collect();
    }
    for queue in queues {
        if queue.is_drained()? {
            continue;
        }
        let stats = queue.database().admin().stats(Some(queue.name()))?;
        let Some(left) = stats.first().and_then(|stats| Left::of(stats, &is_own)) else {
            return Ok(None);
        };
        all.unhandled += left.unhandled;
        all.held += left.held;
    }
    Ok(Some(all))
}

/// Says what the queues wait for.
pub(super) fn waits(queues: &[Queue], left: Option<&Left>) -> redrive::Result<String> {
    let mut waits = Vec::new();
    for queue in queues {
        let admin = queue.database().admin();
        for stats in admin.stats(Some(queue.name()))? {
            let [ready, delayed, leased] = [stats.ready, stats.delayed, stats.leased].map(grouped);
            let paused = stats.pause.as_ref().map_or("", |_| ", paused");
            if stats.ready + stats.delayed + stats.leased > 0 {
                let name = queue.name();
                waits.push(format!(
                    "queue {name} ({ready} ready, {delayed} delayed, {leased} leased{paused})"
                ));
            }
        }
    }
    if let Some(first) = queues.first() {
        for breaker in first.database().admin().breakers()? {
            let queue = breaker.name.strip_prefix("queue:");
            let stops = queue.is_none_or(|name| queues.iter().any(|queue| queue.name() == name));
            if stops && breaker.state != BreakerState::Closed {
                waits.push(format!("breaker {}", one_line(&breaker.name)));
            }
        }
    }
    let runs = left.into_iter().flat_map(|left| &left.runs);
    waits.extend(runs.map(|(run, _)| format!("redrive run {run}")));
    Ok(waits.join(", "))
}

/// Returns how many letters a run has still to try to send to the queues. After the last one, it may retry those that
/// were locked.
fn unsent(run: &RedriveRun, queues: &[Queue]) -> Option<(RunId, u64)> {
    let filter: Value = serde_json::from_str(run.filter.get()).unwrap_or_default();
    let target = run.to_queue.as_deref().or_else(|| filter["queue"].as_str());
    let is_ours = |target: &str| queues.iter().any(|queue| queue.name() == target);
    let letters = run.total.saturating_sub(run.tried);
    let sends = run.state == RunState::Running && target.is_none_or(is_ours);
    sends.then_some((run.id, letters))
}

#[cfg(test)]
mod tests {
    use redrive::postgres::NoTls;
    use redrive::r2d2::Pool;
    use redrive::r2d2_postgres::PostgresConnectionManager;
    use redrive::{Database, Pooler};

    use super::*;

    #[test]
    fn a_drain_does_not_end_while_what_is_left_is_unknown() {
        let config = "host=127.0.0.1 port=1 user=me".parse().expect("an address");
        let manager = PostgresConnectionManager::new(config, NoTls);
        let pool = Pool::builder().min_idle(Some(0));
        let pool = pool.connection_timeout(Duration::from_millis(1));
        let db = Database::from_pool(pool.build_unchecked(manager), Pooler::Transaction);
        let queues = [Queue::new(&db, "orders").expect("a name")];
        assert_eq!(of_all(&queues, |_| true), None);
    }
}
