//! The statements that settle leases.

use std::collections::BTreeSet;

use postgres::types::Type;

use super::{ids, milliseconds, uuids};
use crate::rows::{Row, parameter};
use crate::server::{Stored, Tables};
use crate::session::Parameter;
use crate::sync::Instant;

pub(super) fn settle_done(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let jobs: Vec<i32> = parameter(given, 9, &Type::INT4_ARRAY);
    let mut rows = Vec::new();
    for (lease_id, jobs) in uuids(given, 1).into_iter().zip(jobs) {
        let ends = tables.leases.get(&lease_id).is_some_and(|lease| {
            lease.done.len() + usize::try_from(jobs).unwrap_or(0) == lease.jobs.len()
        });
        if ends && let Some(lease) = tables.leases.remove(&lease_id) {
            let undone = |job: &&Stored| !lease.done.contains(&job.id);
            let done: Vec<i64> = lease.jobs.iter().filter(undone).map(|job| job.id).collect();
            tables.note(|| format!("lease {lease_id} ends, done: {done:?}"));
            tables.done.extend(done);
            rows.push(Row::default().with("lease_id", Type::UUID, &lease_id));
        }
    }
    rows
}

pub(super) fn settle(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let leases = uuids(given, 1);
    let jobs = ids(given, 2);
    let verdicts: Vec<String> = parameter(given, 3, &Type::TEXT_ARRAY);
    let delays = ids(given, 4);
    let mut rows = Vec::new();
    for lease_id in leases.iter().collect::<BTreeSet<_>>() {
        let offered = || (0..jobs.len()).filter(|at| leases[*at] == *lease_id);
        let Some(lease) = tables.leases.get_mut(lease_id) else {
            continue;
        };
        if offered().any(|at| lease.done.contains(&jobs[at])) {
            continue;
        }
        let jobs_of_lease = lease.jobs.clone();
        lease.done.extend(offered().map(|at| jobs[at]));
        if lease.done.len() >= lease.jobs.len() {
            tables.leases.remove(lease_id);
        }
        for at in offered() {
            let Some(job) = jobs_of_lease.iter().find(|job| job.id == jobs[at]) else {
                continue;
            };
            let mut job = job.clone();
            if verdicts[at] != "unrun" {
                job.crashes = 0;
            }
            let due = Instant::now() + milliseconds(delays[at]);
            tables.note(|| format!("job {} of lease {lease_id}: {}", job.id, verdicts[at]));
            match &*verdicts[at] {
                "done" => _ = tables.done.insert(job.id),
                "dead" => _ = tables.dead.insert(job.id),
                "unrun" if delays[at] == 0 => {
                    job.attempt -= 1;
                    tables.ready.insert(job.id, job.clone());
                }
                verdict => {
                    if verdict != "retry" {
                        job.attempt -= 1;
                    }
                    tables.delayed.insert(job.id, (due, job.clone()));
                }
            }
            let row = Row::default().with("lease_id", Type::UUID, lease_id);
            rows.push(row.with("id", Type::INT8, &job.id));
        }
    }
    rows
}
