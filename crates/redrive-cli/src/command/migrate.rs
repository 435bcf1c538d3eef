//! `redrive migrate`: the schema.

use clap::Args;
use redrive::Database;
use serde_json::json;

use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::error::Result;
use crate::render::{json_line, one_line};
use crate::{Ending, Streams};

/// Create the schema `redrive`, or bring it up to this version.
///
/// Any number of processes may do it at once. Migrations only go forward.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  redrive migrate
  redrive migrate --check || echo 'run the migrations first'
  redrive migrate --print > redrive.sql")]
pub(crate) struct Migrate {
    /// Change nothing; exit with 1 when migrations are missing.
    #[arg(long, conflicts_with = "print")]
    check: bool,
    /// Print all the SQL, to be applied by a tool of yours; needs no database.
    #[arg(long)]
    print: bool,
}

impl Migrate {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        if self.print {
            io.out.write_all(redrive::migrate::print().as_bytes())?;
            return Ok(Ending::Done);
        }
        let db = connect::database(arguments, Patience::Minute, io)?;
        if self.check {
            return match db.check_schema() {
                Ok(()) => {
                    warn(&db, io);
                    say(
                        arguments,
                        io,
                        &json!({ "up_to_date": true }),
                        "the schema is up to date",
                    )?;
                    Ok(Ending::Done)
                }
                Err(error) if error.is_migration_required() => {
                    say(
                        arguments,
                        io,
                        &json!({ "up_to_date": false }),
                        &error.to_string(),
                    )?;
                    Ok(Ending::NothingMatched)
                }
                Err(error) => Err(error.into()),
            };
        }
        let applied = db.migrate()?;
        for migration in &applied {
            let object = json!({ "version": migration.version, "applied": migration.name });
            say(
                arguments,
                io,
                &object,
                &format!("applied {}", migration.name),
            )?;
        }
        if applied.is_empty() && !arguments.json {
            writeln!(io.out, "the schema is up to date")?;
        }
        warn(&db, io);
        Ok(Ending::Done)
    }
}

/// Says why the server may lose what it has committed. The schema is what it is, whatever the answer.
fn warn(db: &Database, io: &mut Streams<'_>) {
    for lapse in db.lapses().into_iter().flatten() {
        io.say(format!("warning: {}", one_line(&lapse.to_string())));
    }
}

fn say(
    arguments: &Arguments,
    io: &mut Streams<'_>,
    object: &serde_json::Value,
    text: &str,
) -> Result<()> {
    if arguments.json {
        return json_line(io.out, object);
    }
    Ok(writeln!(io.out, "{text}")?)
}
