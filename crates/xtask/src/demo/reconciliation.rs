//! Compares the orders of the demo with their results.

use std::collections::BTreeMap;
use std::fmt;

use super::gateway::Gateway;
use super::orders::Forecast;
use anyhow::{Result, ensure};
use indicatif::HumanCount;

/// The final numbers from three independent sources: the file, the queue and the gateway.
#[derive(Debug, Default)]
pub(super) struct Reconciliation {
    /// Orders in the file.
    pub(super) events: u64,
    /// Orders in the file that no release can deliver.
    pub(super) undeliverable: u64,
    /// Entries in the gateway's ledger.
    pub(super) delivered: u64,
    /// Deliverable orders that are not in the ledger.
    pub(super) lost: u64,
    /// Ledger entries beyond one per order.
    pub(super) charged_twice: u64,
    /// Jobs in the queue.
    pub(super) live: u64,
    /// Letters that were delivered after a redrive.
    pub(super) recovered: u64,
    /// Letters that were discarded.
    pub(super) discarded: u64,
    /// Letters that are still open.
    pub(super) letters: u64,
    /// How often the gateway gave each answer.
    pub(super) answers: BTreeMap<u16, u64>,
}

impl Reconciliation {
    /// Counts the file and the ledger. The numbers of the queue stay zero.
    pub(super) fn of(forecast: &Forecast, gateway: &Gateway) -> Reconciliation {
        let ledger = gateway.ledger();
        Reconciliation {
            events: forecast.events,
            undeliverable: forecast.undeliverable,
            delivered: gateway.charged(),
            lost: excess(&forecast.delivered, &ledger),
            charged_twice: excess(&ledger, &forecast.delivered),
            answers: gateway.answers(),
            ..Reconciliation::default()
        }
    }

    /// Returns an error unless each order was delivered once, or is a letter that no release can deliver.
    pub(super) fn check(&self) -> Result<()> {
        let left = self.discarded + self.letters;
        ensure!(
            self.delivered + left == self.events && left == self.undeliverable,
            "the numbers do not add up: {} of {} orders are undeliverable, {left} are letters",
            self.undeliverable,
            self.events,
        );
        let wrong = self.lost + self.charged_twice + self.live;
        ensure!(wrong == 0, "{wrong} orders are lost, charged twice or live");
        Ok(())
    }
}

/// Counts the entries that the first ledger has in excess of the second.
fn excess(these: &BTreeMap<String, u64>, those: &BTreeMap<String, u64>) -> u64 {
    these
        .iter()
        .map(|(name, count)| count.saturating_sub(those.get(name).copied().unwrap_or(0)))
        .sum()
}

impl fmt::Display for Reconciliation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directly = HumanCount(self.delivered.saturating_sub(self.recovered));
        let recovered = HumanCount(self.recovered);
        let delivered = format!("delivered: {directly} directly, {recovered} after a redrive");
        for (number, what) in [
            (self.events, "orders arrived"),
            (self.delivered, &*delivered),
            (self.discarded, "discarded, with a reason"),
            (self.letters, "left in the dead letter queue\n"),
            (self.lost, "lost"),
            (self.charged_twice, "charged twice"),
            (self.live, "still running\n"),
        ] {
            let number = HumanCount(number).to_string();
            writeln!(f, "{number:>9}  {what}")?;
        }
        let answers = |status| HumanCount(self.answers.get(&status).copied().unwrap_or(0));
        write!(
            f,
            "The gateway received {} requests: it charged {} orders, rejected {} malformed ones,\n\
             was down for {}, and recognized {} as charged before.",
            HumanCount(self.answers.values().sum()),
            answers(201),
            answers(422),
            answers(503),
            answers(200),
        )
    }
}
