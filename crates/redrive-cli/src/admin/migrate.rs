//! `redrive migrate`: the database schema.

use clap::Args;
use redrive::Database;
use redrive::admin::SchemaDrift;
use serde_json::json;

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::terminal::{json_line, one_line};

/// Create the schema `redrive`, or update it to the version of this program
///
/// Several processes may migrate at the same time. Migrations cannot be undone.
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive migrate
  redrive migrate --check || echo 'run the migrations first'
  redrive migrate --print > redrive.sql
")]
pub(crate) struct Migrate {
    /// Change nothing; exit with 1 if migrations are missing, or if an object of the schema is missing, disabled or changed. Needs the privilege CREATE on the database, to create a second schema to compare with and roll it back.
    #[arg(long, conflicts_with = "print")]
    check: bool,
    /// Print the SQL of all migrations, for another migration tool. Needs no database.
    #[arg(long)]
    print: bool,
}

impl Migrate {
    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        if self.print {
            let sql = redrive::migrate::print();
            writeln!(cx.out, "{}", sql.trim_end())?;
            return Ok(Ending::Done);
        }
        let db = cx.unchecked_database()?;
        if self.check {
            return check(&db, cx);
        }
        let applied = db.migrate()?;
        for one in &applied {
            print(
                &json!({ "applied": one.name }),
                &format!("applied {}", one.name),
                cx,
            )?;
        }
        if cx.global.json {
            json_line(
                cx.out,
                &json!({ "up_to_date": true, "applied": applied.len() }),
            )?;
        } else if applied.is_empty() {
            writeln!(cx.out, "the schema is up to date")?;
        }
        match db.admin().schema_drift() {
            Ok(drifts) => {
                for drift in drifts {
                    cx.say(format!("warning: {drift}"));
                }
            }
            // The migrations are applied, whether or not this role may compare.
            Err(error) => cx.say(format!("warning: {}", one_line(&error.to_string()))),
        }
        warn_about_durability(&db, cx);
        Ok(Ending::Done)
    }
}

fn check(db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
    match db.check_schema() {
        Ok(()) => {
            warn_about_durability(db, cx);
            report(&db.admin().schema_drift()?, cx)
        }
        Err(error) if error.is_migration_required() => {
            print(&json!({ "up_to_date": false }), &error.to_string(), cx)?;
            Ok(Ending::NothingMatched)
        }
        // What hides rows or disables triggers may be a change of the schema.
        Err(error) => match db.admin().schema_drift() {
            Ok(drifts) if !drifts.is_empty() => report(&drifts, cx),
            Ok(_) | Err(_) => Err(error.into()),
        },
    }
}

/// Reports the differences between the schema and the migrations.
fn report(drifts: &[SchemaDrift], cx: &mut Context<'_>) -> Result<Ending> {
    let objects: Vec<_> = drifts
        .iter()
        .map(|drift| json!({ "object": drift.object, "problem": drift.kind.as_str() }))
        .collect();
    let text = match drifts {
        [] => "the schema is up to date".to_owned(),
        _ => {
            let lines = drifts.iter().map(|drift| format!("\n  {drift}"));
            format!(
                "the migrations are applied, but the schema was changed afterwards:{}\n\
                 `redrive migrate --print` has the definitions",
                lines.collect::<String>()
            )
        }
    };
    print(&json!({ "up_to_date": true, "drift": objects }), &text, cx)?;
    Ok(match drifts {
        [] => Ending::Done,
        _ => Ending::NothingMatched,
    })
}

/// Warns if the server may lose committed data. An error here does not affect the schema.
fn warn_about_durability(db: &Database, cx: &mut Context<'_>) {
    for warning in db.admin().durability_warnings().into_iter().flatten() {
        cx.say(format!("warning: {}", one_line(&warning.to_string())));
    }
}

fn print(json: &serde_json::Value, text: &str, cx: &mut Context<'_>) -> Result<()> {
    if cx.global.json {
        return json_line(cx.out, json);
    }
    Ok(writeln!(cx.out, "{text}")?)
}
