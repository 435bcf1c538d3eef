//! `redrive migrate`: the database schema.

mod scripts;

use self::scripts::ScriptArgs;
use super::findings::report;
use crate::prelude::*;

const UP_TO_DATE: &str = "the schema is up to date";

/// Create the schema `redrive`, or update it to the version of this program
///
/// Several processes may migrate at the same time. Migrations cannot be undone.
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive migrate
  redrive migrate --check || echo 'run the migrations first'
  redrive migrate --print > redrive.sql
  redrive migrate --print --no-transaction --split migrations
")]
pub(crate) struct Migrate {
    /// Change nothing; exit with 1 if migrations are missing, or if an object of the schema is missing, disabled, changed or belongs to another role. Needs the privilege CREATE on the database, to create a second schema to compare with and roll it back.
    #[arg(long, conflicts_with = "print")]
    check: bool,
    #[command(flatten)]
    scripts: ScriptArgs,
}

impl Migrate {
    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        if self.scripts.print {
            return self.scripts.run(cx);
        }
        let db = cx.unchecked_database()?;
        if self.check {
            return check(&db, cx);
        }
        let applied = db.migrate()?;
        for one in &applied {
            cx.print(&json!({ "applied": one }), format!("applied {one}"))?;
        }
        if applied.is_empty() {
            cx.say(UP_TO_DATE);
        }
        let drifts = db.admin().schema_drift();
        // The migrations are applied, whether or not this role may compare.
        for drift in drifts.unwrap_or_else(|error| vec![one_line(&error.to_string())]) {
            cx.say(format!("warning: {drift}"));
        }
        warn_about_durability(&db, cx);
        Ok(Ending::Done)
    }
}

fn check(db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
    let wrong = match db.check_schema() {
        Err(error) if error.is_migration_required() => {
            let to_act = format!("to act: {Me} migrate");
            return report("migration", &[error.to_string()], &to_act, cx);
        }
        checked => checked.err(),
    };
    let drifts = match (db.admin().schema_drift(), wrong) {
        (Ok(drifts), None) => drifts,
        // What hides rows or disables triggers may be a change of the schema.
        (Ok(drifts), Some(_)) if !drifts.is_empty() => drifts,
        (_, Some(error)) | (Err(error), None) => return Err(error.into()),
    };
    warn_about_durability(db, cx);
    if drifts.is_empty() {
        cx.say(UP_TO_DATE);
        return Ok(Ending::Done);
    }
    let to_act = format!(
        "the migrations are applied, but the schema was changed afterwards; \
         `{Me} migrate --print` has the definitions"
    );
    report("schema", &drifts, &to_act, cx)
}

/// Warns if the server may lose committed data. An error here does not affect the schema.
fn warn_about_durability(db: &Database, cx: &mut Context<'_>) {
    for warning in db.admin().durability_warnings().into_iter().flatten() {
        cx.say(format!("warning: {}", one_line(&warning)));
    }
}
