//! Scripts: the same files as SQL for the migration tools of others.
//!
//! Such a tool runs numbered scripts in their order, each once, and stores a checksum. So a migration is a script, and
//! so are all definitions of a release together, which follow its last migration and precede the next one.

use super::{
    AS_OWNER, CREATE_LEDGER, DEFINITIONS, File, LIBRARY, LOCK, MIGRATIONS, SEAL, SETTINGS, last,
};
use crate::error::{Error, Result};

/// The distance between the numbers of two migrations, which has room for every release between them.
const STEP: i64 = 1_000_000;

/// A script for another migration tool, as [`all`] returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Script {
    /// Its number. A later script has a greater one.
    pub number: i64,
    /// Its name, such as `redrive_0002_jobs`.
    pub name: String,
    /// Its SQL, for a tool that runs it in a transaction; see [`in_transaction`].
    pub sql: String,
}

/// Returns the scripts of the whole schema in order, for a tool that runs numbered scripts once, such as refinery or sqlx.
///
/// A migration is one script. The last script has the functions, views and triggers of this release. Number, name and
/// text of a script never change once released, but the next release has another last one. So the tool must either
/// keep the files of earlier releases, as `redrive migrate --print --no-transaction --split DIR` does, or accept that
/// scripts that it ran are gone: `set_abort_missing(false)` of refinery, `set_ignore_missing(true)` of sqlx.
///
/// A script needs a transaction, leaves the settings of the session as they were, and fails without a change on a schema
/// that it does not fit. It writes the same ledger as [`Database::migrate`](crate::Database::migrate), which then
/// finds nothing to do. If programs run meanwhile, run all scripts of an upgrade in one transaction, as
/// `set_grouped(true)` of refinery does: a migration may drop what the last script defines again.
///
/// ```
/// for script in redrive::migrate::all() {
///     // For example `refinery::Migration::unapplied(&file, &script.sql)`.
///     let file = format!("V{}__{}", script.number, script.name);
///     assert!(script.sql.starts_with("-- "), "{file}");
/// }
/// ```
pub fn all() -> Vec<Script> {
    let migrations = (1..).zip(MIGRATIONS).map(|(version, migration)| {
        let body = match version {
            1 => format!("{CREATE_LEDGER};\n{}", migration.script()),
            version => follows(version - 1) + &migration.script(),
        };
        script(version, 0, migration.name, &body)
    });
    let last = last();
    let body = follows(last) + &not_newer() + &definitions();
    let name = format!("definitions_{}", LIBRARY.replace(['.', '-', '+'], "_"));
    migrations
        .chain([script(last, release(LIBRARY), &name, &body)])
        .collect()
}

/// Returns the scripts for a schema that has this migration: as [`all`], without it and those before it.
///
/// # Errors
/// *Invalid* if this version has no such migration; 0 is none.
pub fn after(migration: i32) -> Result<Vec<Script>> {
    let last = last();
    if !(0..=last).contains(&migration) {
        return Err(Error::invalid(format!(
            "there is no migration {migration}; the last one is {last}"
        )));
    }
    let is_later = |script: &Script| script.number > i64::from(migration) * STEP;
    Ok(all().into_iter().filter(is_later).collect())
}

/// Returns scripts as one text with a transaction around them, for a tool that brings none, such as psql.
pub fn in_transaction(scripts: &[Script]) -> String {
    let scripts: String = scripts.iter().map(|script| &*script.sql).collect();
    format!("BEGIN ISOLATION LEVEL READ COMMITTED;\n{scripts}COMMIT;\n")
}

/// Returns the SQL of the whole schema, for a transaction with the [settings](SETTINGS) and without the lock.
pub(crate) fn whole() -> String {
    let migrations: String = MIGRATIONS.iter().map(File::script).collect();
    format!("{CREATE_LEDGER};\n{migrations}{}", definitions())
}

impl File {
    /// Returns its SQL and its entry in the ledger.
    pub(super) fn script(&self) -> String {
        let (name, text, checksum) = (self.name, self.text, self.checksum());
        let entry = match self.version() {
            Some(version) => format!(
                "INSERT INTO redrive.migrations (version, name, checksum, breaking)\n\
                 VALUES ({version}, '{name}', '{checksum}', {});\n",
                self.is_breaking()
            ),
            None => format!(
                "INSERT INTO redrive.migrations (name, checksum, library)\n\
                 VALUES ('{name}', '{checksum}', '{LIBRARY}')\n\
                 ON CONFLICT (name) DO UPDATE SET checksum = EXCLUDED.checksum, library = EXCLUDED.library,\n    \
                 applied_at = EXCLUDED.applied_at, applied_by = EXCLUDED.applied_by;\n"
            ),
        };
        format!("\n-- {name}\n{text}\n{entry}")
    }
}

