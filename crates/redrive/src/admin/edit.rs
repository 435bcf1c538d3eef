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
struct Page<'a> {
    filter: &'a Json,
    /// The last place of the previous page.
    from: Option<Json>,
    /// The jobs, with their payloads and places.
    jobs: Vec<(JobId, Box<RawValue>, Json)>,
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
            self.edit_page(page, edit, operator, &mut done, &mut refused)?;
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
            for (id, payload, _) in page.jobs {
                visit(&EditPreview::of(edit, id, Some(payload))?)?;
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Calls `visit` with each page, until it breaks.
    fn each_waiting<E: From<Error>>(
        self,
        filter: &JobFilter,
        mut visit: impl FnMut(Page<'_>) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let mut last: Option<Json> = None;
        filter.in_batches(PAGE, |(): &mut (), filter, most| -> Taken<E> {
            let jobs: Vec<(JobId, Box<RawValue>, Json)> = self.db.ask_bulk().all(
                "read jobs to edit",
                &sql::PAGE_WAITING,
                &[filter, &last, &most],
            )?;
            let Some((.., place)) = jobs.last() else {
                return Ok(None);
            };
            let (from, count) = (last.replace(place.clone()), jobs.len());
            Ok(then(visit(Page { filter, from, jobs })?, count))
        })
    }

    fn edit_page(
        self,
        page: Page<'_>,
        edit: &Edit,
        operator: &Operator,
        done: &mut Edited,
        refused: &mut ValidationErrors,
    ) -> Result<()> {
        let most = page.jobs.len() as u64;
        let to = page.jobs.last().map(|(.., place)| place.clone());
        let (mut ids, mut unedited, mut edited) = (Vec::new(), Vec::new(), Vec::new());
        for (id, payload, _) in page.jobs {
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
                page.filter,
                &page.from,
                &to,
                &most,
                operator,
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
