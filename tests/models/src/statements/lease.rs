//! The statements that renew, release and reap leases, and promote delayed jobs.

use std::time::Duration;

use postgres::types::Type;
use uuid::Uuid;

use super::{milliseconds, uuid, uuids};
use crate::rows::{Row, parameter};
use crate::server::{Lease, Stored, Tables, WorkerRow};
use crate::session::Parameter;
use crate::sync::Instant;

pub(super) fn release(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let worker = uuid(given, 1);
    let these: Option<Vec<Uuid>> = parameter(given, 2, &Type::UUID_ARRAY);
    let age: i32 = parameter(given, 3, &Type::INT4);
    let older = milliseconds(age.into());
    let now = Instant::now();
    let leases: Vec<Uuid> = tables
        .leases
        .iter()
        .filter(|(id, lease)| {
            lease.worker == worker
                && these.as_ref().is_none_or(|these| these.contains(id))
                && now - lease.claimed_at >= older
        })
        .map(|(id, _)| *id)
        .collect();
    let mut rows = Vec::new();
    for id in leases {
        for mut job in end_lease(tables, id) {
            job.attempt -= 1;
            rows.push(Row::default().with("id", Type::INT8, &job.id));
            tables.note(|| format!("job {} of lease {id} is released", job.id));
            tables.ready.insert(job.id, job);
        }
    }
    wake(tables, Some(worker), &rows);
    rows
}

/// Nothing is locked here, so these are the leases of claims that committed after the release.
pub(super) fn locked_leases(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let worker = uuid(given, 1);
    let is_left = |lease: &&Lease| lease.worker == worker;
    let left = tables.leases.values().filter(is_left).count();
    let left = i64::try_from(left).expect("a few leases");
    vec![Row::default().with("leases", Type::INT8, &left)]
}

/// Ends a lease. Returns its unsettled jobs.
fn end_lease(tables: &mut Tables, lease: Uuid) -> Vec<Stored> {
    let Some(lease) = tables.leases.remove(&lease) else {
        return Vec::new();
    };
    let done = lease.done;
    let undone = |job: &Stored| !done.contains(&job.id);
    lease.jobs.into_iter().filter(undone).collect()
}

/// Notifies the waiting workers.
pub(super) fn wake_all(tables: &mut Tables) -> Vec<Row> {
    let waits = tables.workers.values().any(WorkerRow::is_notified);
    tables.notified += u64::from(waits);
    Vec::new()
}

/// Notifies the waiting workers, except the caller, if jobs became ready.
fn wake(tables: &mut Tables, caller: Option<Uuid>, rows: &[Row]) {
    let waits = |(id, worker): (&Uuid, &WorkerRow)| worker.is_notified() && Some(*id) != caller;
    if !rows.is_empty() && tables.workers.iter().any(waits) {
        tables.notified += 1;
    }
}

fn only<T>(all: Vec<T>) -> T {
    let [one] = <[T; 1]>::try_from(all).unwrap_or_else(|_| panic!("one queue"));
    one
}

pub(super) fn renew(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    // A worker of a model has one queue.
    let me = only(uuids(given, 1));
    let leases: Vec<i64> = parameter(given, 8, &Type::INT8_ARRAY);
    let expires_at = Instant::now() + milliseconds(only(leases));
    let row = tables.workers.entry(me).or_insert(WorkerRow {
        started_at: Instant::now(),
        expires_at,
        waiting: false,
    });
    row.expires_at = expires_at;
    let mine = tables.leases.iter().filter(|(_, lease)| lease.worker == me);
    let mine: Vec<Uuid> = mine.map(|(id, _)| *id).collect();
    let row = Row::default()
        .with("worker_id", Type::UUID, &me)
        .with("leases", Type::UUID_ARRAY, &mine)
        .with("cancelled", Type::INT8_ARRAY, &Vec::<i64>::new())
        // All workers of a model have the same version.
        .with("sees_other_version", Type::BOOL, &false);
    vec![row]
}

