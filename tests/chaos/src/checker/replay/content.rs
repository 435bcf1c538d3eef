//! Checks that a job keeps what it carries.

use super::{Replay, is_by_worker};
use crate::checker::Rule;
use crate::checker::job_history::ClientChange;
use crate::db_trace::{Change, Place, RowChange};
use crate::facts::{Fact, Facts};

impl<'a> Replay<'a, '_> {
    /// Checks a change of content in the place where the job is.
    pub(super) fn edited(&mut self, change: &'a RowChange) {
        let (at, by) = (change.at, change.process.clone());
        let is_letter = change.place == Place::Letter;
        let expected = match is_letter {
            true => self.now.letter_content,
            false => self.now.content,
        };
        let (Some(before), Some(after)) = (expected, change.facts.as_deref()) else {
            return self.violation(Rule::Content, at, "its content cannot be read");
        };
        for fact in before.differences(after) {
            match (change.place, fact) {
                (Place::Letter, Fact::Payload) => self.by_client(ClientChange::Edited, change),
                // It is recorded already.
                (Place::Delayed, Fact::Payload | Fact::Priority) => {}
                (Place::Leased, Fact::Headers) => {
                    if let Some(span) = self.history.leases.last_mut() {
                        span.stored.push((at, after.checkpoint()));
                    }
                }
                _ => {
                    let text = format!("{by} changed its {fact:?} in {:?}", change.place);
                    self.violation(Rule::Content, at, text);
                }
            }
        }
        match is_letter {
            true => self.now.letter_content = Some(after),
            false => self.now.content = Some(after),
        }
    }

    /// Checks the content of a job or letter that entered a place.
    pub(super) fn carried(
        &mut self,
        left: Option<&RowChange>,
        entered: Option<&'a RowChange>,
        letter: Option<&'a RowChange>,
    ) {
        let kept = letter.filter(|letter| letter.change != Change::Out);
        for row in entered.iter().chain(&kept) {
            if row.facts.is_none() {
                return self.violation(Rule::Content, row.at, "its content cannot be read");
            }
        }
        let live = entered.and_then(|row| Some((row, row.facts.as_deref()?)));
        let kept = kept.and_then(|row| Some((row, row.facts.as_deref()?)));
        match (left, live, kept) {
            (Some(left), Some((row, after)), _) => self.moved(left, row, after),
            (None, Some((row, after)), Some((_, letter))) => {
                self.compare(Some(letter), after, row.at, "a redrive");
            }
            (Some(_), None, Some((row, after))) if row.is_open_letter() => {
                self.compare(self.now.content, after, row.at, "its death");
            }
            _ => {}
        }
        if left.is_some() || live.is_some() {
            self.now.content = live.map(|(_, facts)| facts);
        }
        if letter.is_some() {
            self.now.letter_content = kept.map(|(_, facts)| facts);
        }
    }

    /// Reports what differs.
    fn compare(&mut self, before: Option<&Facts>, after: &Facts, at: i64, what: &str) {
        let Some(before) = before else { return };
        let differences = before.differences(after);
        for fact in &differences {
            self.violation(Rule::Content, at, format!("{what} changed its {fact:?}"));
        }
        if before.payload != after.payload && !differences.contains(&Fact::Payload) {
            self.violation(Rule::Content, at, format!("{what} rewrote its payload"));
        }
    }

    /// Checks a job that moved from one place to another one.
    fn moved(&mut self, left: &RowChange, row: &RowChange, after: &Facts) {
        let what = format!("a move from {:?} to {:?}", left.place, row.place);
        let altered = self.altered(left, row, after);
        let raised = self.raised(left, row, after);
        let before = altered.as_ref().or(raised.as_ref());
        let before = before.or(self.now.content);
        self.compare(before, after, row.at, &what);
    }

    /// Returns what a ready job must carry if a worker raised its priority, because it had waited for long.
    fn raised(&self, left: &RowChange, row: &RowChange, after: &Facts) -> Option<Facts> {
        let before = self.now.content?;
        let is_raised = (left.place, row.place) == (Place::Ready, Place::Ready)
            && is_by_worker(row)
            && before.priority < after.priority;
        is_raised.then(|| Facts {
            priority: after.priority,
            headers: after.headers.clone(),
            ..before.clone()
        })
    }
}
