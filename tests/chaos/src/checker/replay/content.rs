//! Checks that a job keeps what it carries, and that its history grows entry by entry.

use super::{Replay, is_by_worker};
use crate::checker::Rule;
use crate::checker::entries::{Entry, cut, entries};
use crate::checker::job_history::ClientChange;
use crate::db_trace::{Change, Place, RowChange};
use crate::facts::{Fact, Facts};

/// What a job or its letter carries at present.
#[derive(Debug, Default)]
pub(super) struct Content<'a> {
    pub(super) facts: Option<&'a Facts>,
    entries: Vec<Entry>,
}

impl<'a> Content<'a> {
    fn of(row: &'a RowChange) -> Option<Content<'a>> {
        let facts = row.facts.as_deref()?;
        let fatal = fatal_entry(row, facts);
        let mut entries = entries(facts.history.as_deref(), fatal.as_ref())?;
        entries.extend(fatal);
        Some(Content {
            facts: Some(facts),
            entries,
        })
    }
}

/// Returns the entry of the attempt that made a letter, which the letter has in columns.
fn fatal_entry(row: &RowChange, facts: &Facts) -> Option<Entry> {
    let message = facts.error.as_deref()?;
    let outcome = row.cause.as_deref().unwrap_or_default();
    Some(Entry {
        generation: i64::from(row.generation),
        attempt: i64::from(row.attempt),
        outcome: outcome.to_owned(),
        class: facts.class.as_deref().map(str::to_owned),
        message: Some(message.to_owned()),
        ended_at: facts.died_at.as_deref().map(str::to_owned),
    })
}

impl<'a> Replay<'a, '_> {
    /// Checks a change of content in the place where the job is.
    pub(super) fn edited(&mut self, change: &'a RowChange) {
        let (at, by) = (change.at, change.process.clone());
        let is_letter = change.place == Place::Letter;
        let expected = match is_letter {
            true => &self.now.letter_content,
            false => &self.now.content,
        };
        let (Some(before), Some(content)) = (expected.facts, Content::of(change)) else {
            return self.violation(Rule::Content, at, "its content cannot be read");
        };
        let entries = expected.entries.clone();
        for fact in content
            .facts
            .map_or(Vec::new(), |facts| before.differences(facts))
        {
            match (change.place, fact) {
                (Place::Letter, Fact::Payload) => self.by_client(ClientChange::Edited, change),
                // It is recorded already.
                (Place::Delayed, Fact::Payload | Fact::Priority) => {}
                (Place::Leased, Fact::Headers) => {
                    if let Some(span) = self.history.leases.last_mut() {
                        span.stored
                            .push((at, content.facts.and_then(Facts::checkpoint)));
                    }
                }
                _ => {
                    let text = format!("{by} changed its {fact:?} in {:?}", change.place);
                    self.violation(Rule::Content, at, text);
                }
            }
        }
        if entries != content.entries {
            let text = format!("{by} changed its history in {:?}", change.place);
            self.violation(Rule::History, at, text);
        }
        match is_letter {
            true => self.now.letter_content = content,
            false => self.now.content = content,
        }
    }

    /// Checks the content of a job or letter that entered a place. Returns the new entry of its
    /// history.
    pub(super) fn carried(
        &mut self,
        left: Option<&RowChange>,
        entered: Option<&'a RowChange>,
        letter: Option<&'a RowChange>,
    ) -> Option<Entry> {
        let live = entered.map(|row| (row, Content::of(row)));
        let kept = letter
            .filter(|letter| letter.change != Change::Out)
            .map(|row| (row, Content::of(row)));
        for (row, content) in live.iter().chain(&kept) {
            if content.is_none() {
                self.violation(Rule::Content, row.at, "its content cannot be read");
                return None;
            }
        }
        let live = live.and_then(|(row, content)| Some((row, content?)));
        let kept = kept.and_then(|(row, content)| Some((row, content?)));
        let entry = match (left, &live, &kept) {
            (Some(left), Some((row, content)), _) => self.moved(left, row, content),
            (None, Some((row, content)), Some((_, letter))) => {
                self.sent_back(row, content, letter);
                None
            }
            (None, Some((row, content)), None) if !content.entries.is_empty() => {
                self.violation(Rule::History, row.at, "it was enqueued with a history");
                None
            }
            (Some(left), None, Some((row, content))) if row.is_open_letter() => {
                self.buried(left, row, content)
            }
            _ => None,
        };
        if left.is_some() || live.is_some() {
            self.now.content = live.map(|(_, content)| content).unwrap_or_default();
        }
        if letter.is_some() {
            self.now.letter_content = kept.map(|(_, content)| content).unwrap_or_default();
        }
        entry
    }

