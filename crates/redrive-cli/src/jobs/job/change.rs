//! `redrive job cancel`, `priority` and `run-now`.

use redrive::BatchProgress;
use redrive::admin::{Cancelled, JobChange, JobFilter, JobState, LiveJob};

use super::list::job_table;
use super::show::{gone, live};
use crate::batches::{Batches, Undo, Watched};
use crate::bulk::{Changed, Found, SAMPLE};
use crate::left_out::LeftOut;
use crate::not_done::{Why, locked, unknown};
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
        let (selection, db) = (&self.selection, &cx.database()?);
        let act = Act::of(change, selection)?;
        let mut found = act.find(db)?;
        let most = found.affected;
        // With a limit, the order of the change decides, not that of the list.
        if selection.is_dry_run() && found.note.is_empty() {
            let mut jobs = db.admin().jobs().list(&act.changeable())?;
            jobs.retain(|job| act.is_changed(job));
            jobs.truncate(SAMPLE.into());
            found.sample = Some(job_table(&jobs));
        }
        found.change(
            act.batches,
            selection.to_act(None)?,
            cx,
            |watched| act.act(most, watched, db),
            |cx| cx.nothing(format!("no live job matches {}", act.filter)),
        )
    }
}

impl Priority {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        self.jobs.run(JobChange::SetPriority(self.priority), cx)
    }
}

/// A change of selected jobs, in words.
struct Act<'a> {
    change: JobChange,
    selection: &'a Bulk,
    filter: JobFilter,
    batches: Batches,
    /// The states of the jobs that it changes. A running job that is given by id is asked to stop.
    takes: &'static [JobState],
    /// Why it leaves out other waiting jobs, in one word and as text.
    others: (&'static str, String),
    /// What becomes of a job.
    became: String,
}

