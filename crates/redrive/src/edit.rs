//! Edit: new payloads for letters, computed from the old ones; every version is kept.
//!
//! What an edit makes of a payload is a pure function of the payload. It is written only if nobody
//! else edited the letter since it was read; otherwise it is computed again from what the other
//! one wrote. So two editors at once lose nothing of each other.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use serde_json::value::RawValue;

use crate::act::Act;
use crate::complaint::{Complaint, Complaints};
use crate::database::Database;
use crate::error::{Error, Result};
use crate::filter::Letters;
use crate::job::JobId;
use crate::number;
use crate::payload::{Json, JsonText};
use crate::session::Parameter;
use crate::sql;

/// How many letters are read and edited at a time: a page of the largest payloads still fits.
const PAGE: u64 = 100;
/// How often a letter is computed again when another editor was faster.
const ROUNDS: usize = 10;

/// What to do to payloads.
///
/// ```
/// use redrive::Edit;
///
/// # fn main() -> redrive::Result<()> {
/// // RFC 6902: what is tested must hold, or the letter stays as it is.
/// let patch = Edit::patch(r#"[
///     {"op": "test", "path": "/currency", "value": "EURO"},
///     {"op": "replace", "path": "/currency", "value": "EUR"}
/// ]"#)?;
/// // RFC 7386: these members are set, and what is null is taken out.
/// let merge = Edit::merge(r#"{"currency": "EUR", "legacy": null}"#)?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Edit(How);

#[derive(Clone, Debug)]
enum How {
    Patch(json_patch::Patch),
    Merge(Value),
    Set(Json),
}

/// What an edit makes of a payload.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Made {
    Same,
    New(Json),
}

impl Edit {
    /// A JSON Patch (RFC 6902): operations that all hold, or change nothing.
    ///
    /// # Errors
    /// *Invalid* when the text is no such patch.
    pub fn patch(json: &str) -> Result<Edit> {
        let wrong = |error| Error::invalid("the text is not a JSON Patch").caused_by(error);
        exact(json)?;
        Ok(Edit(How::Patch(serde_json::from_str(json).map_err(wrong)?)))
    }

    /// A JSON merge patch (RFC 7386): members to be set, those with null to be taken out.
    ///
    /// # Errors
    /// *Invalid* when the text is not JSON.
    pub fn merge(json: &str) -> Result<Edit> {
        let wrong = |error| Error::invalid("the merge patch is not JSON").caused_by(error);
        exact(json)?;
        Ok(Edit(How::Merge(serde_json::from_str(json).map_err(wrong)?)))
    }

    /// This payload instead of the one there is; also for captured bytes that are not JSON.
    ///
    /// # Errors
    /// *Invalid* when the text cannot be a payload.
    pub fn set(json: &str) -> Result<Edit> {
        Ok(Edit(How::Set(Json::parse(json)?)))
    }

    /// The word for it in the audit.
    fn word(&self) -> &'static str {
        match self.0 {
            How::Patch(_) => "patch",
            How::Merge(_) => "merge",
            How::Set(_) => "set",
        }
    }

    /// What it makes of a payload, or why it cannot.
    pub(crate) fn make(&self, payload: Option<&str>) -> Result<Made, String> {
        let edited = match (&self.0, payload) {
            (How::Set(json), None) => return Ok(Made::New(json.clone())),
            (_, None) => {
                return Err("it was captured and is not JSON; give it a payload".to_owned());
            }
            (How::Set(json), Some(payload)) => {
                // Numbers beyond a double compare as text; a version too many does no harm.
                let is_same = number::rounded(payload).is_none()
                    && number::rounded(json.as_str()).is_none()
                    && value(payload)? == value(json.as_str())?;
                return Ok(if is_same {
                    Made::Same
                } else {
                    Made::New(json.clone())
                });
            }
            (How::Patch(patch), Some(payload)) => {
                let mut edited = exact_value(payload)?;
                // Nothing is undone when it does not fit: what it was tried on is ours. The other way
                // panics when a document was moved into itself.
                json_patch::patch_unsafe(&mut edited, patch).map_err(|error| error.to_string())?;
                edited
            }
            (How::Merge(patch), Some(payload)) => {
                let mut edited = exact_value(payload)?;
                json_patch::merge(&mut edited, patch);
                edited
            }
        };
        if payload.is_some_and(|payload| value(payload).is_ok_and(|before| before == edited)) {
            return Ok(Made::Same);
        }
        Json::of(&edited)
            .map(Made::New)
            .map_err(|error| error.to_string())
    }
}

/// Refuses text with a number that would be rounded.
fn exact(json: &str) -> Result<()> {
    match number::rounded(json) {
        Some(number) => Err(Error::invalid(format!(
            "the number {number:.40} has more digits than an edit can carry"
        ))),
        None => Ok(()),
    }
}

fn exact_value(json: &str) -> Result<Value, String> {
    match number::rounded(json) {
        Some(number) => Err(format!(
            "its number {number:.40} has more digits than an edit can keep; give it a whole payload"
        )),
        None => value(json),
    }
}

