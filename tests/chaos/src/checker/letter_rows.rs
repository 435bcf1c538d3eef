//! Replays the rows of letters and of the archive: how a letter changes, what it counts, and when it may be removed.

mod act;
mod removal;

use std::collections::HashSet;

use crate::checker::requests::{Call, Calls};
use crate::checker::{Findings, Rule, Run};
use crate::db_trace::{Change, LetterRow, LetterTable};
use crate::history::Operation;

use act::Act;

/// The most redrives of an operator after which a letter dies of the same error, and of any error, before it is
/// quarantined.
const ALIKE: i32 = 3;
const FAILED: i32 = 10;

pub(super) fn check(run: &Run<'_>, findings: &mut Findings) {
    let (records, calls) = (run.records, &run.calls);
    let mut acts = HashSet::new();
    for rows in records
        .letters
        .chunk_by(|one, other| one.letter == other.letter)
    {
        let mut letter = Letter {
            row: None,
            archived: None,
            was_quarantined: false,
            acts: &mut acts,
            calls,
            findings,
        };
        for transaction in rows.chunk_by(|one, other| one.tx == other.tx) {
            letter.transaction(transaction);
        }
    }
    for operation in [
        Operation::Discard,
        Operation::Reopen,
        Operation::Edit,
        Operation::Restore,
    ] {
        let has_effect = |call: &Call<'_>, id: i64| acts.contains(&(operation, call.process, id));
        let what = "got it as changed, but did not change it";
        let demanded = (operation, Rule::Unpredicted, what);
        run.check_answers(demanded, has_effect, findings);
    }
}

/// A letter between two transactions.
struct Letter<'a, 'f> {
    /// Its row in the table of letters, and that in the archive.
    row: Option<&'a LetterRow>,
    archived: Option<&'a LetterRow>,
    /// Whether it was quarantined before it was discarded.
    was_quarantined: bool,
    /// The operations whose answers tell the letter, and the processes that made them.
    acts: &'f mut HashSet<(Operation, &'a str, i64)>,
    calls: &'a Calls<'a>,
    findings: &'f mut Findings,
}

