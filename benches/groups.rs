//! Drain of jobs in groups.

use redrive::{GroupDeath, GroupPolicy, Operator, Queue};
use redrive_benches::{Bench, Measurement, Outcome, Samples, Target, drain_one_kind, fill_with};

pub(crate) const WHAT: &str = "Drain of no-op jobs in groups under each policy for groups, \
    compared with the same number without groups. In groups of two jobs, a claim takes a turn for \
    every second job. In a single group, which has no target, one job runs at a time if it is \
    ordered.";

/// The policies, with their names.
const POLICIES: [(&str, GroupPolicy); 3] = [
    ("ordered", GroupPolicy::Ordered(GroupDeath::Hold)),
    ("limit 4", GroupPolicy::Limit(4)),
    ("fair", GroupPolicy::Fair),
];

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    let many = bench.sized(100_000, 1_000);
    let jobs = bench.sized(200_000, 2_000);
    for (all, groups) in [
        (5 * jobs, many),
        (jobs, many),
        (jobs, bench.sized(1_000, 10)),
        (jobs, 1),
    ] {
        let mut plain = Samples::default();
        let mut grouped = POLICIES.map(|_| Samples::default());
        for round in 0..bench.sized(3, 1) {
            if round % 2 == 0 {
                plain.push(once(bench, GroupPolicy::None, all, None)?);
            }
            for ((_, policy), rates) in POLICIES.iter().zip(&mut grouped) {
                rates.push(once(bench, *policy, all, Some(groups))?);
            }
            if round % 2 == 1 {
                plain.push(once(bench, GroupPolicy::None, all, None)?);
            }
        }
        for ((name, _), rates) in POLICIES.iter().zip(&grouped) {
            let size = all / groups;
            let name = format!("{name}, {groups} groups of {size}, compared with none");
            let row = Measurement::compared(name, "jobs/s", &plain, rates);
            bench.report(match groups {
                1 => row,
                _ => row.target(Target::RatioAtLeast(0.5)),
            })?;
        }
    }
    Ok(())
}

/// Drains jobs that belong to the groups in turn, and returns the jobs a second.
fn once(bench: &Bench, policy: GroupPolicy, jobs: usize, groups: Option<usize>) -> Outcome<f64> {
    let queue = Queue::new(bench.db(), "groups")?;
    queue.set_group_policy(policy, &Operator::new("bench"))?;
    fill_with(&queue, jobs, |job, id| match groups {
        Some(groups) => job.group(format!("group-{:06}", id % groups as u64)),
        None => job,
    })?;
    let drained = drain_one_kind(bench, &queue, jobs, 1)?;
    bench.expect_rows("redrive.group_slots", 0)?;
    Ok(drained.rate)
}
