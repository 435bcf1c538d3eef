//! The preview of a redrive.

use crate::dlq::prelude::*;
use crate::dlq::redrive::Skip;
use crate::dlq::redrive::blocked::Blocked;
use crate::dlq::redrive::options::RedriveOptions;

/// How many letters a preview names.
const SAMPLE: i32 = 5;

/// The effect that a redrive would have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RedrivePreview {
    /// The number of letters that would be redriven.
    pub letters: u64,
    /// The letters that match the filter and would be left out, by reason.
    pub left_out: Vec<LeftOut>,
    /// The oldest letters that would be redriven, at most five.
    pub sample: Vec<JobId>,
    /// The letters whose jobs would wait, and why.
    pub blocked: Vec<Blocked>,
}

/// Matching letters that a redrive leaves out for one reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The reason.
    pub reason: Skip,
    /// The state that excludes them; `None`: another reason does.
    pub state: Option<LetterState>,
    /// The number of letters.
    pub letters: u64,
}

impl Dlq<'_> {
    /// Returns what a redrive would do. Changes nothing. Of the options, it checks only the name of the queue.
    ///
    /// It selects the letters that a [run](crate::dlq::runs::Runs::create) would select
    /// now, with the limit of the filter. Letters in other states appear in
    /// [`left_out`](RedrivePreview::left_out): quarantined ones unless the filter names other
    /// states, and those of each state that it names.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`], or if the queue has no valid name; otherwise if the database fails.
    pub fn preview_redrive(
        &self,
        filter: &LetterFilter,
        options: &RedriveOptions,
    ) -> Result<RedrivePreview> {
        let parameter = filter.whole()?;
        let mut preview = RedrivePreview {
            blocked: self.blocked(filter, Some(options))?,
            ..RedrivePreview::default()
        };
        let judged: Vec<(String, u64, Vec<JobId>)> = self.db.ask_bulk().all(
            "count what would be redriven",
            &sql::PREVIEW_REDRIVE,
            &[
                &parameter,
                &options.force,
                &options.to_queue,
                &filter.limit,
                &SAMPLE,
            ],
        )?;
        for (result, letters, oldest) in judged {
            match &*result {
                "sent" => (preview.letters, preview.sample) = (letters, oldest),
                reason => preview.left_out.push(LeftOut {
                    reason: Skip::of_stored(reason),
                    state: None,
                    letters,
                }),
            }
        }
        for state in filter
            .named_states()
            .unwrap_or_else(|| vec![LetterState::Quarantined])
        {
            let reason = match state {
                LetterState::Open => continue,
                LetterState::Quarantined if options.force => continue,
                LetterState::Quarantined => Skip::Quarantined,
                LetterState::Redriving | LetterState::Recovered | LetterState::Discarded => {
                    Skip::NotOpen
                }
            };
            preview.left_out.push(LeftOut {
                reason,
                state: Some(state),
                letters: self.count(&filter.clone().state(state))?,
            });
        }
        preview.left_out.retain(|left_out| left_out.letters > 0);
        Ok(preview)
    }
}
