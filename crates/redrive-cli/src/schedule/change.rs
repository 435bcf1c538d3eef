//! `redrive schedule pause`, `resume`, `trigger` and `remove`.

use clap::Args;
use redrive::Operator;
use redrive::schedule::Triggered;
use serde_json::{Value, json};

use super::list::no_schedule;
use crate::context::{Context, Ending};
use crate::error::Result;
use crate::operator::Reason;
use crate::terminal::{counted, one_line};

/// A schedule, and the reason for the change.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct ChangeSchedule {
    /// Name of the schedule.
    name: String,
    #[command(flatten)]
    reason: Reason,
}

impl ChangeSchedule {
    pub(super) fn pause(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let exists = db.schedules().pause(&self.name, &self.operator())?;
        self.report(
            exists,
            "paused",
            &json!({ "id": self.name, "paused": true }),
            cx,
        )
    }

    pub(super) fn resume(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let exists = db.schedules().resume(&self.name, &self.operator())?;
        self.report(
            exists,
            "resumed",
            &json!({ "id": self.name, "paused": false }),
            cx,
        )
    }

    pub(super) fn remove(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let exists = db.schedules().remove(&self.name, &self.operator())?;
        self.report(
            exists,
            "removed",
            &json!({ "id": self.name, "removed": true }),
            cx,
        )
    }

    pub(super) fn trigger(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let (job, is_new) = match db.schedules().trigger(&self.name, &self.operator())? {
            Triggered::NotFound => return no_schedule(&self.name, cx),
            Triggered::Redriven(letters) => {
                let json = json!({ "id": self.name, "letters": letters });
                return cx.print(&json, counted(letters, "letter"));
            }
            Triggered::New(job) => (job, true),
            Triggered::Live(job) => (job, false),
        };
        cx.print(
            &json!({ "id": self.name, "job": job.get(), "stored": is_new }),
            job,
        )?;
        match is_new {
            true => Ok(Ending::Done),
            false => cx.nothing(format!(
                "nothing was enqueued: job {job} of this schedule is still live"
            )),
        }
    }

    fn operator(&self) -> Operator {
        self.reason.operator()
    }

    fn report(
        &self,
        exists: bool,
        state: &str,
        json: &Value,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        match exists {
            true => cx.print(
                json,
                format!("schedule `{}` is {state}", one_line(&self.name)),
            ),
            false => no_schedule(&self.name, cx),
        }
    }
}
