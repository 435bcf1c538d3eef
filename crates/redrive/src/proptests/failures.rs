//! Errors of handlers: every one can be stored.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use proptest::prelude::*;

use super::{config, text};
use crate::job::error_report::{ErrorReport, MAX_MESSAGE_BYTES};
use crate::job::failure::Failure;

/// A foreign error whose Display may succeed, fail halfway or panic.
#[derive(Clone, Debug)]
struct Foreign {
    text: String,
    shows: Shows,
    cause: Option<Box<Foreign>>,
}

#[derive(Clone, Copy, Debug)]
enum Shows {
    Itself,
    HalfOfItself,
    APanic,
}

impl fmt::Display for Foreign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match self.shows {
            Shows::Itself => Ok(()),
            Shows::HalfOfItself => Err(fmt::Error),
            Shows::APanic => std::panic::resume_unwind(Box::new("no")),
        }
    }
}

impl StdError for Foreign {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.cause.as_deref().map(|cause| cause as &dyn StdError)
    }
}

fn foreign() -> impl Strategy<Value = Foreign> {
    let shows = || {
        prop_oneof![
            3 => Just(Shows::Itself),
            1 => Just(Shows::HalfOfItself),
            1 => Just(Shows::APanic),
        ]
    };
    let one = (text(), shows()).prop_map(|(text, shows)| Foreign {
        text,
        shows,
        cause: None,
    });
    one.prop_recursive(4, 4, 1, move |inner| {
        (text(), shows(), inner).prop_map(|(text, shows, cause)| Foreign {
            text,
            shows,
            cause: Some(Box::new(cause)),
        })
    })
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
    let made = prop_oneof![
        text().prop_map(Failure::retry),
        text().prop_map(Failure::reject),
        text().prop_map(Failure::outage),
        foreign().prop_map(Failure::from),
        foreign().prop_map(Failure::reject_error),
        any::<Duration>().prop_map(Failure::snooze),
    ];
    (
        made,
        proptest::option::of(text()),
        proptest::option::of(text()),
        proptest::option::of(text()),
        any::<Option<Duration>>(),
    )
        .prop_map(|(mut failure, class, detail, key, after)| {
            if let Some(key) = key {
                failure = failure.failure_key(key);
            }
            if let Some(class) = class {
                failure = failure.class(class);
            }
            if let Some(detail) = detail {
                failure = failure.detail(detail);
            }
            match after {
                Some(after) => failure.after(after),
                None => failure,
            }
        })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_error_can_be_stored(failure in failure(), hook in 0..3_u8) {
        prop_assert!(is_writable(&failure.report), "{failure:?}");
        let hooked = failure.report.clone().redacted(&|text: &str| match hook {
            0 => String::new(),
            1 => text.repeat(50),
            _ => std::panic::resume_unwind(Box::new("no")),
        });
        prop_assert!(is_writable(&hooked), "{hooked:?}");
    }
}
