//! The dry run of an edit: the differences that it would make.

use redrive::dlq::EditPreview;

use crate::bulk::Found;
use crate::prelude::*;
use crate::stop::StopSignal;
use crate::terminal::{Style, diff};

/// How many letters or jobs are shown with their differences.
const SHOWN: u64 = 5;
/// How many of those that cannot be edited are listed.
const MAX_NAMED: u64 = 5;

/// Shows and counts what an edit would change, until a signal arrives.
pub(crate) struct Preview {
    /// `letter` or `job`.
    noun: &'static str,
    stop: StopSignal,
    changed: u64,
    unchanged: u64,
    invalid: u64,
}

impl Preview {
    pub(crate) fn of(noun: &'static str) -> Result<Preview> {
        Ok(Preview {
            noun,
            stop: StopSignal::listen()?,
            changed: 0,
            unchanged: 0,
            invalid: 0,
        })
    }

    /// Shows the effect on one letter or job.
    pub(crate) fn add(&mut self, preview: &EditPreview, cx: &mut Context<'_>) -> Result<()> {
        self.stop.go_on()?;
        match &preview.after {
            Ok(Some(after)) => {
                self.changed += 1;
                if cx.global.json {
                    // Verbatim: a `Value` rounds numbers, and cannot hold each one.
                    json_line(cx.out, &object!(preview => id, before, after = after))?;
                } else if self.changed <= SHOWN {
                    show(self.noun, preview, after.get(), cx)?;
                }
            }
            Err(error) => {
                self.invalid += 1;
                if cx.global.json {
                    json_line(cx.out, &json!({ "id": preview.id.get(), "invalid": error }))?;
                } else if self.invalid <= MAX_NAMED {
                    cx.say(format!(
                        "{} {} cannot be edited: {error}",
                        self.noun, preview.id
                    ));
                }
            }
            Ok(None) => self.unchanged += 1,
        }
        Ok(())
    }

    /// What the edit would change of all that matches, and whether it could change each that the limit allows.
    pub(crate) fn found(self, all: Found, cx: &mut Context<'_>) -> Result<(Found, Ending)> {
        if !cx.global.json && self.changed > SHOWN {
            writeln!(cx.out, "... and {} more.\n", grouped(self.changed - SHOWN))?;
        }
        let (unchanged, invalid) = (self.unchanged, self.invalid);
        let found = Found {
            affected: self.changed,
            note: format!(
                ", {} would not change, {} cannot be edited",
                grouped(unchanged),
                grouped(invalid)
            ),
            more: vec![("unchanged", unchanged.into()), ("invalid", invalid.into())],
            ..all
        };
        Ok((found, Ending::of(invalid == 0)))
    }
}

/// Shows the differences of one letter or job.
fn show(noun: &str, preview: &EditPreview, after: &str, cx: &mut Context<'_>) -> Result<()> {
    let style = Style::of_stdout();
    let heading = format!("{noun} {}:", preview.id);
    writeln!(cx.out, "{}", style.heading(&heading))?;
    match &preview.before {
        Some(before) => diff(cx.out, style, before.get(), after)?,
        None => {
            for line in pretty(after).lines() {
                writeln!(cx.out, "{}", style.added(&format!("  + {line}")))?;
            }
        }
    }
    Ok(writeln!(cx.out)?)
}
