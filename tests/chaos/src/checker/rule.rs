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
    GroupOrder,
    GroupLimit,
    GroupHold,
    Diverted,
    TurnOwned,
    FairTurn,
    Paused,
    RateLimit,
    UniqueModes,
    Unpredicted,
    LetterCounts,
    Breaker,
    Retention,
    Redaction,
    PolicyTick,
    Aged,
    Leftover,
    Batch,
    Validated,
}

impl Rule {
    /// Returns its number, such as `C5`.
    pub(crate) fn number(self) -> &'static str {
        self.entry().0
    }

    #[expect(clippy::too_many_lines, reason = "a table")]
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
                "only the worker that holds a lease settles its jobs, and only one claim grants it",
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
                "a history gets one entry for each failed attempt, with its error and class, and keeps the others",
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
            Rule::GroupOrder => (
                "C31",
                "one job of an ordered group runs at a time, in the order of the ids that were ready, after those before it succeeded, also while it waits for a retry",
            ),
            Rule::GroupLimit => (
                "C32",
                "a group never has more turns, nor more running handlers, than its limit",
            ),
            Rule::GroupHold => (
                "C33",
                "nothing starts behind a letter that holds its group until it is redriven, closed or released",
            ),
            Rule::Diverted => (
                "C34",
                "a job is diverted only behind an open letter and without a charge, and later jobs wait for it",
            ),
            Rule::TurnOwned => (
                "C35",
                "each turn of a group belongs to a live job or an open letter, and each running job has one or follows one that has",
            ),
            Rule::FairTurn => (
                "C36",
                "a fair group that waits has its turn before a process takes more than 20 from another one",
            ),
            Rule::Paused => (
                "C37",
                "a worker that has read of a pause starts no job of the queue until it ends",
            ),
            Rule::RateLimit => (
                "C38",
                "in every window, a limited queue or group starts at most its burst and its rate times the time",
            ),
            Rule::UniqueModes => (
                "C39",
                "an enqueue replaces only a waiting job and says so, and a window stores one job",
            ),
            Rule::Unpredicted => (
                "C40",
                "a row changes only in the columns that an operation changes, with the times of the change, and only if the operation selects it",
            ),
            Rule::LetterCounts => (
                "C41",
                "a letter counts its deaths, attempts, redrives, edits and captures, and is quarantined by its limits",
            ),
            Rule::Breaker => (
                "C42",
                "a breaker opens and closes for a reason, and while it is open, only one fenced probe at a time starts",
            ),
            Rule::Retention => (
                "C43",
                "a letter is deleted or archived whole, by a rule or a request for its state, and not before its time",
            ),
            Rule::Redaction => ("C44", "no letter has a value that a rule redacts"),
            Rule::PolicyTick => (
                "C45",
                "a tick of a policy runs once, at its time, and redrives at most its batch of young generations, oldest first",
            ),
            Rule::Aged => (
                "C46",
                "a worker raises a job to its priority once the job has waited for its time",
            ),
            Rule::Leftover => ("C47", "no row is left of a job or letter that is gone"),
            Rule::Batch => (
                "C48",
                "a job of a batch is judged by its own verdict, and after a failure or a crash it runs alone",
            ),
            Rule::Validated => (
                "C49",
                "a run of validated letters sends only those that passed",
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
