//! The rules of the checker. Their numbers never change.

use std::fmt;

/// A rule that every run must obey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Rule {
    Kept,
    NotInvented,
    OnePlace,
    OneSuccess,
    Fenced,
    LawfulReap,
    NoOverlap,
    Attempts,
    Lineage,
    Cause,
    RedriveOnce,
    NotStuck,
    OutageFree,
    OneOfAKey,
    NotEarly,
    CleanStop,
    Honest,
    Counters,
    LawfulPrune,
    SuspectsAlone,
    Verdict,
    OneTransaction,
    Content,
    History,
    Checkpoint,
    FollowUp,
    Delay,
    Cancelled,
    Capture,
    Schedule,
}

impl Rule {
    /// All rules, by number.
    #[cfg(test)]
    const ALL: [Rule; 30] = [
        Rule::Kept,
        Rule::NotInvented,
        Rule::OnePlace,
        Rule::OneSuccess,
        Rule::Fenced,
        Rule::LawfulReap,
        Rule::NoOverlap,
        Rule::Attempts,
        Rule::Lineage,
        Rule::Cause,
        Rule::RedriveOnce,
        Rule::NotStuck,
        Rule::OutageFree,
        Rule::OneOfAKey,
        Rule::NotEarly,
        Rule::CleanStop,
        Rule::Honest,
        Rule::Counters,
        Rule::LawfulPrune,
        Rule::SuspectsAlone,
        Rule::Verdict,
        Rule::OneTransaction,
        Rule::Content,
        Rule::History,
        Rule::Checkpoint,
        Rule::FollowUp,
        Rule::Delay,
        Rule::Cancelled,
        Rule::Capture,
        Rule::Schedule,
    ];

    /// Returns its number, such as `C5`.
    pub(crate) fn number(self) -> &'static str {
        self.entry().0
    }

    fn entry(self) -> (&'static str, &'static str) {
        match self {
            Rule::Kept => (
                "C1",
                "an acknowledged job is live, has succeeded, or is a letter",
            ),
            Rule::NotInvented => ("C2", "every job comes from exactly one enqueue"),
            Rule::OnePlace => (
                "C3",
                "a job is in one place, and every move leaves one place and enters one",
            ),
            Rule::OneSuccess => ("C4", "a generation of a job succeeds at most once"),
            Rule::Fenced => (
                "C5",
                "only the worker that holds a lease settles its jobs, and a job gets a lease once",
            ),
            Rule::LawfulReap => (
                "C6",
                "a lease is reaped only after it expired, and not in the grace period after a restart",
            ),
            Rule::NoOverlap => (
                "C7",
                "two attempts at a job overlap only if the first one's lease was lost",
            ),
            Rule::Attempts => (
                "C8",
                "a claim charges one attempt, refunds follow the rules, and no limit is exceeded",
            ),
            Rule::Lineage => (
                "C9",
                "a letter follows its job through death, redrive and recovery",
            ),
            Rule::Cause => ("C10", "the job's history proves the cause of its death"),
            Rule::RedriveOnce => ("C11", "a letter is redriven at most once while it is open"),
            Rule::NotStuck => ("C12", "no job is live after the drain"),
            Rule::OutageFree => ("C13", "an outage or a snooze charges no attempt"),
            Rule::OneOfAKey => ("C14", "at most one live job holds a unique key"),
            Rule::NotEarly => ("C15", "no job is ready before it is due"),
            Rule::CleanStop => ("C16", "a worker that stopped cleanly holds no lease"),
            Rule::Honest => (
                "C17",
                "an acknowledged enqueue is stored, and a failed one is not",
            ),
            Rule::Counters => ("C18", "published counters equal what happened"),
            Rule::LawfulPrune => ("C19", "a prune deletes no open letter"),
            Rule::SuspectsAlone => (
                "C20",
                "a suspect has its own lease, and before its last crash it is the only suspect in its process",
            ),
            Rule::Verdict => ("C21", "a settled verdict is what the handler returned"),
            Rule::OneTransaction => (
                "C22",
                "a transactional handler's writes exist exactly once if its job succeeded, else never",
            ),
            Rule::Content => (
                "C23",
                "a job keeps its kind, payload, priority, headers, keys and first enqueue time on every move",
            ),
            Rule::History => (
                "C24",
                "a history gets one entry for each failed attempt, with its error, and keeps the others",
            ),
            Rule::Checkpoint => (
                "C25",
                "an attempt begins with the last stored checkpoint, and its failure stores the last one it wrote",
            ),
            Rule::FollowUp => (
                "C26",
                "the transaction of a success stores its follow-ups once, and nothing else does",
            ),
            Rule::Delay => (
                "C27",
                "a retry waits for its backoff, and a snooze for as long as its handler asked",
            ),
            Rule::Cancelled => (
                "C28",
                "a job that was cancelled while it ran is not attempted again",
            ),
            Rule::Capture => (
                "C29",
                "a captured position has at most one letter at a time, which its captures return",
            ),
            Rule::Schedule => (
                "C30",
                "each tick of a schedule is exactly one job or recorded as missed",
            ),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, text) = self.entry();
        write!(f, "{number} {self:?}: {text}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_lists_every_rule() {
        let readme = include_str!("../../../README.md");
        for (at, rule) in Rule::ALL.into_iter().enumerate() {
            let (number, text) = rule.entry();
            assert_eq!(number, format!("C{}", at + 1));
            assert!(readme.contains(&format!("| {number} | {text} |")), "{rule}");
        }
    }
}
