//! Drift: compares the schema with the one that the migrations create.
//!
//! The ledger of migrations shows what was applied, not what someone changed afterwards: an index
//! dropped by hand, or triggers that a restore left disabled.

use std::collections::BTreeMap;
use std::fmt;

use crate::db::admin::Admin;
use crate::db::migrate::is_newer;
use crate::db::sql;
use crate::error::Result;

/// The objects that the migrations create, one per line with its definition after a tab.
/// `cargo xtask generate` writes it.
const EXPECTED: &str = include_str!("../../migrations/objects.tsv");

const DOING: &str = "compare the schema";

/// The settings that change how the server writes a definition.
const SETTINGS: &str = "SET LOCAL quote_all_identifiers = off; SET LOCAL IntervalStyle = postgres; \
                        SET LOCAL TimeZone = 'UTC'; SET LOCAL DateStyle = 'ISO'; \
                        SET LOCAL search_path = pg_catalog, pg_temp";

/// A difference between the schema and the migrations.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// # db.migrate()?;
/// for drift in db.admin().schema_drift()? {
///     eprintln!("{drift}");
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaDrift {
    /// The object, such as `index dead_letters_by_kind` or `trigger bury on dead_letters`.
    pub object: String,
    /// The difference.
    pub kind: DriftKind,
}

/// How an object differs from the migrations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DriftKind {
    /// It does not exist.
    Missing,
    /// It is a trigger that never fires.
    Disabled,
    /// It is an index that is not used, because building it failed.
    Invalid,
    /// It has another definition.
    Changed,
}

impl DriftKind {
    /// Returns its name: `missing`, `disabled`, `invalid` or `changed`.
    pub fn as_str(self) -> &'static str {
        match self {
            DriftKind::Missing => "missing",
            DriftKind::Disabled => "disabled",
            DriftKind::Invalid => "invalid",
            DriftKind::Changed => "changed",
        }
    }
}

impl fmt::Display for DriftKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for SchemaDrift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SchemaDrift { object, kind } = self;
        match kind {
            DriftKind::Missing => write!(f, "{object} is missing"),
            DriftKind::Disabled => write!(f, "{object} is disabled"),
            DriftKind::Invalid => write!(f, "{object} is invalid"),
            DriftKind::Changed => write!(f, "{object} differs from the migrations"),
        }
    }
}

impl Admin<'_> {
    /// Returns the objects of the schema that are missing or differ from the migrations, by name.
    ///
    /// It compares columns, constraints, indexes, triggers and functions. Additional objects, storage
    /// parameters and the texts of views do not count. A schema with migrations of a newer version
    /// is not compared.
    ///
    /// # Errors
    /// If the database does not answer.
    pub fn schema_drift(&self) -> Result<Vec<SchemaDrift>> {
        self.db.call(DOING, |session| {
            if is_newer(session)? {
                return Ok(Vec::new());
            }
            session.begin(DOING, SETTINGS)?;
            let rows = session.query(DOING, &sql::SCHEMA_OBJECTS, &[]);
            let rows = session.end(DOING, rows)?;
            let found = rows
                .iter()
                .map(|row| (row.get("object"), row.get("definition")))
                .collect();
            Ok(compare(&lines(EXPECTED), &found))
        })
    }
}

/// Objects and their definitions.
type Objects<'a> = BTreeMap<&'a str, &'a str>;

fn lines(text: &str) -> Objects<'_> {
    text.lines()
        .filter_map(|line| line.split_once('\t'))
        .collect()
}

/// Compares the objects. Pure.
fn compare(expected: &Objects<'_>, found: &Objects<'_>) -> Vec<SchemaDrift> {
    let differ = |(object, definition): (&&str, &&str)| {
        let kind = match found.get(object) {
            None => DriftKind::Missing,
            Some(same) if same == definition => return None,
            Some(other) if other.ends_with(" DISABLED") => DriftKind::Disabled,
            Some(other) if other.ends_with(" INVALID") => DriftKind::Invalid,
            Some(_) => DriftKind::Changed,
        };
        Some(SchemaDrift {
            object: (*object).to_owned(),
            kind,
        })
    };
    expected.iter().filter_map(differ).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_missing_disabled_invalid_or_changed() {
        let expected =
            lines("column a.b\tbigint\nindex i\tON a\ntable a\t\ntrigger t on a\tBEFORE");
        assert_eq!(compare(&expected, &expected), []);
        for (found, drift) in [
            (
                "index i\tON a\ntable a\t\ntrigger t on a\tBEFORE",
                "column a.b is missing",
            ),
            (
                "column a.b\tbigint\nindex i\tON a\ntable a\t\ntrigger t on a\tBEFORE DISABLED",
                "trigger t on a is disabled",
            ),
            (
                "column a.b\tbigint\nindex i\tON a INVALID\ntable a\t\ntrigger t on a\tBEFORE",
                "index i is invalid",
            ),
            (
                "column a.b\ttext\nindex i\tON a\nindex mine\tON a\ntable a\t\ntrigger t on a\tBEFORE",
                "column a.b differs from the migrations",
            ),
        ] {
            let drifts = compare(&expected, &lines(found));
            let texts: Vec<String> = drifts.iter().map(ToString::to_string).collect();
            assert_eq!(texts, [drift]);
        }
    }

    #[test]
    fn every_expected_object_has_a_definition() {
        let expected = lines(EXPECTED);
        assert_eq!(expected.len(), EXPECTED.lines().count());
        assert!(expected.contains_key("table dead_letters"));
    }
}
