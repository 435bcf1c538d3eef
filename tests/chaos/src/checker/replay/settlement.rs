//! Checks how a job leaves a lease: by its worker's verdict, or by a reap.

use std::sync::Arc;

use super::Replay;
use crate::checker::job_history::LeaseEnd;
use crate::checker::{IN_FLIGHT, MAX_CRASHES, MAX_REFUNDS, Rule};
use crate::db_trace::RowChange;
use crate::facts::Facts;

impl Replay<'_, '_> {
    /// Checks a job that leaves a lease.
    pub(super) fn settled(
        &mut self,
        left: &RowChange,
        entered: Option<&RowChange>,
        died: Option<&RowChange>,
        letter: Option<&RowChange>,
        first: &RowChange,
    ) -> LeaseEnd {
        let crashes = entered.or(died).map_or(left.crashes, |row| row.crashes);
        // Only a reap counts a crash, and only a reap may entered from another worker.
        let is_reap = crashes == left.crashes + 1;
        if is_reap {
            self.check_reap(left, first.began);
        } else if first.process != left.process {
            let text = format!("{} settled a lease of {}", first.process, left.process);
            self.violation(Rule::Fenced, first.at, text);
        }
        match (entered, died) {
            (Some(entered), None) => self.returned(left, entered, is_reap),
            (None, Some(letter)) => self.dead_lettered(left, letter, is_reap),
            (None, None) => self.succeeded(left, letter, first),
            (Some(_), Some(_)) => {
                self.violation(Rule::OnePlace, first.at, "it returned and died at once");
                LeaseEnd::Held
            }
        }
    }

    /// Checks a job that waits for another attempt.
    fn returned(&mut self, left: &RowChange, entered: &RowChange, is_reap: bool) -> LeaseEnd {
        let at = entered.at;
        let limits = |row: &RowChange| (row.max_attempts, row.generation);
        self.demand(limits(entered) == limits(left), Rule::Attempts, at, || {
            "it returned with another generation or limit of attempts".to_owned()
        });
        let (attempt, max) = (entered.attempt, entered.max_attempts);
        self.demand(attempt < max, Rule::Attempts, at, || {
            format!("it returned after attempt {attempt} of {max}")
        });
        let is_refund = !is_reap && entered.refunds == left.refunds + 1;
        let is_lawful = is_refund || entered.refunds == left.refunds;
        let is_within = entered.refunds <= MAX_REFUNDS;
        self.demand(is_lawful && is_within, Rule::Attempts, at, || {
            format!("{} refunds follow {}", entered.refunds, left.refunds)
        });
        let refunds = entered.refunds;
        match (is_reap, left.attempt - entered.attempt) {
            (true, 1) => {
                self.findings.count("reaped");
                LeaseEnd::Reaped
            }
            (false, 0) => LeaseEnd::Charged { refunds },
            (false, 1) => {
                self.findings.count("released");
                LeaseEnd::Refunded
            }
            (_, given) => {
                let text = format!("{given} attempts were refunded");
                self.violation(Rule::Attempts, at, text);
                LeaseEnd::Charged { refunds }
            }
        }
    }

    /// Checks a job that becomes a letter, and the letter's cause.
    fn dead_lettered(&mut self, left: &RowChange, letter: &RowChange, is_reap: bool) -> LeaseEnd {
        let at = letter.at;
        self.dies(letter, left.generation);
        let cause = letter.cause.clone().unwrap_or_else(|| Arc::from(""));
        let is_proven = match &*cause {
            "exhausted" => !is_reap && left.attempt >= left.max_attempts,
            // Without a fault, only a job that aborts its process can lose that many workers.
            "worker_lost" => {
                let facts = self.now.content;
                let is_killer = !self.terms.is_calm || facts.is_some_and(Facts::aborts);
                is_reap && left.crashes + 1 >= MAX_CRASHES && is_killer
            }
            "rejected" => !is_reap,
            "manual" => true,
            _ => false,
        };
        self.demand(is_proven, Rule::Cause, at, || {
            let (attempt, max, crashes) = (left.attempt, left.max_attempts, letter.crashes);
            format!("{cause} after attempt {attempt} of {max} and {crashes} crashes")
        });
        let given = left.attempt - letter.attempt;
        let is_refunded = given == 1 && !is_reap && &*cause == "manual";
        self.demand(given == 0 || is_refunded, Rule::Attempts, at, || {
            format!(
                "its letter has {} attempts, but it had {}",
                letter.attempt, left.attempt
            )
        });
        self.findings.count(format!("died as {cause}"));
        if is_reap {
            LeaseEnd::ReapedDead
        } else {
            LeaseEnd::Dead { cause, is_refunded }
        }
    }

    /// Checks a job that ends without a letter.
    fn succeeded(
        &mut self,
        left: &RowChange,
        letter: Option<&RowChange>,
        first: &RowChange,
    ) -> LeaseEnd {
        self.findings.count("done");
        self.history.done.push((left.generation, first.tx));
        let is_recovered =
            letter.is_some_and(|letter| letter.state.as_deref() == Some("recovered"));
        // Its letter may have been discarded, and a job that was never redriven has none.
        let is_awaited = matches!(&self.now.letter, Some((state, _)) if &**state == "redriving");
        self.demand(
            is_awaited == is_recovered,
            Rule::Lineage,
            first.at,
            || match is_awaited {
                true => "its letter is still redriving".to_owned(),
                false => "its letter recovered without a redrive".to_owned(),
            },
        );
        LeaseEnd::Done
    }

    pub(super) fn dies(&mut self, letter: &RowChange, generation: i32) {
        self.findings.count("deaths");
        let of_letter = letter.generation;
        self.demand(of_letter == generation, Rule::Lineage, letter.at, || {
            format!("its letter has generation {of_letter}, but it had {generation}")
        });
    }

    /// Checks that the lease had expired, and the grace period after a start of the server.
    fn check_reap(&mut self, left: &RowChange, at: i64) {
        let worker = left.worker.unwrap_or_default();
        let renewed = self.renewed.get(&worker).map_or(&[][..], Vec::as_slice);
        // The statement could not see a renewal that was not committed yet.
        let seen = renewed.partition_point(|renewal| renewal.at <= at - IN_FLIGHT);
        let last = renewed[..seen]
            .last()
            .map_or(left.at, |renewal| renewal.began);
        let early = last + self.terms.lease - at;
        self.demand(early <= 0, Rule::LawfulReap, at, || {
            format!("its lease was valid for another {early} µs")
        });
        let started = self.terms.server_starts.iter().rfind(|start| **start <= at);
        let early = started.map_or(0, |start| start + self.terms.lease - at);
        self.demand(early <= 0, Rule::LawfulReap, at, || {
            format!("the grace period after the restart had {early} µs left")
        });
    }
}
