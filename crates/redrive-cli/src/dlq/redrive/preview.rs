//! The dry run of `redrive dlq redrive`.

use std::io::Write;

use redrive::dlq::{LetterFilter, LetterState, RedrivePreview, Skip};

use super::Redrive;
use super::validated::Validated;
use crate::bulk::{Found, error_json, print_errors};
use crate::dlq::blocked::blocked_json;
use crate::dlq::letter_table::letter_table;
use crate::dlq::none_matched::words;
use crate::left_out::LeftOut;
use crate::prelude::*;

impl Redrive {
    /// Finds out what would be redriven and what is left out, and why the jobs would wait.
    pub(super) fn find(
        &self,
        validated: Option<&Validated>,
        db: &Database,
    ) -> Result<(Found, RedrivePreview)> {
        let (filter, options) = (self.selection.letters()?, self.options());
        let mut preview = db.dlq().preview_redrive(&filter, &options)?;
        let (mut not_valid, mut errors) = (Vec::new(), &[][..]);
        if let Some(validated) = validated {
            let passing = LetterFilter::new().ids(validated.passing.iter().copied());
            let of_passing = db.dlq().preview_redrive(&passing, &options)?;
            // Of the other letters, only the states count: those that fail are left out anyway.
            let mut states = preview.left_out;
            states.retain(|left_out| left_out.state.is_some());
            preview = of_passing;
            preview.left_out.extend(states);
            not_valid = validated.left_out();
            errors = &validated.validation.errors;
        }
        let matches = db.dlq().count(&filter.within(self.states()))?;
        let states = words(self.states());
        let sample = LetterFilter::new().ids(preview.sample.iter().copied());
        let sample = db.dlq().list(&sample)?;
        let mut details = Vec::new();
        if !errors.is_empty() {
            writeln!(details, "Validation errors:")?;
            print_errors("letter", errors, &mut details)?;
            writeln!(details)?;
        }
        let found = Found {
            affected: preview.letters,
            left_out: not_valid.into_iter().chain(left_out(&preview)).collect(),
            details,
            more: vec![
                (
                    "errors",
                    errors.iter().map(|of| error_json("letter", of)).collect(),
                ),
                ("blocked", json!(blocked_json(&preview.blocked))),
            ],
            sample: Some(letter_table(&sample)),
            ..Found::of(matches, format!("{states} letter"), &self.selection)
        };
        Ok((found, preview))
    }
}

fn left_out(preview: &RedrivePreview) -> Vec<LeftOut> {
    let lines = preview.left_out.iter().map(|left_out| {
        let (because, include) = match (left_out.reason, left_out.state) {
            (Skip::Quarantined, _) => (
                "quarantined".to_owned(),
                Some("--force --reason TEXT includes them".to_owned()),
            ),
            (_, Some(state)) => (format!("{state}; only open letters are redriven"), None),
            (Skip::TooLarge, None) => (
                "the captured bytes exceed 16 MiB".to_owned(),
                Some(format!(
                    "`{Me} dlq deliver` sends them, `{Me} dlq edit` replaces them"
                )),
            ),
            (Skip::NoJson, None) => (
                "the captured bytes are not JSON".to_owned(),
                Some(format!("`{Me} dlq edit` replaces them")),
            ),
            (Skip::Redacted, None) => (
                "the payload was redacted".to_owned(),
                Some(format!(
                    "`{Me} dlq edit` replaces it, --force --reason TEXT includes them"
                )),
            ),
            (reason, None) => (reason.to_string(), None),
        };
        LeftOut {
            count: left_out.letters,
            reason: left_out
                .state
                .map_or(left_out.reason.as_str(), LetterState::as_str),
            because,
            include,
        }
    });
    lines.collect()
}
