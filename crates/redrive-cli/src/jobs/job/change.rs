//! `redrive job cancel`, `priority`, `set` and `run-now`.

use redrive::JobId;
use redrive::admin::{Cancelled, JobChange, JobCount, JobFilter, JobState, LiveJob};

use super::report::{left_out_jobs, live_jobs, live_or_say, sample};
use super::show::not_found;
use crate::batches::{Batches, SoFar, Undo};
use crate::dlq::skipped_json;
use crate::dry_run::DryRun;
use crate::left_out::{LeftOut, left_out_json, write_left_out};
use crate::prelude::*;

pub(super) const AFTER_HELP: &str = "\
Ctrl-C stops after the current batch of 500 jobs and prints how many were changed.
The exit code is 1 then, and if nothing matches or a job given by id does not change.";

/// Jobs to change.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct ChangeJobs {
    #[command(flatten)]
    selection: Bulk,
}

/// Set the priority of waiting jobs
///
/// Without --yes this is a dry run; jobs given by id change at once. Running jobs are left out.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive job priority 100 42
  redrive job priority -5 orders kind=report --yes
",
    after_help = AFTER_HELP
)]
pub(crate) struct Priority {
    /// New priority, from -1000 to 1000. Jobs with a higher priority run first.
    #[arg(allow_negative_numbers = true, value_parser = clap::value_parser!(i16).range(-1000..=1000))]
    priority: i16,
    #[command(flatten)]
    jobs: ChangeJobs,
}

impl ChangeJobs {
    pub(super) fn run(&self, change: JobChange, cx: &mut Context<'_>) -> Result<Ending> {
        Act::of(change).run(&self.selection, cx)
    }
}

impl Priority {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        self.jobs.run(JobChange::SetPriority(self.priority), cx)
    }
}

/// A change in words.
struct Act {
    change: JobChange,
    /// The subcommand.
    action: &'static str,
    participle: &'static str,
    progressive: &'static str,
    /// The states of the jobs that it changes.
    takes: &'static [JobState],
    /// Why it leaves out jobs in these states, in one word and as text.
    others: Option<(&'static str, String)>,
    undo: Undo,
}

/// The jobs that match a selection.
struct Found {
    filter: JobFilter,
    matching: u64,
    /// Those that change.
    affected: u64,
    left_out: Vec<LeftOut>,
}

impl Act {
    fn of(change: JobChange) -> Act {
        let cancel = Act {
            change,
            action: "cancel",
            participle: "cancelled",
            progressive: "cancelling",
            takes: &[JobState::Ready, JobState::Delayed],
            others: None,
            undo: Undo::OfAudit(|audit| format!("undo: redrive dlq redrive audit={audit} --yes")),
        };
        match change {
            JobChange::SetPriority(priority) => Act {
                action: "priority",
                participle: "given the priority",
                progressive: "setting the priority",
                others: Some((
                    "unchanged",
                    format!("they have priority {priority} already"),
                )),
                undo: Undo::None,
                ..cancel
            },
            JobChange::RunNow => Act {
                action: "run-now",
                participle: "made ready",
                progressive: "making ready",
                takes: &[JobState::Delayed],
                others: Some(("ready", "they are ready already".to_owned())),
                undo: Undo::None,
                ..cancel
            },
            JobChange::Cancel | _ => cancel,
        }
    }

    fn run(&self, selection: &Bulk, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        if !selection.is_dry_run() && !selection.ids().is_empty() {
            return self.change_ids(selection, cx);
        }
        let found = self.find(selection, &db)?;
        let ending = match selection.is_dry_run() {
            true => self.show(&found, selection, cx)?,
            false => self.change_matching(&found, selection, cx)?,
        };
        match found.matching {
            0 => cx.nothing(format!("no live job matches {}", found.filter)),
            _ => Ok(ending),
        }
    }

    fn find(&self, selection: &Bulk, db: &Database) -> Result<Found> {
        let (filter, jobs) = (selection.jobs()?, db.admin().jobs());
        let (count, changeable) = jobs.preview(&filter, self.change)?;
        let (_, affected) = jobs.preview(&selection.limited_jobs()?, self.change)?;
        Ok(Found {
            filter,
            matching: count.jobs(),
            affected,
            left_out: self.left_out(&count, changeable),
        })
    }

    /// Shows what would change.
    fn show(&self, found: &Found, selection: &Bulk, cx: &mut Context<'_>) -> Result<Ending> {
        let db = &cx.database()?;
        let dry_run = DryRun {
            noun: "job",
            action: self.action,
            affected: found.affected,
            matching: found.matching,
            left_out: &found.left_out,
            to_act: selection.to_act(),
        };
        let (jobs, affected) = (live_jobs(found.matching), grouped(found.affected));
        let heading = format!("{jobs}; {affected} would be {}.", self.participle);
        let sample = || Ok(sample(db.admin().jobs().list(&found.filter)?, self.takes));
        dry_run.show(&heading, sample, cx)?;
        Ok(Ending::of(found.affected > 0))
    }

