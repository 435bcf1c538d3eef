//! States that scenarios wait for, as SQL conditions on the trace and the tables.

use crate::db_trace::ask;
use crate::environment::Environment;

pub(super) fn array(ids: &[i64]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    format!("'{{{}}}'::bigint[]", ids.join(","))
}

/// This many of these jobs have a row change with a condition.
fn have_changed(ids: &[i64], least: usize, condition: &str) -> String {
    let ids = array(ids);
    format!(
        "(SELECT count(DISTINCT job) >= {least} FROM chaos.trace WHERE {condition} AND job = ANY ({ids}))"
    )
}

/// At least this many of these jobs were claimed.
pub(super) fn at_least_claimed(ids: &[i64], count: usize) -> String {
    have_changed(ids, count, "place = 'l' AND change = 'i'")
}

/// Each of these jobs was claimed at least once.
pub(super) fn are_claimed(ids: &[i64]) -> String {
    at_least_claimed(ids, ids.len())
}

/// This job was claimed by a process.
pub(super) fn is_claimed_by(id: i64, process: &str) -> String {
    let condition = format!("place = 'l' AND change = 'i' AND process = '{process}'");
    have_changed(&[id], 1, &condition)
}

/// Each of these jobs left a lease.
pub(super) fn have_left_a_lease(ids: &[i64]) -> String {
    have_changed(ids, ids.len(), "place = 'l' AND change = 'o'")
}

/// Each of these letters recovered.
pub(super) fn have_recovered(ids: &[i64]) -> String {
    have_changed(
        ids,
        ids.len(),
        "place = 'x' AND change = 'u' AND state = 'recovered'",
    )
}

/// One of these jobs was claimed this often.
pub(super) fn is_claimed_times(ids: &[i64], times: u32) -> String {
    let ids = array(ids);
    format!(
        "EXISTS (SELECT FROM chaos.trace WHERE place = 'l' AND change = 'i' AND job = ANY ({ids})
                 GROUP BY job HAVING count(*) >= {times})"
    )
}

/// None of these jobs is live.
pub(super) fn have_ended(ids: &[i64]) -> String {
    format!(
        "NOT EXISTS (SELECT FROM redrive.live_jobs WHERE id = ANY ({}))",
        array(ids)
    )
}

/// This many letters are in a state.
pub(super) fn letters_are(count: usize, state: &str) -> String {
    format!("(SELECT count(*) = {count} FROM redrive.dead_letters WHERE state = '{state}')")
}

/// The last renewal so far; see [`have_renewed`].
pub(super) fn last_renewal(env: &Environment) -> i64 {
    let last = "SELECT coalesce(max(seq), 0) FROM chaos.renewals";
    ask(&mut env.client(), last)
}

/// Every worker of these processes renewed this often since a renewal.
///
/// A worker checks for lost leases as often as it renews. This counts its checks without a clock.
pub(super) fn have_renewed(env: &Environment, workers: &[usize], times: u32, since: i64) -> String {
    let renewed = workers.iter().map(|worker| {
        let process = env.processes.name(*worker);
        format!(
            "(SELECT coalesce(min(w.renewals), 0) >= {times}
              FROM (SELECT count(*) AS renewals FROM chaos.renewals
                    WHERE process = '{process}' AND seq > {since} GROUP BY worker) w)"
        )
    });
    renewed.collect::<Vec<_>>().join(" AND ")
}