fn value(json: &str) -> Result<Value, String> {
    serde_json::from_str(json).map_err(|error| error.to_string())
}

/// What an edit did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Edited {
    /// The letters that have a new payload.
    pub edited: Vec<JobId>,
    /// How many are what the edit would make of them.
    pub unchanged: u64,
    /// Why others stay as they are: a patch that does not fit, a result that is no payload.
    pub refused: Vec<Complaint>,
    /// Those that were redriven or closed, or that others edited again and again, meanwhile; and of
    /// the ids that were asked for, those that are neither open nor quarantined.
    pub skipped: Vec<JobId>,
}

/// What an edit would do to a letter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EditPreview {
    /// The letter.
    pub id: JobId,
    /// What it holds; `None`: captured bytes that are not JSON.
    pub before: Option<Box<RawValue>>,
    /// What it would hold.
    pub after: Previewed,
}

/// What becomes of a payload.
#[derive(Clone, Debug)]
pub enum Previewed {
    /// It would change to this.
    Changed(Box<RawValue>),
    /// It is what the edit would make of it.
    Unchanged,
    /// It would stay as it is, because of this.
    Refused(String),
}

/// A letter as the edit reads it.
struct Editable {
    id: JobId,
    payload: Option<Box<RawValue>>,
    edits: i32,
}

/// Letters and what they are to hold, in the form of the statement's parameters.
#[derive(Default)]
struct Changes {
    ids: Vec<i64>,
    payloads: Vec<Json>,
    expected: Vec<i32>,
}

impl Database {
    /// Edits the payloads of open and quarantined letters, in the order of their ids.
    ///
    /// Each keeps what it held; see [`versions`](Database::versions). Letters that the edit does not
    /// change get no version. Interrupted, what was edited is edited and the rest is not.
    ///
    /// # Errors
    /// *Invalid* with [`Letters::after`]; when the database refuses or does not answer.
    pub fn edit(&self, which: &Letters, edit: &Edit, act: &Act) -> Result<Edited> {
        let mut done = Edited::default();
        let mut refused = Complaints::default();
        let mut handled: HashSet<i64> = HashSet::new();
        self.each_editable(which, |page| -> Result<()> {
            handled.extend(page.iter().map(|letter| letter.id.get()));
            self.edit_page(which, page, edit, act, &mut done, &mut refused)?;
            refused.fold(self)
        })?;
        let asked = which.asked_ids().iter().filter(|id| !handled.contains(id));
        done.skipped.extend(asked.map(|id| JobId::new(*id)));
        done.refused = refused.into_vec();
        Ok(done)
    }

    /// Tells of each letter what an edit would do, and does nothing.
    ///
    /// # Errors
    /// What `visit` answers, which ends it; *invalid* with [`Letters::after`]; when the database
    /// refuses or does not answer.
    pub fn preview_edit<E: From<Error>>(
        &self,
        which: &Letters,
        edit: &Edit,
        mut visit: impl FnMut(&EditPreview) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each_editable(which, |page| {
            for letter in page {
                let made = edit.make(letter.payload.as_deref().map(RawValue::get));
                let after = match made {
                    Ok(Made::Same) => Previewed::Unchanged,
                    Ok(Made::New(json)) => Previewed::Changed(json.raw_value()?),
                    Err(why) => Previewed::Refused(why),
                };
                visit(&EditPreview {
                    id: letter.id,
                    before: letter.payload,
                    after,
                })?;
            }
            Ok(())
        })
    }

    fn each_editable<E: From<Error>>(
        &self,
        which: &Letters,
        mut visit: impl FnMut(Vec<Editable>) -> Result<(), E>,
    ) -> Result<(), E> {
        which.refuse_after()?;
        let mut left = which.limit.unwrap_or(u64::MAX);
        let mut after = JobId::new(i64::MIN);
        while left > 0 {
            let page = self.page_of_editable(which, after, PAGE.min(left))?;
            let Some(last) = page.last() else { break };
            after = last.id;
            left -= page.len() as u64;
            visit(page)?;
        }
        Ok(())
    }

