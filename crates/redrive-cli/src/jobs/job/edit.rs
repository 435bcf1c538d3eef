//! `redrive job edit`: changes the payloads of waiting jobs.

use std::ops::ControlFlow;

use clap::{ArgGroup, Args};
use redrive::admin::JobFilter;
use redrive::dlq::Edited;
use redrive::{Database, JobId};
use serde_json::{Value, json};

use super::selection::{JobSelection, JobsLeftOut, left_out_json, write_left_out};
use crate::context::{Context, Ending};
use crate::dlq::{PayloadEdit, Preview, Stopped};
use crate::error::{Error, Result};
use crate::stop::StopSignal;
use crate::terminal::{Progress, counted, grouped, json_line, one_line};

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
Ctrl-C stops after the current batch of 100 jobs and prints how many were edited.
The exit code is 1 then, and if a job could not be changed or none matches."
)]
pub(super) struct EditJobs {
    #[command(flatten)]
    selection: JobSelection,
    #[command(flatten)]
    change: PayloadEdit,
}

impl EditJobs {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let Some(edit) = self.change.read()? else {
            return Err(Error::new(
                "no edit given: use --merge, --patch, --set or --exec",
            ));
        };
        let db = cx.database()?;
        let filter = self.selection.limited()?;
        if !self.selection.is_dry_run() {
            return self.edit(&filter, &edit, &db, cx);
        }
        let mut preview = Preview::of("job");
        let jobs = db.admin().jobs();
        jobs.preview_edit(&filter, &edit, |job| preview.add(job, cx))?;
        if !cx.global.json {
            write_left_out(&self.left_out(&db)?, cx)?;
        }
        preview.end("no waiting job matches", self.selection.repeat(), cx)
    }

    /// Matching jobs that cannot be edited because they run.
    fn left_out(&self, db: &Database) -> Result<Vec<JobsLeftOut>> {
        let count = db.admin().jobs().count(&self.selection.filter()?)?;
        Ok(vec![JobsLeftOut::leased(&count, "a worker runs them")])
    }

    /// Edits the jobs in batches, until a signal arrives.
    fn edit(
        &self,
        filter: &JobFilter,
        edit: &redrive::dlq::Edit,
        db: &Database,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let mut stop = StopSignal::listen()?;
        let jobs = db.admin().jobs();
        let left_out = self.left_out(db)?;
        let total = self.selection.at_most(jobs.count(filter)?.waiting());
        let progress = Progress::of("editing", total);
        let (mut edited, mut tried, mut course) = (0, 0, ControlFlow::Continue(()));
        let operator = self.selection.operator();
        let done = jobs.edit_while(filter, edit, &operator, |so_far| {
            edited = so_far.edited.len() as u64;
            tried = edited + so_far.unchanged;
            progress.at(tried);
            course = stop.check();
            course
        });
        drop(progress);
        let stopped = Stopped {
            done: edited,
            total,
            participle: "edited",
            undo: None,
        };
        let done = match done {
            Ok(done) => done,
            Err(error) => {
                if edited > 0 {
                    cx.say(stopped.text_of("job"));
                }
                return Err(error.into());
            }
        };
        let ending = report(&done, &left_out, cx)?;
        if course.is_break() && tried < total {
            cx.out.flush()?;
            cx.say(stopped.text_of("job"));
            return Ok(Ending::NothingMatched);
        }
        Ok(ending)
    }
}

fn report(done: &Edited, left_out: &[JobsLeftOut], cx: &mut Context<'_>) -> Result<Ending> {
    let invalid: u64 = done.refused.iter().map(|error| error.letters).sum();
    let errors = done.refused.iter().map(|error| {
        let ids: Vec<i64> = error.ids.iter().copied().map(JobId::get).collect();
        json!({ "error": error.message, "sample": error.sample, "jobs": error.letters, "ids": ids })
    });
    if cx.global.json {
        let mut skipped = left_out_json(left_out);
        if !done.skipped.is_empty() {
            let ids: Vec<i64> = done.skipped.iter().copied().map(JobId::get).collect();
            skipped.push(json!({ "reason": "changed", "jobs": ids.len(), "ids": ids }));
        }
        json_line(
            cx.out,
            &json!({
                "action": "edit", "jobs": done.edited.len(), "unchanged": done.unchanged,
                "invalid": invalid, "errors": errors.collect::<Vec<Value>>(), "skipped": skipped,
                "audit": done.audit,
            }),
        )?;
    } else {
        let mut counts = vec![format!(
            "{} edited",
            counted(done.edited.len() as u64, "job")
        )];
        for (count, name) in [(done.unchanged, "unchanged"), (invalid, "invalid")] {
            if count > 0 {
                counts.push(format!("{} {name}", grouped(count)));
            }
        }
        writeln!(cx.out, "{}", counts.join(", "))?;
        write_left_out(left_out, cx)?;
        for error in &done.refused {
            let ids: Vec<String> = error.ids.iter().map(ToString::to_string).collect();
            writeln!(
                cx.out,
                "  {} invalid: {} (job {})",
                grouped(error.letters),
                one_line(&error.sample),
                ids.join(" ")
            )?;
        }
        for id in &done.skipped {
            cx.say(format!(
                "job {id} was not edited: a worker claimed it or another operator changed it"
            ));
        }
    }
    let did_nothing = done.edited.is_empty() && done.unchanged == 0;
    Ok(
        match invalid > 0 || !done.skipped.is_empty() || did_nothing {
            true => Ending::NothingMatched,
            false => Ending::Done,
        },
    )
}
