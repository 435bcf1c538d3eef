//! Dead letters: jobs that failed for good, with their payload, error and history.

use std::time::SystemTime;

use serde_json::value::RawValue;
use uuid::Uuid;

use crate::db::column::Given;
use crate::dlq::event::LetterEvent;
use crate::dlq::history::AttemptRecord;
use crate::dlq::prelude::*;
use crate::pipeline::held_group::HeldGroup;

row! {
    /// A dead letter.
    pub struct Letter {
        /// The id of the letter, which is also the id of its job.
        pub id: JobId,
        /// The queue of the job.
        pub queue: String,
        /// The kind of the job.
        pub kind: String,
        /// The state.
        pub state: LetterState,
        /// The cause of the last death.
        pub cause: DeathCause,
        /// The class of the last error: a type name, or the class that the handler set.
        pub error_class: String,
        /// The message of the last error.
        pub error_message: String,
        /// The source chain and backtrace of the last error, truncated in the middle. A long
        /// detail is stored once per failure group.
        pub error_detail: Option<String>,
        /// Whether other letters of the group share the detail.
        pub detail_is_shared: bool => |row| column::<Option<i64>>(row, "detail_id").map(|id| id.is_some()),
        /// The failure group.
        pub group: GroupId => |row| column(row, "group_id"),
        /// The payload as it came; `None` for captured bytes that are not JSON or exceed 16 MiB.
        pub payload: Option<Box<RawValue>>,
        /// The bytes of a captured failure; the first 64 KiB if there are more than 16 MiB.
        pub raw: Option<Vec<u8>>,
        /// The number of captured bytes if there are more than 16 MiB; `None`: [`raw`](Letter::raw) has all.
        /// [`Dlq::captured_bytes`] returns them.
        pub raw_size: Option<u64>,
        /// The content type of the bytes.
        pub content_type: Option<String>,
        /// The headers of the job or the captured failure: a JSON object.
        pub headers: Option<Box<RawValue>>,
        /// The group key of the job or the captured failure.
        pub group_key: Option<String>,
        /// The [key](crate::Failure::failure_key) that the handler gave to the failure group.
        pub failure_key: Option<String>,
        /// The unique key of the job, which a redrive claims again.
        pub unique_key: Option<String>,
        /// Where a captured failure came from.
        pub source: Option<String>,
        /// The position in the source.
        pub position: Option<String>,
        /// How many times the position was captured, except while the letter was redriving.
        pub seen: u64,
        /// The priority.
        pub priority: i16,
        /// The attempts of the last generation.
        pub attempts: u32,
        /// The attempts of all earlier generations.
        pub earlier_attempts: u32,
        /// The attempt budget of each generation.
        pub max_attempts: u32,
        /// The workers that were lost while they ran the job, in the last generation.
        pub crashes: u32,
        /// How many times the job had been redriven when it last died.
        pub generation: u32,
        /// The number of deaths.
        pub deaths: u32,
        /// Consecutive deaths of the same failure after an operator's redrive.
        pub alike: u32,
        /// The deaths after an operator's redrive, of any error, since the letter last recovered.
        pub failed_redrives: u32,
        /// The number of payload edits.
        pub edits: u32,
        /// The oldest and the newest attempts over all generations.
        pub history: Vec<AttemptRecord>,
        /// The oldest and the newest events.
        pub events: Vec<LetterEvent>,
        /// The run that last redrove the letter.
        pub run: Option<RunId> => |row| column(row, "run_id"),
        /// The name of the policy that last redrove the letter. `None` also if the policy is gone.
        pub policy: Option<String>,
        /// The worker that ran the last attempt.
        pub worker: Option<Uuid> => |row| column(row, "worker_id"),
        /// The worker's host.
        pub host: Option<String>,
        /// The version of the worker's program.
        pub version: Option<String>,
        /// The worker's process id.
        pub pid: Option<u32>,
        /// The JSON pointers of payload values that were redacted and that no edit has replaced. The
        /// empty pointer means the captured bytes.
        pub redacted: Vec<String>,
        /// The audit record of the operation that was the last to discard, reopen, restore or edit the
        /// letter since its last death.
        pub audit: Option<i64> => |row| column(row, "audit_id"),
        /// The operator's reason for discarding the letter.
        pub discard_reason: Option<String>,
        /// Until when a consumer of `dlq_events` has claimed the letter. No redrive or discard takes it.
        pub claimed_until: Option<SystemTime>,
        /// When the job was first enqueued.
        pub enqueued_at: SystemTime,
        /// When it last died.
        pub died_at: SystemTime,
        /// When its state last changed.
        pub changed_at: SystemTime,
        /// When retention moved the letter to the archive; `None`: it is not there.
        pub archived_at: Option<SystemTime>,
    }
}

impl Dlq<'_> {
    /// Returns matching letters, newest death first. The limit defaults to 50.
    ///
    /// A filter without a state matches letters of all states, recovered ones too; the command line adds
    /// `state=open`.
    ///
    /// # Errors
    /// If the database fails.
    pub fn list(&self, filter: &LetterFilter) -> Result<Vec<Letter>> {
        self.listed(filter, false)
    }

    /// Returns matching letters, oldest death first: the order in which a discard takes them. Otherwise as
    /// [`list`](Dlq::list).
    ///
    /// # Errors
    /// If the database fails.
    pub fn oldest(&self, filter: &LetterFilter) -> Result<Vec<Letter>> {
        self.listed(filter, true)
    }

    fn listed(self, filter: &LetterFilter, oldest: bool) -> Result<Vec<Letter>> {
        let (asked, of) = (filter.parameter()?, &filter.is_archived);
        let given: [&dyn Given; 5] = [&asked, &filter.after, &filter.most(), of, &oldest];
        self.db
            .ask_bulk()
            .all("list letters", &sql::LETTERS, &given)
    }

    /// Counts matching letters, without their payloads and ignoring the limit.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database fails.
    pub fn count(&self, filter: &LetterFilter) -> Result<u64> {
        let ask = self.db.ask_bulk();
        ask.one(
            "count letters",
            &sql::COUNT_LETTERS,
            &[&filter.whole()?, &filter.is_archived],
        )
    }

    /// Returns one letter.
    ///
    /// # Errors
    /// If the database fails.
    pub fn get(&self, id: JobId) -> Result<Option<Letter>> {
        Ok(self.list(&LetterFilter::new().ids([id]))?.pop())
    }

    /// Returns the group of jobs that a letter holds, with the number of jobs that wait behind it.
    /// Returns `None` if it holds none.
    ///
    /// # Errors
    /// If the database fails.
    pub fn held_group(&self, letter: JobId) -> Result<Option<HeldGroup>> {
        let doing = format!("find the group that letter {letter} holds");
        let any: Option<String> = None;
        let ask = self.db.ask();
        let held = ask.all(&doing, &sql::HELD_GROUPS, &[&any, &letter, &1_i64]);
        Ok(held?.pop())
    }
}