pub(super) fn other_workers(tables: &Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let (me, now) = (uuid(given, 1), Instant::now());
    let is_other = |(id, worker): &(&Uuid, &WorkerRow)| **id != me && worker.expires_at > now;
    let others = tables.workers.iter().filter(is_other).count();
    let others = i64::try_from(others).unwrap_or(i64::MAX);
    vec![Row::default().with("others", Type::INT8, &others)]
}

pub(super) fn promote(tables: &mut Tables) -> Vec<Row> {
    let moved = make_ready(tables);
    let now = Instant::now();
    let next = tables.delayed.values().map(|(due, _)| *due).min();
    let next = next.map(|due| i64::try_from((due - now).as_millis()).unwrap_or(i64::MAX));
    vec![
        Row::default()
            .with("moved", Type::INT8, &moved)
            .with("next_due_ms", Type::INT8, &next)
            .with("whole_in_ms", Type::INT8, &None::<i64>),
    ]
}

/// Moves the jobs that are due. Returns how many.
fn make_ready(tables: &mut Tables) -> i64 {
    let now = Instant::now();
    let due = tables.delayed.values().filter(|(due, _)| *due <= now);
    let due: Vec<i64> = due.map(|(_, job)| job.id).collect();
    for id in &due {
        if let Some((_, job)) = tables.delayed.remove(id) {
            tables.ready.insert(job.id, job);
        }
    }
    i64::try_from(due.len()).unwrap_or(i64::MAX)
}

fn is_lost(tables: &Tables, lease: &Lease, time: Duration) -> bool {
    let until = match tables.workers.get(&lease.worker) {
        Some(worker) => worker.expires_at,
        None => lease.claimed_at + time,
    };
    until < Instant::now()
}

pub(super) fn chores(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let time: i64 = parameter(given, 2, &Type::INT8);
    let me = only(uuids(given, 1));
    let is_lost = |lease: &Lease| lease.worker != me && is_lost(tables, lease, milliseconds(time));
    let lost = tables.leases.values().any(is_lost);
    let chores: Vec<&str> = lost.then_some("reap").into_iter().collect();
    vec![
        Row::default()
            .with("chores", Type::TEXT_ARRAY, &chores)
            .with("schedules_ms", Type::INT8, &None::<i64>),
    ]
}

/// Whether the worker, or another one that has renewed, is a lease old.
fn may_reap(tables: &Tables, me: Uuid, time: Duration) -> bool {
    let now = Instant::now();
    let is_old = |worker: &WorkerRow| worker.started_at + time <= now;
    tables.workers.get(&me).is_none_or(is_old)
        || tables
            .workers
            .values()
            .any(|worker| is_old(worker) && worker.expires_at > now)
}

pub(super) fn reap(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let max_crashes: i32 = parameter(given, 3, &Type::INT4);
    let time: i32 = parameter(given, 1, &Type::INT4);
    let time = milliseconds(time.into());
    let me = only(uuids(given, 5));
    if !may_reap(tables, me, time) {
        return Vec::new();
    }
    let is_lost = |(_, lease): &(&Uuid, &Lease)| lease.worker != me && is_lost(tables, lease, time);
    let lost = tables.leases.iter().filter(is_lost);
    let lost: Vec<Uuid> = lost.map(|(id, _)| *id).collect();
    let mut rows = Vec::new();
    for lease in lost {
        for mut job in end_lease(tables, lease) {
            job.crashes += 1;
            job.attempt -= 1;
            let is_dead = i32::from(job.crashes) >= max_crashes;
            let row = Row::default().with("id", Type::INT8, &job.id);
            rows.push(row.with("is_dead", Type::BOOL, &is_dead));
            tables.note(|| format!("job {} of lease {lease} is reaped", job.id));
            if is_dead {
                tables.dead.insert(job.id);
            } else {
                tables.ready.insert(job.id, job);
            }
        }
    }
    wake(tables, None, &rows);
    rows
}
