//! Checks how a job leaves a lease: by its worker's verdict, or by a reap.

use std::sync::Arc;

use super::{IN_FLIGHT, Replay};
use crate::checker::job_history::LeaseEnd;
use crate::checker::{Path, Rule};
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
            (None, None) => {
                self.history.succeeded_in.push((left.generation, first.tx));
                self.succeeded(left, letter, first.at)
            }
            (Some(_), Some(_)) => {
                self.violation(Rule::OnePlace, first.at, "it returned and died at once");
                LeaseEnd::Held
            }
        }
    }

    /// Checks a job that waits for another attempt.
    fn returned(&mut self, left: &RowChange, entered: &RowChange, is_reap: bool) -> LeaseEnd {
        let at = entered.at;
        if (entered.max_attempts, entered.generation) != (left.max_attempts, left.generation) {
            self.violation(
                Rule::Attempts,
                at,
                "it returned with another generation or limit of attempts",
            );
        }
        if entered.attempt >= entered.max_attempts {
            self.violation(
                Rule::Attempts,
                at,
                format!(
                    "it returned after attempt {} of {}",
                    entered.attempt, entered.max_attempts
                ),
            );
        }
        if !(entered.refunds == left.refunds || !is_reap && entered.refunds == left.refunds + 1)
            || entered.refunds > self.terms.max_refunds
        {
            let text = format!("{} refunds follow {}", entered.refunds, left.refunds);
            self.violation(Rule::Attempts, at, text);
        }
        let refunds = entered.refunds;
        match (is_reap, left.attempt - entered.attempt) {
            (true, 1) => {
                self.findings.totals.reaped += 1;
                self.findings.paths.take(Path::Reaped);
                LeaseEnd::Reaped
            }
            (false, 0) => {
                self.findings.paths.take(Path::Retried);
                LeaseEnd::Charged { refunds }
            }
            (false, 1) => {
                self.findings.totals.released += 1;
                LeaseEnd::Refunded { refunds }
            }
            (_, given) => {
                self.violation(
                    Rule::Attempts,
                    at,
                    format!("{given} attempts were refunded"),
                );
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
            "worker_lost" => is_reap && left.crashes + 1 >= self.terms.max_crashes,
            "rejected" | "undecodable" | "unhandled" | "timeout" => !is_reap,
            "manual" => true,
            "expired" => {
                let facts = self.now.content.facts();
                let expires = facts.and_then(Facts::expires_at);
                !is_reap && left.generation == 0 && expires.is_some_and(|expires| at > expires)
            }
            _ => false,
        };
        if !is_proven {
            let text = format!(
                "{cause} after attempt {} of {} and {} crashes",
                left.attempt, left.max_attempts, letter.crashes
            );
            self.violation(Rule::Cause, at, text);
        }
        let given = left.attempt - letter.attempt;
        let is_refunded = given == 1 && !is_reap && ["manual", "expired"].contains(&&*cause);
        // A job that expired made no attempt.
        if given != i32::from(&*cause == "expired") && !is_refunded {
            let text = format!(
                "its letter has {} attempts, but it had {}",
                letter.attempt, left.attempt
            );
            self.violation(Rule::Attempts, at, text);
        }
        let path = match &*cause {
            "manual" => Path::CancelledRunning,
            "rejected" => Path::Rejected,
            "expired" => Path::Expired,
            "worker_lost" => Path::ReapedDead,
            _ => Path::Exhausted,
        };
        self.findings.paths.take(path);
        if is_reap {
            LeaseEnd::ReapedDead
        } else {
            LeaseEnd::Dead { cause, is_refunded }
        }
    }

    /// Checks a job that ends without a letter.
    fn succeeded(&mut self, left: &RowChange, letter: Option<&RowChange>, at: i64) -> LeaseEnd {
        self.findings.totals.done += 1;
        self.findings.paths.take(Path::Succeeded);
        if self.now.done == Some(left.generation) {
            let text = format!("generation {} had succeeded before", left.generation);
            self.violation(Rule::OneSuccess, at, text);
        }
        self.now.done = Some(left.generation);
        self.history.done.push(left.generation);
        let is_recovered =
            letter.is_some_and(|letter| letter.state.as_deref() == Some("recovered"));
        // Its letter may have been discarded, and a job that was never redriven has none.
        let is_awaited = matches!(&self.now.letter, Some((state, _)) if &**state == "redriving");
        if is_recovered {
            self.findings.paths.take(Path::Recovered);
        }
        if is_awaited != is_recovered {
            let text = if is_awaited {
                "its letter is still redriving"
            } else {
                "its letter recovered without a redrive"
            };
            self.violation(Rule::Lineage, at, text);
        }
        LeaseEnd::Done
    }

    pub(super) fn dies(&mut self, letter: &RowChange, generation: i32) {
        self.findings.totals.deaths += 1;
        self.history.deaths += 1;
        if letter.generation != generation {
            let text = format!(
                "its letter has generation {}, but it had {generation}",
                letter.generation
            );
            self.violation(Rule::Lineage, letter.at, text);
        }
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
        if early > 0 {
            self.violation(
                Rule::LawfulReap,
                at,
                format!("its lease was valid for another {early} µs"),
            );
        }
        let started = self.terms.server_starts.iter().rfind(|start| **start <= at);
        let early = started.map_or(0, |start| start + self.terms.lease - at);
        if early > 0 {
            let text = format!("the grace period after the restart had {early} µs left");
            self.violation(Rule::LawfulReap, at, text);
        }
    }
}
