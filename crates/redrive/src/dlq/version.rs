//! The earlier payloads of an edited letter.

use std::ops::ControlFlow;
use std::time::SystemTime;

use serde_json::value::RawValue;

use crate::db::sql;
use crate::dlq::discard::Changed;
use crate::dlq::filter::LetterFilter;
use crate::dlq::handle::Dlq;
use crate::error::{Error, Result};
use crate::job::job::JobId;
use crate::job::operator::Operator;
use crate::job::payload::JsonText;

/// The letters per page of a restore.
const PAGE: u64 = 100;

/// A payload that an edit replaced, or a failure captured again for a closed letter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PayloadVersion {
    /// The number; 0 is the payload that died or was captured.
    pub version: u32,
    /// The payload.
    pub payload: Option<Box<RawValue>>,
    /// The captured bytes; the first 64 KiB if there were more than 16 MiB.
    pub raw: Option<Vec<u8>>,
    /// When the edit replaced it.
    pub edited_at: SystemTime,
    /// The database role of the editor.
    pub role: String,
    /// The operator who edited.
    pub person: Option<String>,
    /// The operator's reason.
    pub reason: Option<String>,
}

impl Dlq<'_> {
    /// Returns the earlier payloads of a letter, oldest first; empty if it was never edited
    /// or does not exist.
    ///
    /// # Errors
    /// If the database rejects the statement or does not answer.
    pub fn versions(&self, id: JobId) -> Result<Vec<PayloadVersion>> {
        let doing = format!("read the versions of letter {id}");
        self.db.call_bulk(&doing.clone(), move |session| {
            let rows = session.query(&doing, &sql::VERSIONS, &[&id.get()])?;
            let version = |row: &postgres::Row| {
                let payload: Option<JsonText> = row.get("payload");
                Ok(PayloadVersion {
                    version: row.get::<_, i32>("version").unsigned_abs(),
                    payload: payload.map(|payload| payload.raw_value()).transpose()?,
                    raw: row.get("raw"),
                    edited_at: row.get("at"),
                    role: row.get("role"),
                    person: row.get("person"),
                    reason: row.get("reason"),
                })
            };
            rows.iter().map(version).collect()
        })
    }

    ///
    /// Restores the payload before the last edit, or of the given version. Returns the new
    /// version number.
    ///
    /// A restore is an edit: undoing it twice changes nothing.
    ///
    /// # Errors
    /// If the letter or version does not exist, if the letter is neither open nor
    /// quarantined, or if the database rejects the statement or does not answer.
    pub fn restore_version(
        &self,
        id: JobId,
        version: Option<u32>,
        operator: &Operator,
    ) -> Result<u32> {
        let version = number(version)?;
        let (why, person) = (
            operator.given_reason().map(str::to_owned),
            operator.by().map(str::to_owned),
        );
        let doing = format!("restore letter {id}");
        self.db.call_bulk(&doing.clone(), move |session| {
            let parameters: [crate::db::session::Parameter<'_>; 4] =
                [&id.get(), &version, &why, &person];
            let row = session.query_one(&doing, &sql::RESTORE_LETTER, &parameters)?;
            Ok(row.get::<_, i32>("version").unsigned_abs())
        })
    }

    /// Restores the payloads of letters as [`restore_version`](Dlq::restore_version) does, and
    /// stops when `go_on` breaks.
    ///
    /// Calls `go_on` after each batch of 100 with everything restored so far. With the filter
    /// [`LetterFilter::audit`], this undoes an edit of many letters. Letters without that
    /// version, and letters that are neither open nor quarantined, do not change.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database rejects a statement
    /// or does not answer. Letters restored before the error stay restored.
    pub fn restore_versions_while(
        &self,
        filter: &LetterFilter,
        version: Option<u32>,
        operator: &Operator,
        mut go_on: impl FnMut(&Changed) -> ControlFlow<()>,
    ) -> Result<Changed> {
        const DOING: &str = "restore letters";
        filter.refuse_after()?;
        let version = number(version)?;
        let parameter = filter.parameter()?;
        let mut left = filter.limit.unwrap_or(u64::MAX);
        let mut after = JobId::new(i64::MIN);
        let mut changed = Changed::default();
        while left > 0 {
            let page = self.page_of_ids(filter, after, PAGE.min(left))?;
            let Some(last) = page.last() else { break };
            after = *last;
            left -= page.len() as u64;
            let ids: Vec<i64> = page.iter().map(|id| id.get()).collect();
            let (operator, parameter, audit) = (operator.clone(), parameter.clone(), changed.audit);
            let (restored, first) = self.db.call_bulk(DOING, move |session| {
                let rows = session.query(
                    DOING,
                    &sql::RESTORE_LETTERS,
                    &[
                        &ids,
                        &version,
                        &operator.given_reason(),
                        &operator.by(),
                        &parameter,
                        &audit,
                    ],
                )?;
                let ids: Vec<JobId> = rows.iter().map(|row| JobId::new(row.get("id"))).collect();
                Ok((ids, rows.first().map(|row| row.get("audit_id")).or(audit)))
            })?;
            changed.letters.extend(restored);
            changed.audit = first;
            if go_on(&changed).is_break() {
                break;
            }
        }
        Ok(changed)
    }
}

/// Returns a version number as a statement parameter.
fn number(version: Option<u32>) -> Result<Option<i32>> {
    version
        .map(i32::try_from)
        .transpose()
        .map_err(|error| Error::invalid("the version number is out of range").caused_by(error))
}