impl<'a> Act<'a> {
    fn of(change: JobChange, selection: &'a Bulk) -> Result<Act<'a>> {
        let waiting: &'static [JobState] = &[JobState::Ready, JobState::Delayed];
        let cancel = Batches {
            noun: "job",
            action: "cancel",
            participle: "cancelled",
            undo: Undo::OfAudit(|audit| format!("undo: {Me} dlq redrive audit={audit} --yes")),
        };
        let act = Act {
            change,
            selection,
            filter: selection.jobs()?,
            batches: cancel,
            takes: match selection.ids().is_empty() {
                true => waiting,
                false => &JobState::ALL,
            },
            others: ("", String::new()),
            became: "was cancelled; it is a dead letter".to_owned(),
        };
        Ok(match change {
            JobChange::SetPriority(priority) => Act {
                batches: Batches {
                    action: "priority",
                    participle: "given the priority",
                    undo: Undo::None,
                    ..cancel
                },
                takes: waiting,
                others: (
                    "unchanged",
                    format!("they have priority {priority} already"),
                ),
                became: format!("now has priority {priority}"),
                ..act
            },
            JobChange::RunNow => Act {
                batches: Batches {
                    action: "run-now",
                    participle: "made ready",
                    undo: Undo::None,
                    ..cancel
                },
                takes: &[JobState::Delayed],
                others: ("ready", "they are ready already".to_owned()),
                became: "is ready now".to_owned(),
                ..act
            },
            JobChange::Cancel | _ => act,
        })
    }

    /// What became of a live job that did not change at once. One that is as it should be counts as changed.
    fn unchanged(&self, job: &LiveJob, db: &Database) -> std::result::Result<String, Why> {
        let (id, state) = (job.id, job.state);
        let (jobs, operator) = (db.admin().jobs(), self.selection.operator());
        match self.change {
            JobChange::SetPriority(priority) if job.priority == priority => Ok(self.became.clone()),
            // It was running a moment ago, or another session holds it.
            JobChange::SetPriority(_) | JobChange::RunNow if self.takes.contains(&state) => {
                let this = JobFilter::new().ids([id]);
                let again = jobs.change(&this, self.change, &operator);
                match again.map_err(unknown)?.ids.is_empty() {
                    true => Err(locked()),
                    false => Ok(self.became.clone()),
                }
            }
            JobChange::SetPriority(_) => Err((state.as_str(), format!("it is {state}"))),
            JobChange::RunNow => Err((state.as_str(), format!("it is {state} already"))),
            JobChange::Cancel | _ => match jobs.cancel(id, &operator).map_err(unknown)? {
                Cancelled::Dead => Ok(self.became.clone()),
                Cancelled::Asked => Ok("is running; its handler was asked to stop".to_owned()),
                Cancelled::NotLive | _ => {
                    Err(("gone", format!("it {}", gone(id, db).map_err(unknown)?)))
                }
            },
        }
    }

    /// Jobs in the states that it changes, unless the filter names others.
    fn changeable(&self) -> JobFilter {
        let filter = self.filter.clone();
        let mut conditions = filter.conditions().into_iter();
        match conditions.any(|condition| condition.starts_with("state")) {
            true => filter,
            false => filter.states(self.takes.iter().copied()),
        }
    }

    fn is_changed(&self, job: &LiveJob) -> bool {
        let is_so = matches!(self.change, JobChange::SetPriority(to) if to == job.priority);
        self.takes.contains(&job.state) && !is_so
    }

    /// Finds out what would change.
    fn find(&self, db: &Database) -> Result<Found> {
        let (count, changeable) = db.admin().jobs().preview(&self.filter, self.change)?;
        let of = |state: &JobState| match state {
            JobState::Ready => count.ready,
            JobState::Delayed => count.delayed,
            JobState::Leased => count.leased,
            JobState::Done | _ => 0,
        };
        // Of those given by id, one that is as it should be counts as changed.
        let changeable = match self.selection.ids().is_empty() {
            true => changeable,
            false => self.takes.iter().map(of).sum(),
        };
        let leased = match self.takes.contains(&JobState::Leased) {
            true => 0,
            false => count.leased,
        };
        let (reason, because) = &self.others;
        let others = LeftOut::of(count.jobs() - leased - changeable, reason, because);
        let running = format!("a worker runs them; `{Me} job cancel ID` asks a handler to stop");
        let leased = LeftOut::of(leased, "leased", &running);
        // Each job given by id has a line of its own.
        let is_told = self.selection.is_dry_run() || self.selection.ids().is_empty();
        let left_out = leased.into_iter().chain(others).filter(|_| is_told);
        let affected = self.selection.limited(changeable);
        let note = match affected < changeable {
            true => ": delayed ones first, then those that a worker would take next",
            false => "",
        };
        Ok(Found {
            affected,
            left_out: left_out.collect(),
            note: note.to_owned(),
            ..Found::of(count.jobs(), "live job", self.selection)
        })
    }

    /// Changes at most so many jobs, and tells what became of each that was given by id.
    fn act(&self, most: u64, watched: &Watched, db: &Database) -> redrive::Result<Changed> {
        let operator = self.selection.operator();
        // As many as match now, so that jobs that are enqueued meanwhile cannot prolong the command.
        let some = self.filter.clone().limit(most);
        let jobs = watched.admin().jobs();
        let changed = jobs.change(&some, self.change, &operator)?;
        let (mut told, mut others) = (Changed::default(), 0);
        for id in self.selection.ids() {
            let taken = changed.ids.len() + others;
            let is_left = (taken as u64) < most && !changed.ids.contains(&id);
            // After a signal, the others stay as they are.
            if is_left
                && watched
                    .go_on(BatchProgress::of(taken, changed.audit))
                    .is_break()
            {
                continue;
            }
            let outcome = if changed.ids.contains(&id) {
                Ok(self.became.clone())
            } else {
                let outcome = live(id, db).and_then(|job| self.unchanged(&job, db));
                others += usize::from(outcome.is_ok());
                outcome
            };
            match outcome {
                Ok(became) => told.lines.push(format!("job {id} {became}")),
                Err(why) => told.not_done.0.push((id, why)),
            }
        }
        Ok(told)
    }
}
