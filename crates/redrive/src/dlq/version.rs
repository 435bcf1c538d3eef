//! The earlier payloads of an edited letter.

use std::time::SystemTime;

use serde_json::value::RawValue;

use crate::db::sql;
use crate::dlq::handle::Dlq;
use crate::error::{Error, Result};
use crate::job::job::JobId;
use crate::job::operator::Operator;
use crate::job::payload::JsonText;

/// A payload that an edit replaced, or a failure captured again for a closed letter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PayloadVersion {
    /// The number; 0 is the payload that died or was captured.
    pub version: u32,
    /// The payload.
    pub payload: Option<Box<RawValue>>,
    /// The captured bytes.
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
        let version = version.map(i32::try_from).transpose().map_err(|error| {
            Error::invalid("the version number is out of range").caused_by(error)
        })?;
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
}
