//! Edits the payloads of waiting jobs.
//!
//! The new payload is a pure function of the old one. It is written only if the job still waits with the
//! payload that was read.

use std::ops::ControlFlow;

use serde_json::value::RawValue;

use crate::admin::jobs::Jobs;
use crate::dlq::edit::{Edit, EditPreview, Edited, Read};
use crate::dlq::filter::JobFilter;
use crate::dlq::prelude::*;

/// The jobs per page: a page of the largest payloads still fits in memory.
const PAGE: u64 = 100;

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
        self.each_waiting(filter, |filter, from, jobs| -> Result<ControlFlow<()>> {
            let most = jobs.len() as u64;
            let to = jobs.last().map(|(.., place)| place.clone());
            done.page(edit, jobs, |ids, payloads, read, audit| {
                let unedited = read.iter();
                let unedited = unedited.map(|(payload, _)| payload.as_deref().map(RawValue::get));
                let unedited: Vec<Option<&str>> = unedited.collect();
                let edited: Vec<&str> = payloads.iter().map(Json::as_str).collect();
                self.db.ask_bulk().all(
                    "edit jobs",
                    &sql::CHANGE_JOBS,
                    &[
                        &"edit",
                        filter,
                        &from,
                        &to,
                        &most,
                        operator,
                        &audit,
                        &None::<i32>,
                        &ids,
                        &unedited,
                        &edited,
                    ],
                )
            })?;
            Ok(self.db.go_on(done.so_far()))
        })?;
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
        self.each_waiting(filter, |_, _, jobs| -> Result<ControlFlow<()>, E> {
            for (id, payload, _) in jobs {
                visit(&EditPreview::of(edit, id, payload)?)?;
            }
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Calls `visit` with each page, until it breaks: the filter, the last place of the page before, and the jobs with
    /// their places.
    fn each_waiting<E: From<Error>>(
        self,
        filter: &JobFilter,
        mut visit: impl FnMut(&Json, Option<Json>, Vec<Read<Json>>) -> Result<ControlFlow<()>, E>,
    ) -> Result<(), E> {
        let mut last: Option<Json> = None;
        filter.in_batches(PAGE, |(): &mut (), filter, most| -> Taken<E> {
            let jobs: Vec<Read<Json>> = self.db.ask_bulk().all(
                "read jobs to edit",
                &sql::PAGE_WAITING,
                &[filter, &last, &most],
            )?;
            let Some((.., place)) = jobs.last() else {
                return Ok(None);
            };
            let (from, count) = (last.replace(place.clone()), jobs.len());
            Ok(then(visit(filter, from, jobs)?, count))
        })
    }
}