    fn page_of_editable(&self, which: &Letters, after: JobId, most: u64) -> Result<Vec<Editable>> {
        let filter = which.filter()?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.call_bulk("read letters to edit", move |session| {
            let parameters: [Parameter<'_>; 3] = [&filter, &after.get(), &most];
            let rows = session.query("read letters to edit", &sql::PAGE_EDITABLE, &parameters)?;
            let editable = |row: &postgres::Row| {
                let payload: Option<JsonText> = row.get("payload");
                Ok(Editable {
                    id: JobId::new(row.get("id")),
                    payload: payload.map(|payload| payload.raw_value()).transpose()?,
                    edits: row.get("edits"),
                })
            };
            rows.iter().map(editable).collect()
        })
    }

    /// Edits a page; letters that another editor was faster with are read and computed again.
    fn edit_page(
        &self,
        which: &Letters,
        mut page: Vec<Editable>,
        edit: &Edit,
        act: &Act,
        done: &mut Edited,
        refused: &mut Complaints,
    ) -> Result<()> {
        for _ in 0..ROUNDS {
            let mut changes = Changes::default();
            for letter in page {
                match edit.make(letter.payload.as_deref().map(RawValue::get)) {
                    Ok(Made::Same) => done.unchanged += 1,
                    Ok(Made::New(json)) => {
                        changes.ids.push(letter.id.get());
                        changes.payloads.push(json);
                        changes.expected.push(letter.edits);
                    }
                    Err(why) => refused.add(letter.id, why),
                }
            }
            if changes.ids.is_empty() {
                return Ok(());
            }
            let asked: Vec<JobId> = changes.ids.iter().copied().map(JobId::new).collect();
            let edited = self.write_edits(which, changes, edit, act)?;
            let is_edited: HashSet<JobId> = edited.iter().copied().collect();
            done.edited.extend(edited);
            let lost: Vec<JobId> = asked
                .into_iter()
                .filter(|id| !is_edited.contains(id))
                .collect();
            if lost.is_empty() {
                return Ok(());
            }
            page = self.page_of_editable(
                &which.these(&lost),
                JobId::new(i64::MIN),
                lost.len() as u64,
            )?;
            let again: HashMap<JobId, i32> = page
                .iter()
                .map(|letter| (letter.id, letter.edits))
                .collect();
            let gone = lost.into_iter().filter(|id| !again.contains_key(id));
            done.skipped.extend(gone);
        }
        done.skipped.extend(page.iter().map(|letter| letter.id));
        Ok(())
    }

    fn write_edits(
        &self,
        which: &Letters,
        changes: Changes,
        edit: &Edit,
        act: &Act,
    ) -> Result<Vec<JobId>> {
        let filter = which.filter()?;
        let how = edit.word();
        let (why, person) = (act.reason().map(str::to_owned), act.by().map(str::to_owned));
        self.call_bulk("edit letters", move |session| {
            let parameters: [Parameter<'_>; 7] = [
                &changes.ids,
                &changes.payloads,
                &changes.expected,
                &why,
                &person,
                &filter,
                &how,
            ];
            let rows = session.query("edit letters", &sql::EDIT_LETTERS, &parameters)?;
            Ok(rows.iter().map(|row| JobId::new(row.get("id"))).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(edit: Result<Edit>, payload: Option<&str>) -> Result<String, String> {
        edit.expect("an edit").make(payload).map(|made| match made {
            Made::Same => "same".to_owned(),
            Made::New(json) => json.as_str().to_owned(),
        })
    }

    #[test]
    fn a_patch_holds_as_a_whole_or_changes_nothing() {
        let patch = || {
            Edit::patch(
                r#"[{"op":"replace","path":"/a","value":2},{"op":"test","path":"/b","value":1}]"#,
            )
        };
        assert_eq!(
            made(patch(), Some(r#"{"a":1,"b":1}"#)).as_deref(),
            Ok(r#"{"a":2,"b":1}"#)
        );
        assert_eq!(
            made(patch(), Some(r#"{"a":2,"b":1}"#)).as_deref(),
            Ok("same")
        );
        assert!(made(patch(), Some(r#"{"a":1,"b":2}"#)).is_err());
        assert!(made(patch(), Some(r#"{"b":1}"#)).is_err());
        assert!(made(patch(), None).is_err());
    }

    #[test]
    fn a_merge_sets_and_takes_out() {
        let merge = || Edit::merge(r#"{"a":{"b":null,"c":3}}"#);
        assert_eq!(
            made(merge(), Some(r#"{"a":{"b":1},"d":[]}"#)).as_deref(),
            Ok(r#"{"a":{"c":3},"d":[]}"#)
        );
        assert_eq!(
            made(merge(), Some(r#"{"a":{"c":3}}"#)).as_deref(),
            Ok("same")
        );
    }

    #[test]
    fn a_number_is_never_rounded_by_the_way() {
        let long = r#"{"a":12345678901234567890123,"b":1}"#;
        let refused = made(Edit::merge(r#"{"b":2}"#), Some(long)).expect_err("a long number");
        assert!(refused.contains("12345678901234567890123"), "{refused}");
        assert_eq!(made(Edit::set(long), Some(long)).as_deref(), Ok(long));
        assert_eq!(made(Edit::set("1.0"), Some("1.0")).as_deref(), Ok("same"));
        assert!(Edit::merge(r#"{"b":12345678901234567890123}"#).is_err());
    }

    #[test]
    fn what_is_no_payload_is_refused() {
        assert!(Edit::patch("{}").is_err_and(|error| error.is_invalid()));
        assert!(Edit::merge("{").is_err_and(|error| error.is_invalid()));
        assert!(Edit::set("\"\\u0000\"").is_err_and(|error| error.is_invalid()));
        let nul = Edit::merge(r#"{"a":"\u0000"}"#);
        assert!(made(nul, Some("{}")).is_err_and(|why| why.contains("NUL")));
        assert_eq!(made(Edit::set("[1]"), None).as_deref(), Ok("[1]"));
    }
}
