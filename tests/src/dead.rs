//! Letters, and operations on them that must succeed.

use std::time::Duration;

use redrive::admin::{AuditFilter, AuditRecord, Cancelled, LiveJob};
use redrive::dlq::runs::{DriveStatus, RedriveRun, RunOptions};
use redrive::dlq::{
    CaptureOutcome, Edit, Edited, FailureGroup, ForeignFailure, GroupFilter, GroupId, GroupState,
    Letter, LetterFilter, Redaction, RedactionId, RedriveOptions, Redriven, RetentionRule, Skip,
};
use redrive::{Database, JobId, Operator, Queue};

use crate::wait::{SOON, wait_until};

/// An operator with a reason.
pub fn maria() -> Operator {
    Operator::new("maria@ops-1").reason("INC-7")
}

/// A filter that selects one letter.
pub fn only(id: JobId) -> LetterFilter {
    LetterFilter::new().ids([id])
}

/// A filter that selects the letters of the queue `orders`.
pub fn of_orders() -> LetterFilter {
    LetterFilter::new().queue("orders")
}

/// Returns the payload of a letter.
pub fn content(letter: &Letter) -> Option<&str> {
    letter.payload.as_ref().map(|json| json.get())
}

/// Returns the generation and the outcome of each attempt that a letter remembers.
pub fn outcomes(letter: &Letter) -> Vec<(u32, &str)> {
    let past = letter.history.iter();
    past.map(|past| (past.generation, &*past.outcome)).collect()
}

/// Operations of an operator without a name.
pub trait Dead {
    /// Returns the database of the letters.
    fn letters_of(&self) -> &Database;

    /// Returns a letter, which must exist.
    #[track_caller]
    fn letter(&self, id: JobId) -> Letter {
        let found = self.letters_of().dlq().get(id).expect("ask for a letter");
        found.expect("a letter")
    }

    /// Returns the letters that the filter selects.
    #[track_caller]
    fn listed(&self, filter: &LetterFilter) -> Vec<Letter> {
        let listed = self.letters_of().dlq().list(filter);
        listed.unwrap_or_else(|error| panic!("{filter}: {error:?}"))
    }

    /// Returns the ids of the letters that the filter selects.
    #[track_caller]
    fn listed_ids(&self, filter: &LetterFilter) -> Vec<JobId> {
        let listed = self.listed(filter);
        listed.iter().map(|letter| letter.id).collect()
    }

    /// Cancels a job.
    #[track_caller]
    fn cancels(&self, id: JobId) -> Cancelled {
        let jobs = self.letters_of().admin().jobs();
        jobs.cancel(id, &maria()).expect("cancel a job")
    }

    /// Drives a run of these letters until it stops.
    #[track_caller]
    fn drives(&self, filter: &LetterFilter, options: &RunOptions) -> RedriveRun {
        let runs = self.letters_of().dlq().runs();
        let started = runs.start(filter, options, &maria()).expect("start a run");
        let (run, mut driver) = started.expect("letters");
        wait_until("the run to end", SOON, || {
            let status = driver.step().expect("a step");
            !matches!(status, DriveStatus::Running(_))
        });
        runs.get(run.id).expect("ask for a run").expect("the run")
    }

    /// Returns the groups that the filter selects.
    #[track_caller]
    fn groups(&self, filter: &GroupFilter) -> Vec<FailureGroup> {
        let groups = self.letters_of().dlq().groups();
        groups.list(filter).expect("list groups")
    }

    /// Sets the state of a group.
    #[track_caller]
    fn marks(&self, group: GroupId, state: GroupState) {
        let groups = self.letters_of().dlq().groups();
        let set = groups.set_state(group, state, &maria());
        assert!(set.expect("set the state"), "no such group");
    }

    /// Returns the records that the filter selects.
    #[track_caller]
    fn audit(&self, filter: &AuditFilter) -> Vec<AuditRecord> {
        let records = self.letters_of().admin().audit(filter);
        records.expect("read the audit")
    }

    /// Returns a job, which must be live.
    #[track_caller]
    fn live(&self, id: JobId) -> LiveJob {
        let found = self.letters_of().admin().job(id).expect("ask for a job");
        found.expect("a live job")
    }

