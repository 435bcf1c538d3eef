//! `redrive job edit`: changes the payloads of waiting jobs.

use std::collections::BTreeMap;

use clap::ArgGroup;
use redrive::JobId;
use redrive::admin::{JobFilter, JobState};
use redrive::dlq::Edit;

use super::show::live;
use crate::batches::{Batches, Undo, Watched};
use crate::bulk::{Changed, Found};
use crate::dlq::{PayloadEdit, Preview};
use crate::left_out::LeftOut;
use crate::not_done::{NotDone, Why};
use crate::prelude::*;

/// What can be edited, if no worker runs it.
const NOUN: &str = "live job";

const EDIT: Batches = Batches {
    noun: "job",
    action: "edit",
    participle: "edited",
    undo: Undo::None,
};

/// Change the payloads of waiting jobs
///
/// Without --yes this is a dry run that shows the differences; jobs given by id change at once.
/// Running jobs are left out. Earlier payloads are not kept.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("how").required(true)),
    before_help = "\
Examples:
  redrive job edit 42 --set '{\"order\": 43}'
  redrive job edit orders kind=order.placed --merge '{\"currency\": \"EUR\"}' --yes
",
    after_help = "\
Ctrl-C stops after the current batch of 100 jobs, or after the current command, and
prints how many were edited. The exit code is 1 then, and if a job could not be changed
or none matches."
)]
pub(crate) struct EditJobs {
    #[command(flatten)]
    selection: Bulk,
    #[command(flatten)]
    change: PayloadEdit,
}

impl EditJobs {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let Some(given) = self.change.read()? else {
            return Err(Error::new(
                "no edit given: use --merge, --patch, --set or --exec",
            ));
        };
        let (selection, db) = (&self.selection, &cx.database()?);
        let (filter, is_dry_run) = (&selection.limited_jobs()?, selection.is_dry_run());
        let jobs = db.admin().jobs();
        let count = jobs.count(filter)?;
        let left_out = LeftOut::of(count.leased, "leased", "a worker runs them").into_iter();
        // Each job given by id has a line of its own.
        let left_out = left_out.filter(|_| is_dry_run || selection.ids().is_empty());
        let all = Found {
            matching: count.jobs(),
            left_out: left_out.collect(),
            ..Found::of(count.waiting(), NOUN, selection)
        };
        let (found, is_whole) = match is_dry_run {
            true => {
                let mut preview = Preview::of("job")?;
                jobs.preview_edit(filter, &given, |job| preview.add(job, cx))?;
                preview.found(all, cx)?
            }
            false => (all, Ending::Done),
        };
        let ending = found.change(
            EDIT,
            selection.to_act(None)?,
            cx,
            |db| self.act(filter, &given, db),
            |cx| cx.nothing("no waiting job matches"),
        )?;
        Ok(ending.and(is_whole))
    }

    /// Edits the jobs, and finds out why others did not change.
    fn act(&self, filter: &JobFilter, given: &Edit, db: &Watched) -> Result<Changed> {
        let (jobs, operator) = (db.admin().jobs(), self.selection.operator());
        let done = jobs.edit(filter, given, &operator)?;
        let changed = || {
            let cause = "a worker claimed it or another operator changed it";
            ("changed", cause.to_owned())
        };
        let mut whys: BTreeMap<JobId, Why> =
            done.skipped.iter().map(|id| (*id, changed())).collect();
        // Of jobs that did not change for another reason, only the number is known.
        let is_known = done.unchanged == 0 && done.refused.is_empty();
        for id in self.selection.ids() {
            if done.edited.contains(&id) {
                continue;
            }
            let why = match live(id, db) {
                Err(why) => why,
                Ok(job) if job.state == JobState::Leased => {
                    ("leased", "a worker runs it".to_owned())
                }
                // It was running a moment ago.
                Ok(_) if is_known => changed(),
                Ok(_) => continue,
            };
            whys.insert(id, why);
        }
        Ok(Changed {
            not_done: NotDone(whys.into_iter().collect()),
            edited: Some(done),
            ..Changed::default()
        })
    }
}
