//! Schedules, pauses and rate limits of queues in the scenarios.

use std::time::Duration;

use anyhow::Result;
use redrive::schedule::{Overlap, Schedule};

use super::super::context::Context;
use super::super::workload;
use super::operator;

impl Context<'_> {
    /// Sets a schedule whose ticks can overlap, one whose ticks are skipped then, and one whose jobs die.
    pub(super) fn set_schedules(&mut self) -> Result<()> {
        for (name, every, overlap, behavior) in [
            ("heartbeat", 1, Overlap::Allow, "succeed"),
            ("digest", 1, Overlap::Skip, "succeed"),
            ("statement", 10, Overlap::Allow, "doomed"),
        ] {
            let schedule = Schedule::every(name, Duration::from_secs(every))?
                .job("mails", workload::job("mail.welcome", behavior, 1)?)
                .overlap(overlap);
            self.db.schedules().set(&schedule, &operator())?;
        }
        self.limit_mails()
    }

    /// Pauses a queue and one of its schedules. The ticks of the others meet the jobs that wait.
    pub(super) fn pause_mails(&mut self) -> Result<()> {
        self.redrive("schedule pause heartbeat --reason=x")?;
        self.redrive("queue pause mails --for=1h --reason=x")?;
        self.wait_for(1, "redrive.schedule_ticks WHERE outcome = 'overlapped'")?;
        self.pause()?;
        self.redrive("queue resume mails")?;
        self.redrive("schedule resume heartbeat")?;
        self.wait_for(1, "redrive.schedule_ticks WHERE outcome = 'missed'")?;
        self.redrive("schedule trigger heartbeat")
    }

    /// Limits the jobs of a queue and of one of its kinds, above the rate at which they arrive.
    fn limit_mails(&mut self) -> Result<()> {
        self.redrive("queue limit mails --rate=50/1s --reason=x")?;
        self.redrive("queue limit mails --kind=mail.welcome --rate=20/1s --reason=x")
    }
}