    /// Changes all matching jobs in batches, until a signal arrives.
    fn change_matching(
        &self,
        found: &Found,
        selection: &Bulk,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let db = &cx.database()?;
        let batches = Batches {
            noun: "job",
            progressive: self.progressive,
            participle: self.participle,
            total: found.affected,
            undo: self.undo,
        };
        // As many as match now, so that jobs that are enqueued meanwhile cannot prolong the command.
        let filter = found.filter.clone().limit(found.affected);
        let (jobs, operator) = (db.admin().jobs(), selection.operator());
        let ended = batches.run(cx, |go_on| {
            jobs.change_while(&filter, self.change, &operator, |so_far| {
                go_on(SoFar::of(so_far.jobs.len(), so_far.audit))
            })
        })?;
        let SoFar { done, audit, .. } = ended.so_far;
        if cx.global.json || found.matching > 0 {
            cx.print(
                &json!({
                    "action": self.action, "dry_run": false, "jobs": done,
                    "skipped": left_out_json("jobs", &found.left_out), "audit": audit,
                }),
                format!("{} {}", counted(done, "job"), self.participle),
            )?;
        }
        if !cx.global.json {
            write_left_out("job", &found.left_out, cx.out)?;
        }
        ended.or_stopped(Ending::of(done > 0), cx)
    }

    /// Changes the jobs given by id, and explains why others did not change.
    fn change_ids(&self, selection: &Bulk, cx: &mut Context<'_>) -> Result<Ending> {
        let db = &cx.database()?;
        let (filter, jobs) = (selection.jobs()?, db.admin().jobs());
        let operator = selection.operator();
        let changed = jobs.change(&selection.limited_jobs()?, self.change, &operator)?;
        let (mut done, mut skipped) = (0, Vec::new());
        for id in selection.ids() {
            let outcome = if changed.jobs.contains(&id) {
                Ok(self.changed(id))
            } else if changed.jobs.len() as u64 >= selection.limited(u64::MAX) {
                cx.say(format!("job {id} is beyond --limit"));
                Err("limit")
            } else {
                match (live_or_say(id, &filter, cx)?, self.change) {
                    (Err(reason), _) => Err(reason),
                    (Ok(_), JobChange::Cancel) => {
                        self.cancelled(id, jobs.cancel(id, &operator)?, cx)?
                    }
                    (Ok(job), JobChange::SetPriority(_) | JobChange::RunNow | _) => {
                        self.unchanged(&job, cx)
                    }
                }
            };
            match outcome {
                Ok(text) => {
                    done += 1;
                    if !cx.global.json {
                        writeln!(cx.out, "{text}")?;
                    }
                }
                Err(reason) => skipped.push((id, reason)),
            }
        }
        if cx.global.json {
            let skipped = skipped_json("jobs", skipped.iter().copied());
            let line = json!({
                "action": self.action, "dry_run": false, "jobs": done, "skipped": skipped,
                "audit": changed.audit,
            });
            json_line(cx.out, &line)?;
        }
        Ok(Ending::of(skipped.is_empty()))
    }

    /// Says what became of a job that was running a moment ago.
    fn cancelled(
        &self,
        id: JobId,
        how: Cancelled,
        cx: &mut Context<'_>,
    ) -> Result<std::result::Result<String, &'static str>> {
        Ok(match how {
            Cancelled::Dead => Ok(self.changed(id)),
            Cancelled::Asked => Ok(format!(
                "job {id} is running; its handler was asked to stop"
            )),
            Cancelled::NotLive | _ => {
                not_found(id, cx)?;
                Err("gone")
            }
        })
    }

    fn changed(&self, id: JobId) -> String {
        match self.change {
            JobChange::SetPriority(priority) => format!("job {id} now has priority {priority}"),
            JobChange::RunNow => format!("job {id} is ready now"),
            JobChange::Cancel | _ => format!("job {id} was cancelled; it is a dead letter"),
        }
    }

    /// Says why a live job did not change. A job that is as it should be counts as changed.
    fn unchanged(
        &self,
        job: &LiveJob,
        cx: &mut Context<'_>,
    ) -> std::result::Result<String, &'static str> {
        let id = job.id;
        cx.say(match self.change {
            JobChange::SetPriority(priority) if job.priority == priority => {
                return Ok(self.changed(id));
            }
            JobChange::SetPriority(_) => {
                format!("job {id} is {}; its priority cannot change", job.state)
            }
            JobChange::RunNow | JobChange::Cancel | _ => {
                format!("job {id} is {} already", job.state)
            }
        });
        Err(job.state.as_str())
    }

    /// The matching jobs that it leaves out, if it changes `changeable` of them.
    fn left_out(&self, count: &JobCount, changeable: u64) -> Vec<LeftOut> {
        let running = match self.change {
            JobChange::Cancel => {
                "a worker runs them; `redrive job cancel ID` asks a handler to stop"
            }
            JobChange::SetPriority(_) | JobChange::RunNow | _ => "a worker runs them",
        };
        let leased = left_out_jobs(count.leased, "leased", running);
        let rest = count.waiting().saturating_sub(changeable);
        let others = self.others.as_ref();
        let others = others.and_then(|(reason, because)| left_out_jobs(rest, reason, because));
        leased.into_iter().chain(others).collect()
    }
}