    /// Reports what differs.
    fn compare(&mut self, before: Option<&Facts>, after: &Content<'_>, at: i64, what: &str) {
        let (Some(before), Some(after)) = (before, after.facts) else {
            return;
        };
        let differences = before.differences(after);
        for fact in &differences {
            self.violation(Rule::Content, at, format!("{what} changed its {fact:?}"));
        }
        if before.payload != after.payload && !differences.contains(&Fact::Payload) {
            self.violation(Rule::Content, at, format!("{what} rewrote its payload"));
        }
    }

    /// Checks a job that moved from one place to another one.
    fn moved(&mut self, left: &RowChange, row: &RowChange, content: &Content<'a>) -> Option<Entry> {
        let what = format!("a move from {:?} to {:?}", left.place, row.place);
        let altered = self.altered(left, row, content);
        let raised = self.raised(left, row, content);
        let before = altered.as_ref().or(raised.as_ref());
        let before = before.or(self.now.content.facts);
        self.compare(before, content, row.at, &what);
        self.grown(left, content, row.at, &what)
    }

    /// Returns what a ready job must carry if a worker raised its priority, because it had waited for long.
    fn raised(&self, left: &RowChange, row: &RowChange, content: &Content<'a>) -> Option<Facts> {
        let (before, after) = (self.now.content.facts?, content.facts?);
        let is_raised = (left.place, row.place) == (Place::Ready, Place::Ready)
            && is_by_worker(row)
            && before.priority < after.priority;
        is_raised.then(|| Facts {
            priority: after.priority,
            headers: after.headers.clone(),
            ..before.clone()
        })
    }

    /// Checks a letter that was sent back.
    fn sent_back(&mut self, row: &RowChange, content: &Content<'a>, letter: &Content<'a>) {
        self.compare(letter.facts, content, row.at, "a redrive");
        if !content.entries.is_empty() {
            self.violation(Rule::History, row.at, "it was redriven with a history");
        }
    }

    /// Checks a job that became a letter. The letter has the history of the earlier generations, too.
    fn buried(
        &mut self,
        left: &RowChange,
        row: &RowChange,
        content: &Content<'a>,
    ) -> Option<Entry> {
        self.compare(self.now.content.facts, content, row.at, "its death");
        let mut all = std::mem::take(&mut self.now.letter_content.entries);
        all.append(&mut self.now.content.entries);
        self.now.content.entries = cut(all);
        self.grown(left, content, row.at, "its death")
    }

    /// Checks that a history has at most one new entry, of the attempt that ended.
    fn grown(
        &mut self,
        left: &RowChange,
        after: &Content<'a>,
        at: i64,
        what: &str,
    ) -> Option<Entry> {
        let before = std::mem::take(&mut self.now.content.entries);
        let last = after.entries.last();
        if after.entries == before {
            return None;
        }
        let mut longer = before;
        longer.extend(last.cloned());
        let Some(last) = last.filter(|_| cut(longer) == after.entries) else {
            let text = format!("{what} changed earlier entries of its history");
            self.violation(Rule::History, at, text);
            return None;
        };
        let attempt = (i64::from(left.generation), i64::from(left.attempt));
        if left.place != Place::Leased {
            self.violation(
                Rule::History,
                at,
                format!("{what} added an entry to its history"),
            );
        } else if (last.generation, last.attempt) != attempt {
            let text =
                format!("{what} added {last:?} to its history, but that was another attempt");
            self.violation(Rule::History, at, text);
        }
        Some(last.clone())
    }
}
