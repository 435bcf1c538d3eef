//! The statements that claim jobs.

use std::collections::BTreeSet;

use postgres::types::Type;
use uuid::Uuid;

use super::{KIND, uuid};
use crate::job::payload::Json;
use crate::rows::{Row, parameter};
use crate::server::{Lease, Stored, Tables};
use crate::session::Parameter;
use crate::sync::Instant;

pub(super) fn claim(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let alone: Vec<String> = parameter(given, 3, &Type::TEXT_ARRAY);
    let limit: i64 = parameter(given, 4, &Type::INT8);
    let max_crashes: i32 = parameter(given, 6, &Type::INT4);
    let (shared, worker) = (uuid(given, 7), uuid(given, 8));
    let except: Option<Vec<String>> = parameter(given, 12, &Type::TEXT_ARRAY);
    let last_chance: i32 = parameter(given, 13, &Type::INT4);
    let mut first_suspect: Option<i32> = None;
    let is_excluded = is_excluded(except);
    let mut taken = Vec::new();
    for job in tables.ready.values().filter(|_| !is_excluded) {
        if i64::try_from(taken.len()).unwrap_or(i64::MAX) >= limit {
            break;
        }
        let crashes = i32::from(job.crashes);
        if crashes > max_crashes {
            continue;
        }
        if crashes > 0 {
            match first_suspect {
                None => first_suspect = Some(crashes),
                Some(first) if first.max(crashes) >= last_chance => continue,
                Some(_) => {}
            }
        }
        taken.push(job.clone());
    }
    let hand_out = |job: Stored| {
        let own = (job.crashes > 0 || !alone.is_empty()).then(Uuid::new_v4);
        lease(tables, job, own, shared, worker)
    };
    taken.into_iter().map(hand_out).collect()
}

/// The size of a queue that claims read whole.
pub(super) fn small_queue() -> Row {
    Row::default()
        .with("bytes", Type::INT8, &0_i64)
        .with("newest_id", Type::INT8, &0_i64)
        .with("ranks", Type::INT4_ARRAY, &Vec::<i32>::new())
}

/// Whether a claim excludes the kind of all jobs.
fn is_excluded(except: Option<Vec<String>>) -> bool {
    except.is_some_and(|except| except.iter().any(|kind| kind == KIND))
}

pub(super) fn claim_one(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let (shared, worker) = (uuid(given, 5), uuid(given, 6));
    let except: Option<Vec<String>> = parameter(given, 3, &Type::TEXT_ARRAY);
    let first = match is_excluded(except) {
        true => None,
        false => tables.ready.values().find(|job| job.crashes == 0).cloned(),
    };
    let first = first.map(|job| lease(tables, job, None, shared, worker));
    first.into_iter().collect()
}

/// Moves a ready job into a lease.
fn lease(
    tables: &mut Tables,
    mut job: Stored,
    own: Option<Uuid>,
    shared: Uuid,
    worker: Uuid,
) -> Row {
    tables.ready.remove(&job.id);
    job.attempt += 1;
    let lease_id = own.unwrap_or(shared);
    let row = claimed(&job, lease_id);
    tables.note(|| format!("job {} in lease {lease_id} of {worker}", job.id));
    let lease = tables.leases.entry(lease_id).or_insert_with(|| Lease {
        worker,
        claimed_at: Instant::now(),
        jobs: Vec::new(),
        done: BTreeSet::new(),
    });
    lease.jobs.push(job);
    row
}

/// Returns a row with one job of a lease. Its payload is the id of the lease.
fn claimed(job: &Stored, lease: Uuid) -> Row {
    let payload = Json::of("the payload", &lease).expect("a uuid is JSON");
    let now = std::time::SystemTime::UNIX_EPOCH;
    Row::default()
        .with("lease_id", Type::UUID, &lease)
        .with("ids", Type::INT8_ARRAY, &vec![job.id])
        .with("kinds", Type::TEXT_ARRAY, &vec![KIND])
        .with("payloads", Type::JSON_ARRAY, &vec![payload])
        .with("attempts", Type::INT4_ARRAY, &vec![job.attempt])
        .with("max_attempts", Type::INT4_ARRAY, &vec![1000])
        .with("crashes", Type::INT2_ARRAY, &vec![job.crashes])
        .with("enqueued_at", Type::TIMESTAMPTZ_ARRAY, &vec![now])
        .with("claimed_at", Type::TIMESTAMPTZ, &now)
}
