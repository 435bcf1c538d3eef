//! `redrive job cancel`, `priority`, `set` and `run-now`.

use redrive::admin::{Cancelled, JobChange, JobCount, JobFilter, JobState, LiveJob};
use redrive::{JobId, Operator};

use super::report::{live, sample};
use super::show::gone;
use crate::batches::{Batches, SoFar, Undo};
use crate::dlq::{NotDone, Why, beyond_limit, unknown};
use crate::dry_run::DryRun;
use crate::left_out::{LeftOut, left_out_json, matching, write_left_out};
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
    batches: Batches,
    /// The states of the jobs that it changes.
    takes: &'static [JobState],
    /// Why it leaves out jobs in these states, in one word and as text.
    others: Option<(&'static str, String)>,
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
        let batches = Batches {
            noun: "job",
            action: "cancel",
            progressive: "cancelling",
            participle: "cancelled",
            undo: Undo::None,
        };
        match change {
            JobChange::SetPriority(priority) => Act {
                change,
                batches: Batches {
                    action: "priority",
                    participle: "given the priority",
                    progressive: "setting the priority",
                    ..batches
                },
                takes: &[JobState::Ready, JobState::Delayed],
                others: Some((
                    "unchanged",
                    format!("they have priority {priority} already"),
                )),
            },
            JobChange::RunNow => Act {
                change,
                batches: Batches {
                    action: "run-now",
                    participle: "made ready",
                    progressive: "making ready",
                    ..batches
                },
                takes: &[JobState::Delayed],
                others: Some(("ready", "they are ready already".to_owned())),
            },
            JobChange::Cancel | _ => Act {
                change,
                batches: Batches {
                    undo: Undo::OfAudit(|audit| {
                        format!("undo: redrive dlq redrive audit={audit} --yes")
                    }),
                    ..batches
                },
                takes: &[JobState::Ready, JobState::Delayed],
                others: None,
            },
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
        let filter = selection.jobs()?;
        let (mut count, mut changeable) = db.admin().jobs().preview(&filter, self.change)?;
        let matching = count.jobs();
        match (self.change, selection.ids().is_empty()) {
            // Its handler is asked to stop.
            (JobChange::Cancel, false) => changeable += std::mem::take(&mut count.leased),
            // One that has the priority counts as changed.
            (JobChange::SetPriority(_), false) => changeable = count.waiting(),
            (JobChange::Cancel | JobChange::SetPriority(_) | JobChange::RunNow | _, _) => {}
        }
        Ok(Found {
            filter,
            matching,
            affected: selection.limited(changeable),
            left_out: self.left_out(&count, changeable),
        })
    }

    /// Shows what would change.
    fn show(&self, found: &Found, selection: &Bulk, cx: &mut Context<'_>) -> Result<Ending> {
        let db = &cx.database()?;
        let dry_run = DryRun {
            noun: "job",
            action: self.batches.action,
            affected: found.affected,
            matching: found.matching,
            left_out: &found.left_out,
            to_act: selection.to_act(),
        };
        let jobs = matching(found.matching, "live job");
        let affected = grouped(found.affected);
        let heading = format!("{jobs}; {affected} would be {}.", self.batches.participle);
        let takes: &[JobState] = match (self.change, selection.ids().is_empty()) {
            (JobChange::Cancel, false) => &JobState::ALL,
            (JobChange::Cancel | JobChange::SetPriority(_) | JobChange::RunNow | _, _) => {
                self.takes
            }
        };
        let sample = || {
            let jobs = db.admin().jobs().list(&found.filter)?;
            Ok(Some(sample(jobs, takes)))
        };
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
        // As many as match now, so that jobs that are enqueued meanwhile cannot prolong the command.
        let filter = found.filter.clone().limit(found.affected);
        let (jobs, operator) = (db.admin().jobs(), selection.operator());
        let ended = self.batches.run(found.affected, cx, |go_on| {
            jobs.change_while(&filter, self.change, &operator, |so_far| {
                go_on(SoFar::of(so_far.jobs.len(), so_far.audit))
            })
        })?;
        let SoFar { done, audit, .. } = ended.so_far;
        if cx.global.json || found.matching > 0 {
            let skipped = left_out_json("jobs", &found.left_out);
            let line = self.batches.line(done, skipped, audit);
            cx.print(&line, self.batches.text(done))?;
        }
        if !cx.global.json {
            write_left_out("job", &found.left_out, cx)?;
        }
        ended.or_stopped(Ending::of(done > 0), cx)
    }

    /// Changes the jobs given by id, and explains why others did not change.
    fn change_ids(&self, selection: &Bulk, cx: &mut Context<'_>) -> Result<Ending> {
        let db = &cx.database()?;
        let (filter, operator) = (selection.jobs()?, selection.operator());
        let jobs = db.admin().jobs();
        let changed = jobs.change(&selection.limited_jobs()?, self.change, &operator)?;
        let (limit, mut taken) = (selection.limited(u64::MAX), changed.jobs.len() as u64);
        let (mut done, mut not_done) = (Vec::new(), NotDone::default());
        for id in selection.ids() {
            let is_changed = changed.jobs.contains(&id);
            let outcome = match is_changed {
                true => Ok(self.changed(id)),
                false if taken >= limit => Err(beyond_limit()),
                false => live(id, &filter, db).and_then(|job| self.unchanged(&job, &operator, db)),
            };
            taken += u64::from(outcome.is_ok() && !is_changed);
            match outcome {
                Ok(text) => done.push(text),
                Err(why) => not_done.0.push((id, why)),
            }
        }
        if cx.global.json {
            let number = done.len() as u64;
            let skipped = not_done.json("jobs");
            let line = self.batches.line(number, skipped, changed.audit);
            json_line(cx.out, &line)?;
        } else {
            for text in done {
                writeln!(cx.out, "{text}")?;
            }
        }
        not_done.say("job", self.batches.participle, cx);
        Ok(Ending::of(not_done.0.is_empty()))
    }

    fn changed(&self, id: JobId) -> String {
        match self.change {
            JobChange::SetPriority(priority) => format!("job {id} now has priority {priority}"),
            JobChange::RunNow => format!("job {id} is ready now"),
            JobChange::Cancel | _ => format!("job {id} was cancelled; it is a dead letter"),
        }
    }

    /// What became of a live job that did not change at once. One that is as it should be counts as changed.
    fn unchanged(
        &self,
        job: &LiveJob,
        operator: &Operator,
        db: &Database,
    ) -> std::result::Result<String, Why> {
        let (id, state) = (job.id, job.state);
        match self.change {
            JobChange::SetPriority(priority) if job.priority == priority => Ok(self.changed(id)),
            JobChange::SetPriority(_) => Err((state.as_str(), format!("it is {state}"))),
            JobChange::RunNow => Err((state.as_str(), format!("it is {state} already"))),
            // It was running a moment ago.
            JobChange::Cancel | _ => {
                match db.admin().jobs().cancel(id, operator).map_err(unknown)? {
                    Cancelled::Dead => Ok(self.changed(id)),
                    Cancelled::Asked => Ok(format!(
                        "job {id} is running; its handler was asked to stop"
                    )),
                    Cancelled::NotLive | _ => {
                        Err(("gone", format!("it {}", gone(id, db).map_err(unknown)?)))
                    }
                }
            }
        }
    }

    /// The matching jobs that it leaves out, if it changes `changeable` of them.
    fn left_out(&self, count: &JobCount, changeable: u64) -> Vec<LeftOut> {
        let running = match self.change {
            JobChange::Cancel => {
                "a worker runs them; `redrive job cancel ID` asks a handler to stop"
            }
            JobChange::SetPriority(_) | JobChange::RunNow | _ => "a worker runs them",
        };
        let leased = LeftOut::of(count.leased, "leased", running);
        let rest = count.waiting().saturating_sub(changeable);
        let others = self.others.as_ref();
        let others = others.and_then(|(reason, because)| LeftOut::of(rest, reason, because));
        leased.into_iter().chain(others).collect()
    }
}
