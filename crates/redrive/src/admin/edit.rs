//! Edits the payloads of waiting jobs.
//!
//! The new payload is a pure function of the old one. It is written only if the job still waits with the
//! payload that was read.

use std::collections::HashSet;
use std::ops::ControlFlow;

use serde_json::value::RawValue;

use crate::admin::bulk::ChangedJob;
use crate::admin::handle::Jobs;
use crate::dlq::edit::{Edit, EditPreview, Edited};
use crate::dlq::filter::JobFilter;
use crate::dlq::prelude::*;
use crate::dlq::validation_error::ValidationErrors;

/// The jobs per page: a page of the largest payloads still fits in memory.
const PAGE: u64 = 100;

/// A page of waiting jobs.
struct Page {
    jobs: Vec<(JobId, Box<RawValue>)>,
    /// The last place of the previous page.
    from: Option<Json>,
    /// The place of the last job.
    to: Json,
}

impl Jobs<'_> {
    /// Edits the payloads of waiting jobs that match, delayed ones first. Leased jobs do not
    /// change.
    ///
    /// Each batch of 100 is one transaction with its audit row. Earlier payloads are not kept.
    ///
    /// # Errors
    /// *Invalid* with [`JobFilter::after`]; otherwise if the database fails.
    pub fn edit(&self, filter: &JobFilter, edit: &Edit, operator: &Operator) -> Result<Edited> {
        let mut done = Edited::default();
        let mut refused = ValidationErrors::default();
        self.each_waiting(filter, |page| -> Result<ControlFlow<()>> {
            self.edit_page(filter, page, edit, operator, &mut done, &mut refused)?;
            refused.fold(self.db)?;
            Ok(self.db.go_on(done.so_far()))
        })?;
        done.refused = refused.into_vec();
        Ok(done)
    }

    /// Calls `visit` with the effect on each waiting job, and changes nothing.
    ///
    /// # Errors
    /// Any error of `visit`, which ends the iteration; *invalid* with [`JobFilter::after`];
    /// otherwise if the database fails.
    pub fn preview_edit<E: From<Error>>(
        &self,
        filter: &JobFilter,
        edit: &Edit,
        mut visit: impl FnMut(&EditPreview) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each_waiting(filter, |page| -> Result<ControlFlow<()>, E> {
            for (id, payload) in page.jobs {
                visit(&EditPreview::of(edit, id, Some(payload))?)?;
            }
            Ok(ControlFlow::Continue(()))
        })
        .map(drop)
    }

    /// Calls `visit` with each page, until it breaks. Returns whether it did.
    fn each_waiting<E: From<Error>>(
        self,
        filter: &JobFilter,
        mut visit: impl FnMut(Page) -> Result<ControlFlow<()>, E>,
    ) -> Result<bool, E> {
        let mut place = None;
        filter.in_batches(PAGE, |is_stopped: &mut bool, _, most| -> Taken<E> {
            let Some(page) = self.page_of_waiting(filter, place.take(), most)? else {
                return Ok(None);
            };
            place = Some(page.to.clone());
            let jobs = page.jobs.len();
            let course = visit(page)?;
            *is_stopped = course.is_break();
            Ok(then(course, jobs))
        })
    }

    fn page_of_waiting(
        self,
        filter: &JobFilter,
        from: Option<Json>,
        most: u64,
    ) -> Result<Option<Page>> {
        let mut jobs: Vec<(JobId, Box<RawValue>, Json)> = self.db.ask_bulk().all(
            "read jobs to edit",
            &sql::PAGE_WAITING,
            &[&filter.parameter()?, &from, &most],
        )?;
        let Some((.., to)) = jobs.last().cloned() else {
            return Ok(None);
        };
        let jobs = jobs.drain(..).map(|(id, payload, _)| (id, payload));
        Ok(Some(Page {
            jobs: jobs.collect(),
            from,
            to,
        }))
    }

    fn edit_page(
        self,
        filter: &JobFilter,
        page: Page,
        edit: &Edit,
        operator: &Operator,
        done: &mut Edited,
        refused: &mut ValidationErrors,
    ) -> Result<()> {
        let most = page.jobs.len() as u64;
        let (mut ids, mut unedited, mut edited) = (Vec::new(), Vec::new(), Vec::new());
        for (id, payload) in page.jobs {
            match edit.make(Some(payload.get())) {
                Ok(None) => done.unchanged += 1,
                Ok(Some(json)) => {
                    ids.push(id);
                    unedited.push(payload.get().to_owned());
                    edited.push(json.as_str().to_owned());
                }
                Err(why) => refused.add(id, why),
            }
        }
        if ids.is_empty() {
            return Ok(());
        }
        let rows: Vec<ChangedJob> = self.db.ask_bulk().all(
            "edit jobs",
            &sql::CHANGE_JOBS,
            &[
                &"edit",
                &filter.parameter()?,
                &page.from,
                &page.to,
                &most,
                &operator.given_reason(),
                &operator.by(),
                &done.audit,
                &None::<i32>,
                &ids,
                &unedited,
                &edited,
            ],
        )?;
        done.audit = rows.last().map_or(done.audit, |(_, audit, _)| *audit);
        let edited: Vec<JobId> = rows.into_iter().map(|(id, ..)| id).collect();
        let is_edited: HashSet<JobId> = edited.iter().copied().collect();
        done.skipped
            .extend(ids.into_iter().filter(|id| !is_edited.contains(id)));
        done.edited.extend(edited);
        Ok(())
    }
}
