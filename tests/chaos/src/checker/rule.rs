//! The rules of the checker. Their numbers never change.

use std::fmt;

macro_rules! rules {
    ($($number:literal $rule:ident $text:literal)+) => {
        /// A rule that every run must obey.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) enum Rule { $($rule),+ }

        impl Rule {
            /// All rules, by number.
            #[cfg(test)]
            pub(crate) const ALL: &[Rule] = &[$(Rule::$rule),+];

            /// Returns its number, such as `C5`, and what it demands.
            fn entry(self) -> (&'static str, &'static str) {
                match self { $(Rule::$rule => ($number, $text)),+ }
            }
        }
    };
}

rules! {
    "C1" Kept "an acknowledged job is live, has succeeded, or is a letter"
    "C2" NotInvented "every job comes from exactly one enqueue"
    "C3" OnePlace "a job is in one place, and every move leaves one place and enters one"
    "C5" Fenced "only the worker that holds a lease settles its jobs, and only one claim grants it"
    "C6" LawfulReap "a lease is reaped only after it expired, and not in the grace period after a restart"
    "C7" NoOverlap "two attempts at a job overlap only if the first one's lease was lost"
    "C8" Attempts "a claim charges one attempt, refunds follow the rules, and no limit is exceeded"
    "C9" Lineage "a letter follows its job through death, redrive and recovery"
    "C10" Cause "the job's history proves the cause of its death"
    "C11" RedriveOnce "a letter is redriven at most once while it is open"
    "C12" NotStuck "no job is live after the drain"
    "C13" OutageFree "an outage or a snooze charges no attempt"
    "C14" OneOfAKey "at most one live job holds a unique key"
    "C15" NotEarly "no job is ready before it is due"
    "C16" CleanStop "a worker that stopped cleanly holds no lease"
    "C17" Honest "an acknowledged enqueue is stored, and a failed one is not"
    "C18" Counters "published counters equal what happened"
    "C20" SuspectsAlone "a suspect has its own lease, and before its last crash it is the only suspect in its process"
    "C21" Verdict "a settled verdict is what the handler returned"
    "C22" OneTransaction "a transactional handler's writes exist exactly once if its job succeeded, else never"
    "C23" Content "a job keeps its kind, payload, priority, headers, keys and first enqueue time on every move"
    "C25" Checkpoint "an attempt begins with the last stored checkpoint, and its failure stores the last one it wrote"
    "C26" FollowUp "the transaction of a success stores its follow-ups once, and nothing else does"
    "C28" Cancelled "a job that was cancelled while it ran is not attempted again"
    "C30" Schedule "each tick of a schedule is exactly one job or recorded as missed"
    "C31" GroupOrder "one job of an ordered group runs at a time, in the order of the ids that were ready, after those before it succeeded, also while it waits for a retry"
    "C32" GroupLimit "a group never has more running handlers than its limit"
    "C33" GroupHold "nothing starts behind a letter that holds its group until it is redriven, closed or released"
    "C34" Diverted "a job is diverted only behind an open letter and without a charge, and later jobs wait for it"
    "C39" UniqueModes "an enqueue replaces only a waiting job and says so, and a window stores one job"
    "C40" ReadySince "a job counts as ready since it was due, since a client made it ready, or as before"
    "C42" Breaker "a breaker opens and closes for a reason, and while it is open, only one fenced probe at a time starts"
    "C43" Retention "a letter is deleted or archived by a rule or a request for its state"
    "C47" Leftover "no row is left of a job or letter that is gone"
    "C48" Batch "a batch has each job once, all of one queue and not too many, and a job runs alone after a failure or a crash"
    "C50" ValidSql "the server rejects no statement as wrong, such as one with an unknown column"
}

impl Rule {
    pub(crate) fn number(self) -> &'static str {
        self.entry().0
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, text) = self.entry();
        write!(f, "{number} {self:?}: {text}")
    }
}
