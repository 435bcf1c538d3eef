//! Describes what a running redrive run does or waits for, in one line every 10 seconds.

use std::time::{Duration, Instant};

use redrive::dlq::runs::{RedriveRun, RunId, RunState};

use super::blocked::blocks;
use super::run_report::per_second;
use crate::prelude::*;
use crate::terminal::Progress;

/// The interval between two reports.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// The reports about a run that a command follows.
#[derive(Default)]
pub(super) struct Reports {
    reported_at: Option<Instant>,
    /// The breakers and missing workers of the last report.
    blocked_by: Vec<String>,
}

impl Reports {
    /// Looks at the run every 10 seconds. Shows what blocks its jobs beside the progress bar.
    /// Returns the line if it must be printed: off a terminal, and if something new blocks the jobs.
    pub(super) fn next(
        &mut self,
        db: &Database,
        id: RunId,
        progress: &Progress,
    ) -> redrive::Result<Option<String>> {
        if self
            .reported_at
            .is_some_and(|at| at.elapsed() < REPORT_EVERY)
        {
            return Ok(None);
        }
        let Some(run) = db.dlq().runs().get(id)? else {
            return Ok(None);
        };
        let blocked = db.dlq().runs().blocked(id)?;
        let blocks = blocks(&blocked);
        let by: Vec<String> = blocks.iter().map(|block| block.id.clone()).collect();
        let reasons: Vec<&str> = blocks.iter().map(|block| &*block.because).collect();
        let is_first = self.reported_at.is_none();
        let is_newly_blocked = !by.is_empty() && by != self.blocked_by;
        self.reported_at = Some(Instant::now());
        self.blocked_by = by;
        let line = format!("run {id}: {}", Situation::of(&run).status(&reasons));
        if self.is_blocked() {
            progress.show(&*line);
        }
        // Without a terminal there is no bar. The first report would only repeat the command.
        let is_printed = is_newly_blocked || (!is_first && !progress.is_drawn());
        Ok(is_printed.then_some(line))
    }

    /// Whether a breaker or a missing worker blocked jobs at the last report.
    pub(super) fn is_blocked(&self) -> bool {
        !self.blocked_by.is_empty()
    }
}

/// What a run waits for, apart from breakers and workers: outcomes, its rate.
pub(super) fn own_wait(run: &RedriveRun) -> Option<String> {
    Situation::of(run).own_wait()
}

/// The numbers of a run that decide what it waits for.
#[derive(Clone, Copy, Debug)]
struct Situation {
    state: RunState,
    is_driven: bool,
    rate: Option<u32>,
    stage: u32,
    stage_to: Option<u64>,
    total: u64,
    tried: u64,
    sent: u64,
    recovered: u64,
    died: u64,
    still_running: u64,
}

impl Situation {
    fn of(run: &RedriveRun) -> Situation {
        Situation {
            state: run.state,
            is_driven: run.is_driven,
            rate: per_second(run.rate),
            stage: run.stage,
            stage_to: run.stage_to,
            total: run.total,
            tried: run.tried,
            sent: run.sent,
            recovered: run.recovered,
            died: run.died(),
            still_running: run.still_running,
        }
    }

    /// Whether the run has sent a stage and awaits its outcomes.
    fn awaits_stage(&self) -> bool {
        self.stage_to.is_some_and(|to| self.tried >= to)
    }

    /// One line. `reasons` are the breakers and missing workers.
    fn status(&self, reasons: &[&str]) -> String {
        if !reasons.is_empty() {
            return format!("waiting, {}", reasons.join("; "));
        }
        let outcomes = format!(
            "{} recovered, {} died again",
            grouped(self.recovered),
            grouped(self.died)
        );
        if self.state == RunState::Running && !self.is_driven {
            return format!("waiting for a worker to drive it; {outcomes}");
        }
        if self.state != RunState::Running || self.awaits_stage() {
            return match self.own_wait() {
                Some(what) => format!("waiting for {what}, {outcomes}"),
                None => outcomes,
            };
        }
        let pace = self
            .rate
            .map(|rate| format!(" at {} per second", grouped(rate.into())));
        format!(
            "{} of {} sent{}, {outcomes}",
            grouped(self.sent),
            grouped(self.total),
            pace.unwrap_or_default()
        )
    }

    /// What the run waits for, apart from breakers and workers.
    fn own_wait(&self) -> Option<String> {
        let jobs = (self.still_running > 0).then_some(self.still_running);
        match self.state {
            RunState::Running if !self.is_driven => None,
            RunState::Running if self.awaits_stage() => {
                let stage = match self.stage {
                    0 => "the canary".to_owned(),
                    stage => format!("stage {}", stage + 1),
                };
                jobs.map(|jobs| format!("the outcomes of {stage}: {}", counted(jobs, "job")))
            }
            RunState::Running => self.rate.map(|rate| {
                format!(
                    "its rate of {} per second: {}",
                    grouped(rate.into()),
                    counted(self.total.saturating_sub(self.tried), "letter")
                )
            }),
            RunState::Finished => jobs.map(|jobs| counted(jobs, "running job")),
            RunState::Unapproved => Some("the approval of a second operator".to_owned()),
            RunState::Paused | RunState::Halted | RunState::Cancelled | _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of 1,000 at 100 per second, of which 400 were sent.
    const SENDING: Situation = Situation {
        state: RunState::Running,
        is_driven: true,
        rate: Some(100),
        stage: 0,
        stage_to: None,
        total: 1000,
        tried: 410,
        sent: 400,
        recovered: 300,
        died: 7,
        still_running: 93,
    };

    #[test]
    fn the_status_names_what_the_run_waits_for() {
        const SENT: &str = "400 of 1,000 sent at 100 per second";
        const RATE: &str = "its rate of 100 per second: 590 letters";
        let unthrottled = Situation {
            rate: None,
            ..SENDING
        };
        let undriven = Situation {
            is_driven: false,
            ..SENDING
        };
        let canary = Situation {
            stage_to: Some(410),
            ..SENDING
        };
        let second = Situation { stage: 1, ..canary };
        let idle = Situation {
            still_running: 0,
            ..canary
        };
        let state = RunState::Finished;
        let sent = Situation {
            state,
            tried: 1000,
            ..SENDING
        };
        let ended = Situation {
            still_running: 0,
            ..sent
        };
        for (situation, status, wait) in [
            (SENDING, SENT, Some(RATE)),
            (unthrottled, "400 of 1,000 sent", None),
            (
                canary,
                "waiting for the outcomes of the canary: 93 jobs",
                Some("the outcomes of the canary: 93 jobs"),
            ),
            (idle, "", None),
            (
                second,
                "waiting for the outcomes of stage 2: 93 jobs",
                Some("the outcomes of stage 2: 93 jobs"),
            ),
            (undriven, "waiting for a worker to drive it;", None),
            (sent, "waiting for 93 running jobs", Some("93 running jobs")),
            (ended, "", None),
        ] {
            let told = situation.status(&[]);
            assert!(told.starts_with(status), "{told}");
            assert!(told.ends_with("300 recovered, 7 died again"), "{told}");
            assert_eq!(situation.own_wait().as_deref(), wait);
        }
        let reasons = ["breaker queue:q is open for 13m", "no live worker"];
        let status = "waiting, breaker queue:q is open for 13m; no live worker";
        assert_eq!(SENDING.status(&reasons), status);
    }
}
