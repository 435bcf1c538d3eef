//! `redrive prune --audit`: deletes old audit records.

use std::ops::ControlFlow;
use std::time::Duration;

use redrive::Database;
use serde_json::json;

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::operator;
use crate::stop::StopSignal;
use crate::terminal::{Progress, counted, json_line};
use crate::time::{exact, short};

/// A prune of the audit log.
pub(super) struct PruneAudit<'a> {
    pub(super) older_than: Duration,
    pub(super) reason: Option<&'a str>,
}

impl PruneAudit<'_> {
    pub(super) fn dry_run(&self, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
        let records = db.admin().count_prunable_audit(self.older_than)?;
        if cx.global.json {
            json_line(
                cx.out,
                &json!({
                    "dry_run": true,
                    "action": "prune",
                    "older_than_ms": self.older_than.as_millis(),
                    "audit_records": records,
                }),
            )?;
            return Ok(Ending::Done);
        }
        writeln!(
            cx.out,
            "{}, older than {}, would be deleted.\n\
             Nothing was changed. To act:\n  redrive prune --audit --older-than {} --yes",
            counted(records, "audit record"),
            short(self.older_than),
            exact(self.older_than),
        )?;
        Ok(Ending::Done)
    }

    /// Deletes records in batches, until a signal arrives.
    pub(super) fn prune(&self, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
        let mut stop = StopSignal::listen()?;
        let total = db.admin().count_prunable_audit(self.older_than)?;
        let progress = Progress::of("pruning the audit log", total);
        let mut course = ControlFlow::Continue(());
        let operator = operator::current(self.reason);
        let pruned = db
            .admin()
            .prune_audit(self.older_than, &operator, |so_far| {
                progress.at(so_far);
                course = stop.check();
                course
            });
        drop(progress);
        let pruned = pruned?;
        if cx.global.json {
            json_line(
                cx.out,
                &json!({ "action": "prune", "audit_records": pruned }),
            )?;
        } else {
            writeln!(cx.out, "pruned {}", counted(pruned, "audit record"))?;
        }
        if course.is_break() && pruned < total {
            cx.out.flush()?;
            cx.say("stopped; repeat the command for the other records");
            return Ok(Ending::NothingMatched);
        }
        Ok(Ending::Done)
    }
}
