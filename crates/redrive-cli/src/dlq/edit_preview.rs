//! The dry run of an edit: the differences that it would make.

use redrive::dlq::{EditDiff, EditPreview};

use super::payload_edit::GivenEdit;
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
    pub(crate) fn of(noun: &'static str, given: &GivenEdit) -> Result<Preview> {
        let stop = StopSignal::listen()?;
        given.end_at_signal()?;
        Ok(Preview {
            noun,
            stop,
            changed: 0,
            unchanged: 0,
            invalid: 0,
        })
    }

    /// Shows the effect on one letter or job.
    pub(crate) fn add(&mut self, preview: &EditPreview, cx: &mut Context<'_>) -> Result<()> {
        self.stop.go_on()?;
        match &preview.after {
            EditDiff::Changed(after) => {
                self.changed += 1;
                if cx.global.json {
                    // Verbatim: a `Value` rounds numbers, and cannot hold each one.
                    json_line(cx.out, &object!(preview => id, before, after = after))?;
                } else if self.changed <= SHOWN {
                    show(self.noun, preview, after.get(), cx)?;
                }
            }
            EditDiff::Refused(error) => {
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
            EditDiff::Unchanged | _ => self.unchanged += 1,
        }
        Ok(())
    }

    /// Prints the counts. `none` says that nothing matches, and `to_act` has the words that make the command act.
    pub(crate) fn end(&self, none: &str, to_act: &[&str], cx: &mut Context<'_>) -> Result<Ending> {
        if self.changed + self.unchanged + self.invalid == 0 {
            cx.no_change("edit", &format!("{}s", self.noun), true)?;
            return cx.nothing(none);
        }
        if cx.global.json {
            json_line(
                cx.out,
                &json!({
                    "dry_run": true, "action": "edit", format!("{}s", self.noun): self.changed,
                    "unchanged": self.unchanged, "invalid": self.invalid,
                }),
            )?;
        } else {
            if self.changed > SHOWN {
                writeln!(cx.out, "... and {} more.\n", grouped(self.changed - SHOWN))?;
            }
            writeln!(
                cx.out,
                "{} would be edited, {} would not change, {} cannot be edited.",
                counted(self.changed, self.noun),
                grouped(self.unchanged),
                grouped(self.invalid),
            )?;
            match self.changed {
                0 => writeln!(cx.out, "Nothing was changed.")?,
                _ => _ = cx.propose(to_act)?,
            }
        }
        Ok(Ending::of(self.invalid == 0))
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
