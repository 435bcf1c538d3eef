//! Compares the orders of the demo with their results.

use std::collections::BTreeMap;
use std::fmt;

use super::gateway::{Answers, Gateway};
use super::orders::Forecast;
use super::screen::grouped;
use anyhow::{Result, ensure};

/// The final numbers from three independent sources: the file, the queue and the gateway.
#[derive(Clone, Debug, Default)]
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
    /// The answers of the gateway.
    pub(super) answers: Answers,
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

    /// Returns an error that lists every mismatch.
    pub(super) fn check(&self) -> Result<()> {
        let kept = self.delivered + self.discarded + self.letters;
        let mismatches: Vec<String> = [
            (kept != self.events)
                .then(|| format!("{} orders arrived, {} are accounted for", self.events, kept)),
            (self.discarded + self.letters != self.undeliverable).then(|| {
                let left = self.discarded + self.letters;
                format!(
                    "{} orders are undeliverable, {left} were not delivered",
                    self.undeliverable
                )
            }),
            (self.lost > 0).then(|| format!("{} orders are lost", self.lost)),
            (self.charged_twice > 0).then(|| format!("{} excess charges", self.charged_twice)),
            (self.live > 0).then(|| format!("{} jobs are still live", self.live)),
        ]
        .into_iter()
        .flatten()
        .collect();
        ensure!(
            mismatches.is_empty(),
            "the numbers do not add up: {}",
            mismatches.join("; ")
        );
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
        let directly = self.delivered.saturating_sub(self.recovered);
        let mut line = |number: u64, what: &str| writeln!(f, "{:>9}  {what}", grouped(number));
        line(self.events, "orders arrived")?;
        line(
            self.delivered,
            &format!(
                "delivered: {} directly, {} after a redrive",
                grouped(directly),
                grouped(self.recovered)
            ),
        )?;
        line(self.discarded, "discarded, with a reason")?;
        line(self.letters, "left in the dead letter queue")?;
        writeln!(f)?;
        let mut line = |number: u64, what: &str| writeln!(f, "{:>9}  {what}", grouped(number));
        line(self.lost, "lost")?;
        line(self.charged_twice, "charged twice")?;
        line(self.live, "still running")?;
        let Answers {
            charged,
            repeated,
            rejected,
            unavailable,
        } = self.answers;
        write!(
            f,
            "\nThe gateway received {} requests: it charged {} orders, rejected {} malformed ones,\n\
             was down for {}, and recognized {} as charged before.",
            grouped(charged + repeated + rejected + unavailable),
            grouped(charged),
            grouped(rejected),
            grouped(unavailable),
            grouped(repeated),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mismatches_are_listed() {
        let good = Reconciliation {
            events: 10,
            undeliverable: 3,
            delivered: 7,
            recovered: 2,
            discarded: 1,
            letters: 2,
            ..Reconciliation::default()
        };
        good.check().expect("the numbers add up");
        let shown = good.to_string();
        assert!(shown.contains("5 directly, 2 after a redrive"), "{shown}");

        let message =
            |reconciliation: Reconciliation| reconciliation.check().expect_err("wrong").to_string();
        let lost = message(Reconciliation {
            delivered: 6,
            lost: 1,
            ..good.clone()
        });
        assert!(lost.contains("10 orders arrived, 9 are") && lost.contains("1 orders are lost"));
        assert!(
            message(Reconciliation {
                live: 1,
                ..good.clone()
            })
            .contains("1 jobs are still live")
        );
        assert!(
            message(Reconciliation {
                charged_twice: 1,
                ..good.clone()
            })
            .contains("1 excess charges")
        );
        let undelivered = Reconciliation {
            delivered: 6,
            letters: 3,
            ..good
        };
        assert!(message(undelivered).contains("3 orders are undeliverable, 4 were not"));
    }

    #[test]
    fn ledgers_are_compared_entry_by_entry() {
        let ledger = |entries: &[(&str, u64)]| -> BTreeMap<String, u64> {
            entries
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect()
        };
        let (these, those) = (ledger(&[("a", 1), ("b", 2)]), ledger(&[("b", 1), ("c", 5)]));
        assert_eq!((excess(&these, &those), excess(&those, &these)), (2, 5));
    }
}
