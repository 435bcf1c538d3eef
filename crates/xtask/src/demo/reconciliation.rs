//! Compares the orders of the demo with their results.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Result, ensure};
use indicatif::HumanCount;
use redrive::admin::QueueStats;

use super::gateway::Gateway;
use super::orders::Forecast;

/// Returns the number of jobs in a queue.
pub(super) fn live(queue: &QueueStats) -> u64 {
    queue.ready + queue.leased + queue.delayed
}

/// Returns the number of letters that wait for someone.
pub(super) fn open(queue: &QueueStats) -> u64 {
    queue.open + queue.quarantined
}

/// Compares three independent sources: the file, the gateway and the queue. Returns a report, and an error unless each
/// order was delivered once, or is a letter that no release can deliver.
pub(super) fn reconcile(
    forecast: &Forecast,
    gateway: &Gateway,
    queue: &QueueStats,
) -> (String, Result<()>) {
    let (ledger, delivered) = (gateway.ledger(), gateway.charged());
    let lost = excess(&forecast.delivered, &ledger);
    let charged_twice = excess(&ledger, &forecast.delivered);
    let (live, letters) = (live(queue), open(queue));
    let directly = HumanCount(delivered.saturating_sub(queue.recovered));
    let recovered = HumanCount(queue.recovered);
    let mut report = String::new();
    for (number, what) in [
        (forecast.events, "orders arrived"),
        (
            delivered,
            &*format!("delivered: {directly} directly, {recovered} after a redrive"),
        ),
        (queue.discarded, "discarded, with a reason"),
        (letters, "left in the dead letter queue\n"),
        (lost, "lost"),
        (charged_twice, "charged twice"),
        (live, "still running\n"),
    ] {
        let number = HumanCount(number).to_string();
        _ = writeln!(report, "{number:>9}  {what}");
    }
    let answers = gateway.answers();
    let of = |status| HumanCount(answers.get(&status).copied().unwrap_or(0));
    _ = write!(
        report,
        "The gateway received {} requests: it charged {} orders, rejected {} malformed ones,\n\
         was down for {}, and recognized {} as charged before.",
        HumanCount(answers.values().sum()),
        of(201),
        of(422),
        of(503),
        of(200),
    );
    let (left, events) = (queue.discarded + letters, forecast.events);
    let check = || {
        let undeliverable = forecast.undeliverable;
        ensure!(
            delivered + left == events && left == undeliverable,
            "the numbers do not add up: {undeliverable} of {events} orders are undeliverable, {left} are letters",
        );
        let wrong = lost + charged_twice + live;
        ensure!(wrong == 0, "{wrong} orders are lost, charged twice or live");
        Ok(())
    };
    (report, check())
}

/// Counts the entries that the first ledger has in excess of the second.
fn excess(these: &BTreeMap<String, u64>, those: &BTreeMap<String, u64>) -> u64 {
    these
        .iter()
        .map(|(name, count)| count.saturating_sub(those.get(name).copied().unwrap_or(0)))
        .sum()
}