    /// Sets a rule of retention.
    #[track_caller]
    fn retains(&self, rule: &RetentionRule) {
        let retention = self.letters_of().dlq().retention();
        let set = retention.set(rule, &Operator::default());
        set.expect("set a rule");
    }

    /// Applies the rules of retention, and returns the number of letters.
    #[track_caller]
    fn tidies_up(&self) -> u64 {
        let retention = self.letters_of().dlq().retention();
        let taken = retention.apply(&Operator::default());
        taken.expect("apply the rules")
    }

    /// Captures a failure, and returns the id of its letter.
    #[track_caller]
    fn captures(&self, failure: &ForeignFailure) -> JobId {
        let captured = self.letters_of().dlq().capture(failure);
        captured.expect("capture a failure").id()
    }

    /// Captures a failure whose position is new, and returns the id of its letter.
    #[track_caller]
    fn captures_new(&self, failure: &ForeignFailure) -> JobId {
        match self.letters_of().dlq().capture(failure) {
            Ok(CaptureOutcome::New(id)) => id,
            other => panic!("{failure:?}: {other:?}"),
        }
    }

    /// Fails unless a redrive would send no letter of the filter, and leave out these.
    #[track_caller]
    fn leaves_out(&self, filter: &LetterFilter, reasons: &[(Skip, u64)]) {
        let dlq = self.letters_of().dlq();
        let preview = dlq.preview_redrive(filter, &RedriveOptions::new());
        let preview = preview.expect("preview a redrive");
        let left_out = preview.left_out.iter();
        let left_out: Vec<(Skip, u64)> = left_out.map(|one| (one.reason, one.letters)).collect();
        assert_eq!((preview.letters, &*left_out), (0, reasons));
    }

    /// Redrives letters.
    #[track_caller]
    fn redrives(&self, filter: &LetterFilter) -> Redriven {
        let (dlq, operator) = (self.letters_of().dlq(), Operator::default());
        let done = dlq.redrive(filter, &operator);
        done.unwrap_or_else(|error| panic!("{filter}: {error:?}"))
    }

    /// Redrives letters with these options, for a reason.
    #[track_caller]
    fn redrives_with(&self, filter: &LetterFilter, options: &RedriveOptions) -> Redriven {
        let dlq = self.letters_of().dlq();
        let done = dlq.redrive_with(filter, options, &maria());
        done.unwrap_or_else(|error| panic!("{filter}: {error:?}"))
    }

    /// Sets a rule of redaction.
    #[track_caller]
    fn redacts(&self, rule: &Redaction) -> RedactionId {
        let rules = self.letters_of().dlq().redactions();
        rules.add(rule, &maria()).expect("set a rule")
    }

    /// Restores a version of payloads, and returns the letters.
    #[track_caller]
    fn restores(&self, filter: &LetterFilter, version: Option<u32>) -> Vec<JobId> {
        let dlq = self.letters_of().dlq();
        let restored = dlq.restore_versions(filter, version, &maria());
        restored.expect("restore payloads").edited
    }

    /// Deletes closed letters of this age, and returns their number.
    #[track_caller]
    fn prunes(&self, age: Duration) -> u64 {
        let pruned = self.letters_of().dlq().prune(age, &maria());
        pruned.expect("prune letters")
    }

    /// Discards letters.
    #[track_caller]
    fn discards(&self, filter: &LetterFilter) -> Vec<JobId> {
        let operator = Operator::default().reason("a test");
        let done = self.letters_of().dlq().discard(filter, &operator);
        done.unwrap_or_else(|error| panic!("{filter}: {error:?}"))
            .ids
    }

    /// Edits letters.
    #[track_caller]
    fn edits(&self, filter: &LetterFilter, edit: &Edit) -> Edited {
        let (dlq, operator) = (self.letters_of().dlq(), Operator::default());
        let done = dlq.edit(filter, edit, &operator);
        done.unwrap_or_else(|error| panic!("{filter}: {error:?}"))
    }
}

impl Dead for Database {
    fn letters_of(&self) -> &Database {
        self
    }
}

impl Dead for Queue {
    fn letters_of(&self) -> &Database {
        self.database()
    }
}