/// Returns the SQL of all definitions.
fn definitions() -> String {
    let definitions: String = DEFINITIONS.iter().map(File::script).collect();
    format!("{definitions}\n{SEAL};\n")
}

/// Returns the number of a release among those with the same last migration: 10203 for 1.2.3.
pub(super) fn release(version: &str) -> i64 {
    let numbers = version.split(['.', '-', '+']).take(3);
    numbers.fold(0, |sum, number| 100 * sum + number.parse().unwrap_or(0))
}

/// Makes a script that sets the session up and back. The tool writes its own ledger in the same transaction, so SET LOCAL
/// alone would leave it without its search path.
///
/// A released text must not change, this frame included: tools store its checksum.
fn script(migration: i32, release: i64, name: &str, body: &str) -> Script {
    let names = SETTINGS.lines().filter_map(|line| line.split(' ').nth(2));
    let names = names.chain(["role"]).collect::<Vec<&str>>().join(",");
    let sql = format!(
        "-- Without a transaction, this fails and SET LOCAL would have no effect.\n\
         LOCK TABLE pg_catalog.pg_namespace IN ACCESS SHARE MODE;\n\
         SELECT pg_catalog.set_config('redrive.session', pg_catalog.json_object_agg(\n    \
             name, pg_catalog.current_setting(name))::pg_catalog.text, true)\n\
         FROM pg_catalog.unnest(pg_catalog.string_to_array('{names}', ',')) name;\n\
         {SETTINGS};\n{LOCK};\n{AS_OWNER};\n{body}\n\
         SELECT set_config(key, value, true) FROM json_each_text(current_setting('redrive.session')::json);\n"
    );
    Script {
        number: i64::from(migration) * STEP + release,
        name: format!("redrive_{name}"),
        sql,
    }
}

/// Returns SQL that fails unless this is the last migration of the schema.
fn follows(last: i32) -> String {
    refuse_if(
        &format!("(SELECT max(m.version) FROM redrive.migrations m) IS DISTINCT FROM {last}"),
        &format!("this script follows migration {last}, which is not the last one of the schema"),
    )
}

/// Returns SQL that fails if a newer release applied its definitions.
fn not_newer() -> String {
    let numbers =
        |library| format!("string_to_array(substring({library} FROM '^[0-9.]+'), '.')::integer[]");
    let (theirs, ours) = (numbers("d.library"), numbers(&format!("'{LIBRARY}'")));
    refuse_if(
        &format!("EXISTS (SELECT FROM redrive.migrations d WHERE {theirs} > {ours})"),
        "a newer version applied its functions; run the scripts of that version",
    )
}

fn refuse_if(condition: &str, message: &str) -> String {
    format!(
        "DO $$\nBEGIN\n    IF {condition} THEN\n        \
             RAISE EXCEPTION 'redrive: {message}' USING ERRCODE = 'object_not_in_prerequisite_state';\n    \
         END IF;\nEND\n$$;\n"
    )
}

#[cfg(test)]
mod tests {
    use super::super::checksum;
    use super::*;

    #[test]
    fn the_frame_of_a_script_is_the_released_one() {
        // Other tools store checksums of released scripts.
        let migration = File {
            name: "0002_x",
            text: "-- breaking: no\nSELECT 1;\n",
        };
        let script = script(2, 0, migration.name, &(follows(1) + &migration.script()));
        assert_eq!(checksum(&script.sql), "f8e9e258d8e6b938", "{}", script.sql);
        let named = (script.number, &*script.name);
        assert_eq!(named, (2_000_000, "redrive_0002_x"));
    }

    #[test]
    fn releases_have_numbers_in_their_order_between_two_migrations() {
        for (version, migration) in (1..).zip(MIGRATIONS) {
            assert_eq!(migration.version(), Some(version));
        }
        let releases = ["0.1.0", "0.1.1", "0.2.0", "0.10.0", "1.0.0", "99.99.99"];
        let numbers = releases.map(release);
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        assert!(numbers[0] > 0 && numbers[5] < STEP, "{numbers:?}");
        assert_eq!(release("1.2.3-rc.1"), 10_203);
        let numbers: Vec<i64> = all().iter().map(|script| script.number).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
        // The numbers of refinery.
        assert!(numbers.iter().all(|number| i32::try_from(*number).is_ok()));
    }
}
