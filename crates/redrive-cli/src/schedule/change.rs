//! `redrive schedule pause`, `resume`, `trigger` and `remove`.

use clap::Args;
use redrive::schedule::Triggered;
use redrive::{JobId, Operator};
use serde_json::{Value, json};

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::operator;
use crate::terminal::{json_line, one_line};

/// A schedule, and the reason for the change.
#[derive(Args, Debug)]
#[group(skip)]
pub(super) struct ChangeSchedule {
    /// Name of the schedule.
    name: String,
    /// The reason, for the audit log.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

impl ChangeSchedule {
    pub(super) fn pause(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let exists = cx
            .database()?
            .schedules()
            .pause(&self.name, &self.operator())?;
        self.report(
            exists,
            "paused",
            &json!({ "id": self.name, "paused": true }),
            cx,
        )
    }

    pub(super) fn resume(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let exists = cx
            .database()?
            .schedules()
            .resume(&self.name, &self.operator())?;
        self.report(
            exists,
            "resumed",
            &json!({ "id": self.name, "paused": false }),
            cx,
        )
    }

    pub(super) fn remove(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let exists = cx
            .database()?
            .schedules()
            .remove(&self.name, &self.operator())?;
        self.report(
            exists,
            "removed",
            &json!({ "id": self.name, "removed": true }),
            cx,
        )
    }

    pub(super) fn trigger(&self, cx: &mut Context<'_>) -> Result<Ending> {
        match cx
            .database()?
            .schedules()
            .trigger(&self.name, &self.operator())?
        {
            Triggered::NotFound => self.report(false, "", &Value::Null, cx),
            Triggered::New(job) => {
                self.print_job(job, true, cx)?;
                Ok(Ending::Done)
            }
            Triggered::Live(job) => {
                self.print_job(job, false, cx)?;
                cx.say(format!(
                    "nothing was enqueued: job {job} of this schedule is still live"
                ));
                Ok(Ending::NothingMatched)
            }
        }
    }

    fn print_job(&self, job: JobId, is_new: bool, cx: &mut Context<'_>) -> Result<()> {
        if cx.global.json {
            let line = json!({ "id": self.name, "job": job.get(), "stored": is_new });
            return json_line(cx.out, &line);
        }
        writeln!(cx.out, "{job}")?;
        Ok(())
    }

    fn operator(&self) -> Operator {
        operator::current(self.reason.as_deref())
    }

    fn report(
        &self,
        exists: bool,
        state: &str,
        json: &Value,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let name = one_line(&self.name);
        if !exists {
            cx.say(format!("schedule `{name}` does not exist"));
            return Ok(Ending::NothingMatched);
        }
        if cx.global.json {
            json_line(cx.out, json)?;
        } else {
            writeln!(cx.out, "schedule `{name}` is {state}")?;
        }
        Ok(Ending::Done)
    }
}
