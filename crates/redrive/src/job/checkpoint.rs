//! Checkpoints: how far a handler has come, kept in memory until a renewal or a settle stores it.
//!
//! They are stored as headers of the job, which every step of its life carries along.

use std::collections::BTreeMap;

use crate::job::error_report::{clip, one_line};
use crate::job::headers::{CHECKPOINT, PROGRESS};
use crate::job::payload::Json;
use crate::sync::{Mutex, lock};

/// The longest step of a progress, in bytes.
const MAX_STEP_BYTES: usize = 200;

/// The checkpoint and the progress of a running job.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints(Mutex<Buffer>);

#[derive(Debug, Default)]
struct Buffer {
    headers: BTreeMap<&'static str, String>,
    /// What the database has of them.
    stored: Option<Json>,
}

impl Checkpoints {
    /// Replaces the checkpoint by this JSON text.
    pub(crate) fn save(&self, checkpoint: String) {
        lock(&self.0).headers.insert(CHECKPOINT, checkpoint);
    }

    pub(crate) fn report(&self, fraction: f64, step: &str) {
        let progress = progress(fraction, step);
        lock(&self.0).headers.insert(PROGRESS, progress);
    }

    pub(crate) fn last(&self) -> Option<String> {
        lock(&self.0).headers.get(CHECKPOINT).cloned()
    }

    /// Returns the headers to store; `None`: they are stored.
    pub(crate) fn unstored(&self) -> Option<Json> {
        let buffer = lock(&self.0);
        if buffer.headers.is_empty() {
            return None;
        }
        // Headers are strings, so they are valid JSON.
        let headers = Json::of("the headers", &buffer.headers).ok();
        headers.filter(|headers| buffer.stored.as_ref() != Some(headers))
    }

    /// Records that these headers are stored.
    pub(crate) fn stored(&self, headers: Json) {
        lock(&self.0).stored = Some(headers);
    }
}

/// Returns a progress as text, such as `40 % page 7`, on one line and within its limit.
fn progress(fraction: f64, step: &str) -> String {
    let percent = match fraction {
        known if (0.0..=1.0).contains(&known) => known * 100.0,
        above if above > 1.0 => 100.0,
        _ => 0.0,
    };
    // A text that is cut has new lines.
    let step = clip(one_line(step), MAX_STEP_BYTES).replace('\n', " ");
    format!("{percent:.0} % {step}").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_stored() {
        let checkpoints = Checkpoints::default();
        assert_eq!(checkpoints.unstored(), None);
        checkpoints.save("[7]".to_owned());
        let first = checkpoints.unstored().expect("the checkpoint");
        assert_eq!(first.as_str(), r#"{"redrive-checkpoint":"[7]"}"#);

        // A change during the write is stored by the next one.
        checkpoints.report(0.4, "page 7");
        checkpoints.stored(first);
        let both = checkpoints.unstored().expect("the progress");
        let expected = r#"{"redrive-checkpoint":"[7]","redrive-progress":"40 % page 7"}"#;
        assert_eq!(both.as_str(), expected);
        checkpoints.stored(both);
        assert_eq!(checkpoints.unstored(), None);
        assert_eq!(checkpoints.last().as_deref(), Some("[7]"));
    }

    #[test]
    fn a_progress_is_one_short_line() {
        for (fraction, step, expected) in [
            (0.4, "page 7", "40 % page 7"),
            (1.0, "", "100 %"),
            (-1.0, "a\nb\0c", "0 % a b c"),
            (f64::INFINITY, "x", "100 % x"),
            (f64::NAN, "x", "0 % x"),
        ] {
            assert_eq!(progress(fraction, step), expected);
        }
        let long = progress(0.5, &"é".repeat(1000));
        let is_short = long.len() <= MAX_STEP_BYTES + 10;
        assert!(is_short && !long.contains('\n'), "{long}");
    }
}
