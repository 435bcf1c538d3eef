//! The published counters, and their check against the rows.

use std::collections::BTreeMap;

use postgres::Client;
use redrive::Database;
use redrive::admin::Fault;

use crate::read::scalar;

/// The series of `redrive.metric_totals()`, by name and labels, such as
/// `redrive_jobs_succeeded_total{orders,order}`; of a histogram its count. Without what depends on
/// the time.
pub type Published = BTreeMap<String, i64>;

/// Reads what is published.
///
/// # Panics
/// Panics if a histogram is inconsistent.
#[expect(
    clippy::cast_possible_truncation,
    reason = "counts of a test are small whole numbers"
)]
pub fn published(client: &mut Client) -> Published {
    let asked = "SELECT metric, labels, numbers FROM redrive.metric_totals()";
    let rows = client.query(asked, &[]).expect("read the totals");
    let mut series = Published::new();
    for row in rows {
        let metric: String = row.get("metric");
        if metric == "redrive_fold_age_seconds" || metric.ends_with("timestamp_seconds") {
            continue;
        }
        let labels: Vec<String> = row.get("labels");
        let name = format!("{metric}{{{}}}", labels.join(","));
        let numbers: Vec<f64> = row.get("numbers");
        let count = match &numbers[..] {
            [number] => *number,
            [counts @ .., _sum] => {
                let are_valid = numbers.iter().all(|number| *number >= 0.0);
                assert!(are_valid, "{name}: {numbers:?}");
                counts.iter().sum()
            }
            [] => panic!("{name} has no number"),
        };
        let twice = series.insert(name.clone(), count.round() as i64);
        assert!(twice.is_none(), "{name} is there twice");
    }
    series
}

/// Returns the differences between two readings.
pub fn changed(before: &Published, after: &Published) -> Published {
    let names = before.keys().chain(after.keys());
    let value = |of: &Published, name: &str| of.get(name).copied().unwrap_or_default();
    let change = |name: &String| (name.clone(), value(after, name) - value(before, name));
    names.map(change).filter(|(_, by)| *by != 0).collect()
}

/// Checks that the counters match the rows.
#[track_caller]
pub fn no_drift(db: &Database) {
    let found = db.admin().audit_counters().expect("audit the counters");
    let drift: Vec<_> = found.iter().filter(|audit| audit.drift != 0).collect();
    assert!(drift.is_empty(), "{drift:#?}");
}

/// Checks that the counts of the failure groups match the letters.
#[track_caller]
pub fn groups_add_up(db: &Database) {
    let faults = db.admin().faults().expect("look for faults");
    let of_groups = |fault: &&Fault| fault.kind == "group_count";
    let wrong: Vec<_> = faults.iter().filter(of_groups).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Folds all counts.
pub fn fold(client: &mut Client) -> i64 {
    scalar(client, "SELECT redrive.fold_metrics()")
}