impl<'a> Letter<'a, '_> {
    fn violation(&mut self, rule: Rule, row: &LetterRow, what: impl Into<String>) {
        self.findings.add(rule, row.letter, row.at, what);
    }

    fn acted(&mut self, operation: Operation, row: &'a LetterRow) {
        self.acts.insert((operation, &*row.process, row.letter));
    }

    fn transaction(&mut self, rows: &'a [LetterRow]) {
        let before = self.archived;
        let mut removed = None;
        for row in rows {
            match (row.table, row.change) {
                (LetterTable::Archive, Change::In) => self.archived = Some(row),
                (LetterTable::Archive, Change::Out) => self.archived = None,
                (LetterTable::Archive, _) => {
                    self.violation(Rule::Unpredicted, row, "its row in the archive changed");
                }
                (LetterTable::Letters, Change::In) => {
                    self.enters(row, before);
                    self.row = Some(row);
                }
                (LetterTable::Letters, Change::Out) => {
                    removed = self.row.take().map(|old| (old, row));
                }
                (LetterTable::Letters, _) => {
                    self.changes(row);
                    self.row = Some(row);
                }
            }
        }
        let last = &rows[rows.len() - 1];
        let entered = self.archived.filter(|_| before.is_none());
        if let Some((old, gone)) = removed {
            self.removed(old, gone, entered);
        } else if let Some(entered) = entered {
            self.violation(
                Rule::Retention,
                entered,
                "it entered the archive from nowhere",
            );
        }
        if self.row.is_some() && self.archived.is_some() {
            self.violation(Rule::Retention, last, "it is a letter and in the archive");
        }
        if before.is_some() && self.archived.is_none() && self.row.is_none() {
            self.deleted_from_archive(last);
        }
    }

    /// Checks a new row: of a job that died, or from the archive.
    fn enters(&mut self, row: &'a LetterRow, archived: Option<&LetterRow>) {
        let counts = row.counts;
        if let Some(archived) = archived {
            self.acted(Operation::Restore, row);
            if archived.content != row.content {
                self.violation(Rule::Retention, row, "its restored row has another content");
            }
            let expected = match self.was_quarantined || *archived.state == *"quarantined" {
                true => "quarantined",
                false => "open",
            };
            if *row.state != *expected {
                let text = format!("it was restored as {} instead of {expected}", row.state);
                self.violation(Rule::LetterCounts, row, text);
            }
            self.was_quarantined = false;
            return;
        }
        let fresh = [counts.earlier, counts.alike, counts.failed, counts.edits];
        if counts.deaths != 1 || fresh != [0; 4] || *row.state != *"open" {
            let text = format!("it began {} with {counts:?}", row.state);
            self.violation(Rule::LetterCounts, row, text);
        }
        self.check_error(row);
        self.check_times(row, &[row.changed_at, row.died_at]);
    }

    /// Checks an update of its row.
    fn changes(&mut self, row: &'a LetterRow) {
        let Some(before) = self.row else {
            return self.violation(Rule::Unpredicted, row, "a row changed that does not exist");
        };
        let Some(act) = Act::of(before, row) else {
            let text = format!("it changed from {} to {}", before.state, row.state);
            return self.violation(Rule::Unpredicted, row, text);
        };
        self.findings.count(format!("letter {act:?}"));
        let expected = act.counts(before, row);
        if row.counts != expected {
            let text = format!("{act:?} made {:?} of {:?}", row.counts, before.counts);
            self.violation(Rule::LetterCounts, row, text);
        }
        match act {
            Act::Died => {
                let is_due = before.policy.is_none()
                    && (row.counts.alike >= ALIKE || row.counts.failed >= FAILED)
                    && *row.cause != *"diverted";
                if is_due != (*row.state == *"quarantined") {
                    let text = format!("it died {} with {:?}", row.state, row.counts);
                    self.violation(Rule::LetterCounts, row, text);
                }
                self.check_error(row);
                self.check_times(row, &[row.died_at]);
            }
            Act::Discarded => {
                self.was_quarantined = *before.state == *"quarantined";
                self.acted(Operation::Discard, row);
            }
            Act::Reopened => {
                self.acted(Operation::Reopen, row);
                if self.was_quarantined != (*row.state == *"quarantined") {
                    let text = format!("it was reopened as {}", row.state);
                    self.violation(Rule::LetterCounts, row, text);
                }
                self.was_quarantined = false;
            }
            Act::SentBack | Act::Recovered | Act::Delivered | Act::Stayed => {}
        }
        let is_edited = act == Act::Stayed && row.counts.edits > before.counts.edits;
        if is_edited {
            self.acted(Operation::Edit, row);
        }
        if is_edited || act != Act::Stayed {
            self.check_times(row, &[row.changed_at]);
        }
    }

    /// Checks that times are those of the statement.
    fn check_times(&mut self, row: &LetterRow, times: &[i64]) {
        for time in times {
            if !(row.began..=row.at).contains(time) {
                let text = format!("its time {time} is not that of the change, at {}", row.at);
                self.violation(Rule::Unpredicted, row, text);
            }
        }
    }

    /// Checks the error of a job that died without the failure of its handler. Rule C24 compares the others with the
    /// handler log.
    fn check_error(&mut self, row: &LetterRow) {
        let expected = match &*row.cause {
            "worker_lost" => "worker_lost",
            "manual" => "cancelled",
            "diverted" => "diverted",
            "unhandled" => "unhandled",
            "expired" => "Expired",
            _ => return,
        };
        // A failure that a cancellation made the last one keeps its error.
        let is_failure = *row.cause == *"manual" && *row.class != *"cancelled";
        if *row.class != *expected && !is_failure || row.message.is_empty() {
            let text = format!("it died as {} of {}: {}", row.cause, row.class, row.message);
            self.violation(Rule::Cause, row, text);
        }
    }
}
