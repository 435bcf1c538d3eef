//! Errors of handlers: whatever they say, it can be written.

use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use proptest::prelude::*;

use super::{config, text};
use crate::backoff::Backoff;
use crate::cause::Cause;
use crate::failure::{Failure, MESSAGE_BYTES, Story};
use crate::job::MOST_ATTEMPTS;
use crate::judge::{Circumstances, Outcome, Verdict, judge};
use crate::name;
use crate::run::run;

/// An error of somebody else, which may show itself, say that it cannot, or panic.
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

/// Whether the database takes it: no NUL, and no longer than its columns are.
fn is_writable(story: &Story) -> bool {
    let fits = |text: &str, most: usize| text.len() <= most && !text.contains('\0');
    fits(&story.class, 1024)
        && fits(&story.message, MESSAGE_BYTES)
        && story
            .detail
            .as_deref()
            .is_none_or(|detail| fits(detail, 64 * 1024))
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
        any::<Option<Duration>>(),
    )
        .prop_map(|(mut failure, class, detail, after)| {
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
    fn whatever_an_error_says_can_be_written(failure in failure(), hook in 0..3_u8) {
        prop_assert!(is_writable(&failure.story), "{failure:?}");
        let hooked = failure.story.clone().redacted(&|text: &str| match hook {
            0 => String::new(),
            1 => text.repeat(50),
            _ => std::panic::resume_unwind(Box::new("no")),
        });
        prop_assert!(is_writable(&hooked), "{hooked:?}");
    }

    #[test]
    fn a_long_text_keeps_its_head_and_its_tail(class in text(), message in text(), times in 1..400_usize) {
        let message = message.repeat(times);
        let story = Story::new(&class, message.clone(), None);
        prop_assert!(is_writable(&story));
        if message.replace('\0', "\u{fffd}").len() <= MESSAGE_BYTES {
            prop_assert_eq!(story.message, message.replace('\0', "\u{fffd}"));
        } else {
            let whole = message.replace('\0', "\u{fffd}");
            let (head, tail) = story.message.split_once("\n[... cut ...]\n").expect("a cut");
            prop_assert!(whole.starts_with(head) && whole.ends_with(tail));
            prop_assert!(head.len() > 1000 && tail.len() > 1000);
        }
    }

    #[test]
    fn what_a_handler_does_never_ends_its_thread(failure in failure(), panics in any::<bool>()) {
        let outcome = run(|| match panics {
            false => Err(failure),
            true => std::panic::resume_unwind(Box::new(failure)),
        });
        match outcome {
            Outcome::Failed(_) => prop_assert!(!panics),
            Outcome::Panicked(story) => prop_assert!(panics && is_writable(&story)),
            other @ (Outcome::Done | Outcome::Undecodable(_) | Outcome::Unhandled(_) | Outcome::TimedOut(_)) => {
                prop_assert!(false, "{other:?}");
            }
        }
    }

    #[test]
    fn attempts_end_and_delays_are_bounded(
        failure in failure(),
        attempt in any::<u32>(),
        max_attempts in 1..=MOST_ATTEMPTS,
        cancelled in any::<bool>(),
        base in any::<Duration>(),
        outage_age in any::<Option<Duration>>(),
        park in any::<Duration>(),
        random in any::<f64>(),
    ) {
        let backoff = Backoff::exponential(base);
        let at = Circumstances {
            attempt,
            max_attempts,
            cancelled,
            backoff: &backoff,
            outage_age,
            park,
            random: random.abs() % 1.0,
        };
        let outcome = Outcome::Failed(failure);
        let (dependency, is_outage) = match outcome.outage() {
            Some((dependency, _)) => (dependency.map(str::to_owned), true),
            None => (None, false),
        };
        if let Some(dependency) = dependency {
            prop_assert!(name::check("dependency", &dependency).is_ok());
        }
        _ = Cause::of(&outcome);
        let day = Duration::from_hours(24);
        match judge(outcome, &at) {
            Verdict::Done => prop_assert!(false, "a failure is not done"),
            Verdict::Retry { delay, .. } => {
                prop_assert!(attempt < max_attempts && !cancelled, "{attempt} of {max_attempts}");
                prop_assert!(delay <= crate::backoff::LONGEST_BACKOFF);
            }
            Verdict::Snooze { delay } => prop_assert!(delay <= crate::job::LONGEST_DELAY),
            Verdict::Outage { delay, .. } => {
                prop_assert!(is_outage && outage_age.is_none_or(|age| age <= day));
                prop_assert!(delay <= crate::backoff::LONGEST_BACKOFF.mul_f64(1.25));
            }
            Verdict::Dead { story, .. } => prop_assert!(is_writable(&story)),
        }
    }
}
