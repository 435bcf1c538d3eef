//! Errors of handlers: every one can be stored.

use std::error::Error as StdError;
use std::fmt;

use proptest::collection::vec;
use proptest::prelude::*;

use super::{config, text};
use crate::job::deciding_error::Rejection;
use crate::job::error_report::{ErrorReport, MAX_MESSAGE_BYTES};
use crate::job::failure::Failure;

/// A foreign error whose Display may fail halfway, which panics where it becomes a text.
#[derive(Clone, Debug)]
struct Foreign {
    text: String,
    is_shown: bool,
    cause: Option<Box<Foreign>>,
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        self.is_shown.then_some(()).ok_or(fmt::Error)
    }
}

impl StdError for Foreign {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as &dyn StdError)
    }
}

fn foreign() -> impl Strategy<Value = Foreign> {
    let wrap = |cause: Option<Foreign>, (text, is_shown)| {
        let cause = cause.map(Box::new);
        Some(Foreign {
            text,
            is_shown,
            cause,
        })
    };
    let links = vec((text(), any::<bool>()), 1..6);
    links.prop_map(move |links| links.into_iter().fold(None, wrap).expect("a link"))
}

/// Whether the database can store it: no NUL, within the length limits.
fn is_writable(report: &ErrorReport) -> bool {
    let fits = |text: &str, most: usize| text.len() <= most && !text.contains('\0');
    fits(&report.class, 1024)
        && fits(&report.message, MAX_MESSAGE_BYTES)
        && fits(report.detail.as_deref().unwrap_or_default(), 64 * 1024)
        && report
            .key
            .as_deref()
            .is_none_or(|key| !key.is_empty() && fits(key, 400))
}

fn failure() -> impl Strategy<Value = Failure> {
    prop_oneof![
        text().prop_map(Failure::retry),
        foreign().prop_map(Failure::from),
        foreign().prop_map(|error| Failure::from(Rejection::new(error))),
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_error_can_be_stored(failure in failure(), told in text(), hook in 0..3_u8) {
        let more = failure.clone().class(told.clone()).failure_key(told.clone()).detail(told);
        for report in [failure.report, more.report] {
            prop_assert!(is_writable(&report), "{report:?}");
            let hooked = report.redacted(&|text: &str| match hook {
                0 => String::new(),
                1 => text.repeat(50),
                _ => std::panic::resume_unwind(Box::new("no")),
            });
            prop_assert!(is_writable(&hooked), "{hooked:?}");
        }
    }
}
