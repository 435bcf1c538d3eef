//! Replays the rows of letters and of the archive: how a letter changes, and when it may be removed.

use std::collections::HashSet;

use crate::checker::requests::{Call, Calls};
use crate::checker::{Findings, Rule, Run};
use crate::clock::micros;
use crate::db_trace::{Change, LetterRow, LetterTable};
use crate::history::Operation;
use crate::role::keeping::{Afterwards, PRUNE_AGE, rule_of};

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
            acts: &mut acts,
            calls,
            findings,
        };
        for transaction in rows.chunk_by(|one, other| one.tx == other.tx) {
            letter.transaction(transaction);
        }
    }
    for operation in [Operation::Discard, Operation::Reopen, Operation::Restore] {
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
                    match before {
                        Some(_) => self.acted(Operation::Restore, row),
                        None => self.check_times(row, &[row.changed_at, row.died_at]),
                    }
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

    /// Checks an update of its row.
    fn changes(&mut self, row: &'a LetterRow) {
        let before = self.row.map_or("gone", |before| &*before.state);
        match (before, &*row.state) {
            ("redriving", "open" | "quarantined") => self.check_times(row, &[row.died_at]),
            ("open", "redriving" | "recovered") | ("redriving", "recovered") => {}
            ("open" | "quarantined", "discarded") => self.acted(Operation::Discard, row),
            ("discarded", "open" | "quarantined") => self.acted(Operation::Reopen, row),
            // It was edited, not delivered or recorded in the audit.
            ("open", "open") | ("quarantined", "quarantined") => return,
            (before, after) => {
                let text = format!("it changed from {before} to {after}");
                return self.violation(Rule::Unpredicted, row, text);
            }
        }
        self.findings.count(format!("letters {}", row.state));
        self.check_times(row, &[row.changed_at]);
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

    /// Checks a letter whose row was deleted, and perhaps archived.
    fn removed(&mut self, old: &LetterRow, gone: &LetterRow, archived: Option<&LetterRow>) {
        let (by, at) = (&*gone.process, gone.at);
        let is_closed = ["recovered", "discarded"].contains(&&*old.state);
        // A scenario may have aged the row.
        let since = match is_closed {
            true => gone.changed_at,
            false => gone.changed_at.max(gone.died_at),
        };
        let age = gone.began - since;
        let is_after = |keep| age >= micros(keep);
        let asked = |operation| self.calls.covers(by, operation, at);
        let is_lawful = match (rule_of(&old.state), archived) {
            (Some((keep, Afterwards::Archived)), Some(_)) => is_after(keep),
            (_, Some(_)) => false,
            (Some((keep, Afterwards::Deleted)), None)
                if is_after(keep) && self.applies_retention(gone) =>
            {
                true
            }
            (_, None) => {
                let is_pruned = is_closed && is_after(PRUNE_AGE) && asked(Operation::Prune);
                is_pruned || asked(Operation::Erase)
            }
        };
        if !is_lawful {
            let what = archived.map_or("deleted", |_| "archived");
            let text = format!("{by} {what} it {age} µs after it was {}", old.state);
            self.violation(Rule::Retention, gone, text);
        }
    }

    /// Whether the process applies the retention rules: a worker does so at times, an operator when it asks.
    fn applies_retention(&self, gone: &LetterRow) -> bool {
        gone.process.starts_with("worker")
            || self
                .calls
                .covers(&gone.process, Operation::Retention, gone.at)
    }

    /// Checks an archived letter that was deleted.
    fn deleted_from_archive(&mut self, last: &LetterRow) {
        let by = |operation| self.calls.covers(&last.process, operation, last.at);
        if !by(Operation::DeleteArchived) && !by(Operation::Erase) {
            let text = format!("{} deleted it from the archive", last.process);
            self.violation(Rule::Retention, last, text);
        }
    }
}
