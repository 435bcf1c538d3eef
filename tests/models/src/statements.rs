//! What the statements of a worker do, as their headers in `crates/redrive/sql` say.

use std::collections::BTreeSet;
use std::time::Duration;

use postgres::types::Type;
use uuid::Uuid;

use crate::floor::Instant;
use crate::payload::Json;
use crate::rows::{Row, parameter};
use crate::server::{Lease, Present, Stored, Tables};
use crate::session::Parameter;
use crate::tripped;

/// The kind of every job.
pub(crate) const KIND: &str = "k";

/// Applies a statement; answers its rows.
pub(crate) fn act(tables: &mut Tables, name: &str, given: &[Parameter<'_>]) -> Vec<Row> {
    let answer = match name {
        "claim" => claim(tables, given),
        "claim_one" => claim_one(tables, given),
        "settle_done" => settle_done(tables, given),
        "settle" => settle(tables, given),
        "settle_own" => settle_own(tables, given),
        "release" => release(tables, given),
        "give_back" => give_back(tables, given),
        "renew" => renew(tables, given),
        "leave" => {
            tables.workers.remove(&uuid(given, 1));
            Vec::new()
        }
        "wait" => {
            let waiting = parameter(given, 2, &Type::BOOL);
            if let Some(worker) = tables.workers.get_mut(&uuid(given, 1)) {
                worker.waiting = waiting;
            }
            Vec::new()
        }
        "promote" => promote(tables),
        "chores" => chores(tables, given),
        "reap" => reap(tables, given),
        "turn_ring" => vec![
            Row::default()
                .with("step", Type::TEXT, &"nothing")
                .with("segment", Type::INT2, &0_i16)
                .with("others", Type::INT8, &0_i64),
        ],
        "trip_breaker" => tripped::trip(tables, given),
        "open_breakers" => tripped::open(tables),
        "take_probe" => tripped::take_probe(tables, given),
        "end_probe" => tripped::end_probe(tables, given),
        "durability" => vec![durability()],
        "unserved" | "free_key" => Vec::new(),
        other => panic!("the model does not know the statement `{other}`"),
    };
    let is_news = match name {
        "chores" | "promote" | "open_breakers" | "turn_ring" | "durability" => false,
        "claim" | "claim_one" => !answer.is_empty(),
        _ => true,
    };
    if is_news {
        tables.note(|| format!("{name}: {} rows", answer.len()));
    }
    answer
}

/// A server that keeps what it has committed.
fn durability() -> Row {
    ["fsync", "full_page_writes", "synchronous_commit"]
        .into_iter()
        .fold(Row::default(), |row, name| {
            row.with(name, Type::TEXT, &"on")
        })
        .with("unlogged", Type::TEXT_ARRAY, &Vec::<String>::new())
}

pub(crate) fn uuid(given: &[Parameter<'_>], number: usize) -> Uuid {
    parameter(given, number, &Type::UUID)
}

fn uuids(given: &[Parameter<'_>], number: usize) -> Vec<Uuid> {
    parameter(given, number, &Type::UUID_ARRAY)
}

fn ids(given: &[Parameter<'_>], number: usize) -> Vec<i64> {
    parameter(given, number, &Type::INT8_ARRAY)
}

pub(crate) fn milliseconds(ms: i64) -> Duration {
    Duration::from_millis(ms.max(0).unsigned_abs())
}

fn claim(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let alone: Vec<String> = parameter(given, 3, &Type::TEXT_ARRAY);
    let limit: i64 = parameter(given, 4, &Type::INT8);
    let mut suspects: i32 = parameter(given, 6, &Type::INT4);
    let (shared, worker) = (uuid(given, 7), uuid(given, 8));
    let except: Option<Vec<String>> = parameter(given, 12, &Type::TEXT_ARRAY);
    let is_left = is_left(except);
    let probe = tables
        .right
        .take_if(|(whose, _)| *whose == worker)
        .map(|(_, number)| number);
    let mut taken = Vec::new();
    for job in tables.ready.values().filter(|_| !is_left) {
        if i64::try_from(taken.len()).unwrap_or(i64::MAX) >= limit {
            break;
        }
        if job.crashes > 0 {
            if suspects == 0 {
                continue;
            }
            suspects -= 1;
        }
        taken.push(job.clone());
    }
    let hand_out = |job: Stored| {
        let own = (job.crashes > 0 || !alone.is_empty()).then(Uuid::new_v4);
        lease(tables, job, own, shared, worker, probe)
    };
    taken.into_iter().map(hand_out).collect()
}

/// Whether a claim leaves what there is: all jobs are of one kind.
fn is_left(except: Option<Vec<String>>) -> bool {
    except.is_some_and(|except| except.iter().any(|kind| kind == KIND))
}

fn claim_one(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let (shared, worker) = (uuid(given, 5), uuid(given, 6));
    let except: Option<Vec<String>> = parameter(given, 3, &Type::TEXT_ARRAY);
    let first = match is_left(except) {
        true => None,
        false => tables.ready.values().find(|job| job.crashes == 0).cloned(),
    };
    let first = first.map(|job| lease(tables, job, None, shared, worker, None));
    first.into_iter().collect()
}

/// Moves a ready job into a lease.
fn lease(
    tables: &mut Tables,
    mut job: Stored,
    own: Option<Uuid>,
    shared: Uuid,
    worker: Uuid,
    probe: Option<i64>,
) -> Row {
    tables.ready.remove(&job.id);
    job.attempt += 1;
    let lease_id = own.unwrap_or(shared);
    let row = claimed(&job, own, lease_id);
    tables.note(|| format!("job {} in lease {lease_id} of {worker}", job.id));
    let lease = tables.leases.entry(lease_id).or_insert_with(|| Lease {
        worker,
        claimed_at: Instant::now(),
        jobs: Vec::new(),
        done: BTreeSet::new(),
        probe,
    });
    lease.jobs.push(job);
    row
}

/// A claimed job; its payload tells of its lease.
fn claimed(job: &Stored, own: Option<Uuid>, lease: Uuid) -> Row {
    let payload = Json::of(&lease).expect("a uuid is JSON");
    let now = std::time::SystemTime::UNIX_EPOCH;
    Row::default()
        .with("own_lease", Type::UUID, &own)
        .with("id", Type::INT8, &job.id)
        .with("kind", Type::TEXT, &KIND)
        .with("payload", Type::JSONB, &payload)
        .with("attempt", Type::INT4, &job.attempt)
        .with("max_attempts", Type::INT4, &1000)
        .with(
            "crashes",
            Type::INT2,
            &(job.crashes > 0).then_some(job.crashes),
        )
        .with("enqueued_at", Type::TIMESTAMPTZ, &now)
        .with("ready_at", Type::TIMESTAMPTZ, &now)
        .with("claimed_at", Type::TIMESTAMPTZ, &now)
}

fn settle_done(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
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

fn settle(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
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
        let riding = lease.jobs.clone();
        lease.done.extend(offered().map(|at| jobs[at]));
        if lease.done.len() >= lease.jobs.len() {
            tables.leases.remove(lease_id);
        }
        for at in offered() {
            let Some(job) = riding.iter().find(|job| job.id == jobs[at]) else {
                continue;
            };
            let mut job = job.clone();
            job.crashes = 0;
            let due = Instant::now() + milliseconds(delays[at]);
            tables.note(|| format!("job {} of lease {lease_id}: {}", job.id, verdicts[at]));
            match &*verdicts[at] {
                "done" => _ = tables.done.insert(job.id),
                "dead" => _ = tables.dead.insert(job.id),
                verdict => {
                    if verdict != "retry" {
                        job.attempt -= 1;
                    }
                    tables.delayed.insert(job.id, (due, job.clone()));
                }
            }
            rows.push(Row::default().with("lease_id", Type::UUID, lease_id).with(
                "id",
                Type::INT8,
                &job.id,
            ));
        }
    }
    rows
}

fn settle_own(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let Some(lease) = tables.leases.remove(&uuid(given, 1)) else {
        return Vec::new();
    };
    tables.done.extend(lease.jobs.iter().map(|job| job.id));
    vec![Row::default()]
}

fn release(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let worker = uuid(given, 1);
    let these: Option<Vec<Uuid>> = parameter(given, 2, &Type::UUID_ARRAY);
    let keep = uuids(given, 3);
    let age: i32 = parameter(given, 4, &Type::INT4);
    let older = milliseconds(age.into());
    let now = Instant::now();
    let leases: Vec<Uuid> = tables
        .leases
        .iter()
        .filter(|(id, lease)| {
            lease.worker == worker
                && !keep.contains(id)
                && these.as_ref().is_none_or(|these| these.contains(id))
                && now - lease.claimed_at >= older
        })
        .map(|(id, _)| *id)
        .collect();
    let mut rows = Vec::new();
    for id in leases {
        for mut job in undone(tables, id) {
            job.attempt -= 1;
            rows.push(Row::default().with("id", Type::INT8, &job.id));
            tables.note(|| format!("job {} of lease {id} is released", job.id));
            tables.ready.insert(job.id, job);
        }
    }
    wake(tables, Some(worker), &rows);
    rows
}

/// Ends a lease; answers what of it was not done.
fn undone(tables: &mut Tables, lease: Uuid) -> Vec<Stored> {
    let Some(lease) = tables.leases.remove(&lease) else {
        return Vec::new();
    };
    let done = lease.done;
    let undone = |job: &Stored| !done.contains(&job.id);
    lease.jobs.into_iter().filter(undone).collect()
}

fn give_back(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let back = ids(given, 2);
    let Some(lease) = tables.leases.get_mut(&uuid(given, 1)) else {
        return Vec::new();
    };
    if back.iter().any(|id| lease.done.contains(id)) {
        return Vec::new();
    }
    lease.done.extend(&back);
    let worker = lease.worker;
    let jobs = lease.jobs.clone();
    let mut rows = Vec::new();
    for mut job in jobs.into_iter().filter(|job| back.contains(&job.id)) {
        job.attempt -= 1;
        rows.push(Row::default().with("id", Type::INT8, &job.id));
        tables.note(|| format!("job {} is given back", job.id));
        tables.ready.insert(job.id, job);
    }
    wake(tables, Some(worker), &rows);
    rows
}

fn wake(tables: &mut Tables, but: Option<Uuid>, rows: &[Row]) {
    let waits = |(id, worker): (&Uuid, &Present)| worker.is_told() && Some(*id) != but;
    if !rows.is_empty() && tables.workers.iter().any(waits) {
        tables.told.jobs += 1;
    }
}

fn renew(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let me = uuid(given, 1);
    let lease: i64 = parameter(given, 8, &Type::INT8);
    let expires_at = Instant::now() + milliseconds(lease);
    let waiting = tables.workers.get(&me).is_some_and(|worker| worker.waiting);
    tables.workers.insert(
        me,
        Present {
            expires_at,
            waiting,
        },
    );
    let mine = tables.leases.iter().filter(|(_, lease)| lease.worker == me);
    let mine: Vec<Uuid> = mine.map(|(id, _)| *id).collect();
    vec![Row::default().with("leases", Type::UUID_ARRAY, &mine).with(
        "cancelled",
        Type::INT8_ARRAY,
        &Vec::<i64>::new(),
    )]
}

fn promote(tables: &mut Tables) -> Vec<Row> {
    let now = Instant::now();
    let due = tables.delayed.values().filter(|(due, _)| *due <= now);
    let due: Vec<i64> = due.map(|(_, job)| job.id).collect();
    for id in &due {
        if let Some((_, job)) = tables.delayed.remove(id) {
            tables.ready.insert(job.id, job);
        }
    }
    let next = tables.delayed.values().map(|(due, _)| *due).min();
    let next = next.map(|due| i64::try_from((due - now).as_millis()).unwrap_or(i64::MAX));
    let moved = i64::try_from(due.len()).unwrap_or(i64::MAX);
    vec![
        Row::default()
            .with("moved", Type::INT8, &moved)
            .with("next_due_ms", Type::INT8, &next),
    ]
}

fn is_lost(tables: &Tables, lease: &Lease, time: Duration) -> bool {
    let until = match tables.workers.get(&lease.worker) {
        Some(worker) => worker.expires_at,
        None => lease.claimed_at + time,
    };
    until < Instant::now()
}

fn chores(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let time: i64 = parameter(given, 2, &Type::INT8);
    let is_lost = |lease| is_lost(tables, lease, milliseconds(time));
    let lost = tables.leases.values().any(is_lost);
    let open = tripped::any_is_open(tables).then_some("breakers");
    let chores: Vec<&str> = lost.then_some("reap").into_iter().chain(open).collect();
    vec![Row::default().with("chores", Type::TEXT_ARRAY, &chores)]
}

fn reap(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let most: i32 = parameter(given, 3, &Type::INT4);
    let time: i32 = parameter(given, 1, &Type::INT4);
    let is_lost = |(_, lease): &(&Uuid, &Lease)| is_lost(tables, lease, milliseconds(time.into()));
    let lost = tables.leases.iter().filter(is_lost);
    let lost: Vec<Uuid> = lost.map(|(id, _)| *id).collect();
    let mut rows = Vec::new();
    for lease in lost {
        for mut job in undone(tables, lease) {
            job.crashes += 1;
            job.attempt -= 1;
            let is_dead = i32::from(job.crashes) >= most;
            rows.push(Row::default().with("is_dead", Type::BOOL, &is_dead));
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
