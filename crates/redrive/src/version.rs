//! Versions: what a letter held before it was edited.

use std::time::SystemTime;

use serde_json::value::RawValue;

use crate::act::Act;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::job::JobId;
use crate::payload::JsonText;
use crate::sql;

/// What a letter held until an edit took its place.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Version {
    /// Its number: 0 is what died or was captured.
    pub version: u32,
    /// The payload it had.
    pub payload: Option<Box<RawValue>>,
    /// The captured bytes it had.
    pub raw: Option<Vec<u8>>,
    /// When the edit took its place.
    pub edited_at: SystemTime,
    /// The database role that edited.
    pub role: String,
    /// Who edited, as the program said.
    pub person: Option<String>,
    /// Why.
    pub why: Option<String>,
}

impl Database {
    /// What a letter held before each of its edits, the oldest first. What it holds now is in the
    /// letter. Empty when it was never edited, and when there is no such letter.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn versions(&self, id: JobId) -> Result<Vec<Version>> {
        let doing = format!("read the versions of letter {id}");
        self.call_bulk(&doing.clone(), move |session| {
            let rows = session.query(&doing, &sql::VERSIONS, &[&id.get()])?;
            let version = |row: &postgres::Row| {
                let payload: Option<JsonText> = row.get("payload");
                Ok(Version {
                    version: row.get::<_, i32>("version").unsigned_abs(),
                    payload: payload.map(|payload| payload.raw_value()).transpose()?,
                    raw: row.get("raw"),
                    edited_at: row.get("at"),
                    role: row.get("role"),
                    person: row.get("person"),
                    why: row.get("why"),
                })
            };
            rows.iter().map(version).collect()
        })
    }

    /// Gives a letter back what it held before its last edit, or as of a version. That is an edit
    /// too, and is kept as one: undone twice, it is as it was. Answers its version.
    ///
    /// # Errors
    /// When there is no such letter or version; when the letter is neither open nor quarantined;
    /// when the database refuses or does not answer.
    pub fn restore_version(&self, id: JobId, version: Option<u32>, act: &Act) -> Result<u32> {
        let version = version.map(i32::try_from).transpose().map_err(|error| {
            Error::invalid("there is no version of that number").caused_by(error)
        })?;
        let (why, person) = (act.reason().map(str::to_owned), act.by().map(str::to_owned));
        let doing = format!("restore letter {id}");
        self.call_bulk(&doing.clone(), move |session| {
            let parameters: [crate::session::Parameter<'_>; 4] =
                [&id.get(), &version, &why, &person];
            let row = session.query_one(&doing, &sql::RESTORE_LETTER, &parameters)?;
            Ok(row.get::<_, i32>("version").unsigned_abs())
        })
    }
}
