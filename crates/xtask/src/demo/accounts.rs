//! The accounts of the evening: what came in against what became of it.

use std::collections::BTreeMap;
use std::fmt;

use super::events::Forecast;
use super::gateway::{Answers, Gateway};
use super::screen::grouped;
use crate::error::{Error, Result};

/// The numbers at the end, from three sides that do not know of each other: the file of
/// orders, the queue, and the gateway's ledger.
#[derive(Clone, Debug, Default)]
pub(super) struct Accounts {
    /// Orders in the file.
    pub(super) events: u64,
    /// Orders in the file that no release can deliver.
    pub(super) hopeless: u64,
    /// Entries in the gateway's ledger.
    pub(super) delivered: u64,
    /// Deliverable orders that are not in the ledger.
    pub(super) lost: u64,
    /// Entries in the ledger beyond one an order.
    pub(super) charged_twice: u64,
    /// Jobs of the queue that are not done yet.
    pub(super) live: u64,
    /// Letters whose orders were delivered after a redrive.
    pub(super) recovered: u64,
    /// Letters that were closed by hand.
    pub(super) discarded: u64,
    /// Letters that are left.
    pub(super) letters: u64,
    /// What the gateway answered.
    pub(super) answers: Answers,
}

impl Accounts {
    /// What the file and the ledger say; the numbers of the queue are left at zero.
    pub(super) fn of(forecast: &Forecast, gateway: &Gateway) -> Accounts {
        let ledger = gateway.ledger();
        Accounts {
            events: forecast.events,
            hopeless: forecast.hopeless,
            delivered: gateway.charged(),
            lost: beyond(&forecast.delivered, &ledger),
            charged_twice: beyond(&ledger, &forecast.delivered),
            answers: gateway.answers(),
            ..Accounts::default()
        }
    }

    /// An error when anything does not add up, with everything that does not.
    pub(super) fn check(&self) -> Result<()> {
        let kept = self.delivered + self.discarded + self.letters;
        let wrong: Vec<String> = [
            (kept != self.events).then(|| {
                format!(
                    "{} orders came in, and {} are accounted for",
                    self.events, kept
                )
            }),
            (self.discarded + self.letters != self.hopeless).then(|| {
                let left = self.discarded + self.letters;
                format!(
                    "{} orders cannot be delivered, and {left} were not",
                    self.hopeless
                )
            }),
            (self.lost > 0).then(|| format!("{} orders are lost", self.lost)),
            (self.charged_twice > 0).then(|| format!("{} charges too many", self.charged_twice)),
            (self.live > 0).then(|| format!("{} jobs are still live", self.live)),
        ]
        .into_iter()
        .flatten()
        .collect();
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Error::new(format!(
            "the numbers do not add up: {}",
            wrong.join("; ")
        )))
    }
}

/// How many entries the first has beyond the second.
fn beyond(these: &BTreeMap<String, u64>, those: &BTreeMap<String, u64>) -> u64 {
    these
        .iter()
        .map(|(name, count)| count.saturating_sub(those.get(name).copied().unwrap_or(0)))
        .sum()
}

impl fmt::Display for Accounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let directly = self.delivered.saturating_sub(self.recovered);
        let mut line = |number: u64, what: &str| writeln!(f, "{:>9}  {what}", grouped(number));
        line(self.events, "orders came in")?;
        line(
            self.delivered,
            &format!(
                "delivered: {} by themselves, {} after a redrive",
                grouped(directly),
                grouped(self.recovered)
            ),
        )?;
        line(self.discarded, "discarded, with a reason")?;
        line(
            self.letters,
            "left in the dead letter queue, for Monday morning",
        )?;
        writeln!(f)?;
        let mut line = |number: u64, what: &str| writeln!(f, "{:>9}  {what}", grouped(number));
        line(self.lost, "lost")?;
        line(self.charged_twice, "charged twice")?;
        line(self.live, "still under way")?;
        let Answers {
            charged,
            repeated,
            refused,
            unavailable,
        } = self.answers;
        write!(
            f,
            "\nThe gateway had {} requests: it charged {} orders, refused {} as malformed and was\n\
             down for {}; {} came again after they had been charged.",
            grouped(charged + repeated + refused + unavailable),
            grouped(charged),
            grouped(refused),
            grouped(unavailable),
            grouped(repeated),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_that_add_up_are_fine_and_others_say_why() {
        let good = Accounts {
            events: 10,
            hopeless: 3,
            delivered: 7,
            recovered: 2,
            discarded: 1,
            letters: 2,
            ..Accounts::default()
        };
        good.check().expect("they add up");
        let shown = good.to_string();
        assert!(
            shown.contains("5 by themselves, 2 after a redrive"),
            "{shown}"
        );

        let said = |accounts: Accounts| accounts.check().expect_err("wrong").to_string();
        let lost = said(Accounts {
            delivered: 6,
            lost: 1,
            ..good.clone()
        });
        assert!(
            lost.contains("10 orders came in, and 9 are") && lost.contains("1 orders are lost")
        );
        assert!(
            said(Accounts {
                live: 1,
                ..good.clone()
            })
            .contains("1 jobs are still live")
        );
        assert!(
            said(Accounts {
                charged_twice: 1,
                ..good.clone()
            })
            .contains("1 charges too many")
        );
        let undelivered = Accounts {
            delivered: 6,
            letters: 3,
            ..good
        };
        assert!(said(undelivered).contains("3 orders cannot be delivered, and 4 were not"));
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
        assert_eq!((beyond(&these, &those), beyond(&those, &these)), (2, 5));
    }
}
