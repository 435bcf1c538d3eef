//! `redrive schedule pause`, `resume`, `trigger` and `remove`.

use redrive::Operator;
use redrive::schedule::{Schedules, Triggered};

use super::list::no_schedule;
use crate::prelude::*;

/// A schedule, and the reason for the change.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct ChangeSchedule {
    /// Name of the schedule.
    name: String,
    #[command(flatten)]
    reason: Reason,
}

/// A call that changes a schedule, and tells whether it exists.
type Change = fn(&Schedules<'_>, &str, &Operator) -> redrive::Result<bool>;

impl ChangeSchedule {
    /// Makes a change, of which `member` and `value` tell as JSON.
    pub(super) fn run(
        &self,
        change: Change,
        state: &str,
        (member, value): (&str, bool),
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let db = cx.database()?;
        match change(&db.schedules(), &self.name, &self.reason.operator())? {
            true => cx.print(
                &json!({ "id": self.name, member: value }),
                format!("schedule `{}` is {state}", one_line(&self.name)),
            ),
            false => no_schedule(&self.name, cx),
        }
    }

    pub(super) fn trigger(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let (job, is_new) = match db
            .schedules()
            .trigger(&self.name, &self.reason.operator())?
        {
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
}
