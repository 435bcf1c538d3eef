//! States that scenarios wait for, as SQL conditions on the trace and the tables.

fn array(ids: &[i64]) -> String {
    let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
    format!("'{{{}}}'::bigint[]", ids.join(","))
}

/// Each of these jobs was claimed at least once.
pub(super) fn are_claimed(ids: &[i64]) -> String {
    format!(
        "(SELECT count(DISTINCT job) = {} FROM chaos.trace
          WHERE place = 'l' AND change = 'i' AND job = ANY ({}))",
        ids.len(),
        array(ids)
    )
}

/// This job was claimed by a process.
pub(super) fn is_claimed_by(id: i64, process: &str) -> String {
    format!(
        "EXISTS (SELECT FROM chaos.trace
          WHERE place = 'l' AND change = 'i' AND job = {id} AND process = '{process}')"
    )
}

/// This job was claimed this often.
pub(super) fn is_claimed_times(id: i64, times: u32) -> String {
    format!(
        "(SELECT count(*) >= {times} FROM chaos.trace
          WHERE place = 'l' AND change = 'i' AND job = {id})"
    )
}

/// One of these jobs was claimed this often.
pub(super) fn is_any_claimed_times(ids: &[i64], times: u32) -> String {
    format!(
        "EXISTS (SELECT FROM chaos.trace
          WHERE place = 'l' AND change = 'i' AND job = ANY ({})
          GROUP BY job HAVING count(*) >= {times})",
        array(ids)
    )
}

/// Each of these jobs left a lease.
pub(super) fn have_left_a_lease(ids: &[i64]) -> String {
    format!(
        "(SELECT count(DISTINCT job) = {} FROM chaos.trace
          WHERE place = 'l' AND change = 'o' AND job = ANY ({}))",
        ids.len(),
        array(ids)
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

/// The last renewal so far; see [`has_renewed`].
pub(super) const LAST_RENEWAL: &str = "SELECT coalesce(max(seq), 0) FROM chaos.renewals";

/// Every worker of a process renewed this often since a renewal.
///
/// A worker checks for lost leases as often as it renews. This counts its checks without a clock.
pub(super) fn has_renewed(process: &str, times: u32, since: i64) -> String {
    format!(
        "(SELECT coalesce(min(w.renewals), 0) >= {times}
          FROM (SELECT count(*) AS renewals FROM chaos.renewals
                WHERE process = '{process}' AND seq > {since} GROUP BY worker) w)"
    )
}
