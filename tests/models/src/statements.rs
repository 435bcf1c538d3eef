//! The statements of a worker, as described by their headers in `crates/redrive/sql`.

mod claim;
mod lease;
mod settle;

use std::time::Duration;

use postgres::types::Type;
use uuid::Uuid;

use crate::rows::{Row, parameter};
use crate::server::Tables;
use crate::session::Parameter;

/// The kind of every job.
pub(crate) const KIND: &str = "k";

/// Executes a statement. Returns its rows.
pub(crate) fn execute(tables: &mut Tables, name: &str, given: &[Parameter<'_>]) -> Vec<Row> {
    let answer = match name {
        "claim" => claim::claim(tables, given),
        "claim_one" => claim::claim_one(tables, given),
        "measure_queue" => vec![claim::small_queue()],
        "settle_done" => settle::settle_done(tables, given),
        "settle" => settle::settle(tables, given),
        "release" => lease::release(tables, given),
        "locked_leases" => lease::locked_leases(tables, given),
        "wake" => lease::wake_all(tables),
        "renew" => lease::renew(tables, given),
        "leave" => {
            for row in uuids(given, 1) {
                tables.workers.remove(&row);
            }
            Vec::new()
        }
        "wait" => {
            let waiting = parameter(given, 2, &Type::BOOL);
            if let Some(worker) = tables.workers.get_mut(&uuid(given, 1)) {
                worker.waiting = waiting;
            }
            Vec::new()
        }
        "promote" => lease::promote(tables),
        "chores" => lease::chores(tables, given),
        "reap" => lease::reap(tables, given),
        "turn_ring" => vec![
            Row::default()
                .with("step", Type::TEXT, &"nothing")
                .with("segment", Type::INT2, &0_i16)
                .with("bytes", Type::INT8, &0_i64),
        ],
        "other_workers" => lease::other_workers(tables, given),
        // The server is durable.
        "open_breakers" | "unhandled_kinds" | "end_transactions" | "count_chores"
        | "durability" => Vec::new(),
        other => panic!("the model does not implement the statement `{other}`"),
    };
    let is_logged = match name {
        "chores" | "promote" | "open_breakers" | "turn_ring" | "durability" | "measure_queue" => {
            false
        }
        "claim" | "claim_one" => !answer.is_empty(),
        _ => true,
    };
    if is_logged {
        tables.note(|| format!("{name}: {} rows", answer.len()));
    }
    answer
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
