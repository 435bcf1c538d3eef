//! Failures: what a handler answers when it did not succeed, and what of it is kept.
//!
//! `?` in a handler means "retry later"; to give up takes the explicit [`Failure::reject`].

use std::backtrace::{Backtrace, BacktraceStatus};
use std::error::Error as StdError;
use std::fmt::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::name;

/// The longest error class kept, in bytes.
const CLASS_BYTES: usize = 1024;
/// The longest error message kept, in bytes; a longer one is whole at the head of the detail,
/// which is stored once for the letters that died alike.
pub(crate) const MESSAGE_BYTES: usize = 2 * 1024;
/// The longest detail (cause chain, backtrace) kept, in bytes.
const DETAIL_BYTES: usize = 64 * 1024;

/// Why a handler did not succeed, and what should follow.
///
/// Any error turns into one that asks for a retry, so `?` works in handlers:
///
/// ```
/// use redrive::{Failure, Job};
///
/// fn parse(job: &Job<String>) -> Result<(), Failure> {
///     let n: i64 = job.payload().parse()?; // any error: retry, with backoff
///     if n < 0 {
///         return Err(Failure::reject("a negative number").class("Negative")); // never again
///     }
///     Ok(())
/// }
///
/// assert!(parse(&Job::sample("7".to_string())).is_ok());
/// assert!(parse(&Job::sample("-7".to_string())).is_err());
/// ```
///
/// Like `anyhow::Error`, and for the same reason, it does not implement `Error` itself.
#[derive(Debug)]
pub struct Failure {
    pub(crate) wish: Wish,
    pub(crate) story: Story,
    /// What is down, when the wish is [`Wish::Outage`] and the handler named it.
    pub(crate) dependency: Option<String>,
}

/// What the handler asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// Another attempt after the backoff of the kind.
    Retry,
    /// Another attempt after this long.
    RetryAfter(Duration),
    /// No further attempt: a dead letter.
    Reject,
    /// Run it again after this long; this attempt does not count.
    Snooze(Duration),
    /// Run it again when what it needs is back; this attempt does not count.
    Outage,
}

impl Failure {
    /// Asks for another attempt, with a message instead of an error value.
    pub fn retry(message: impl Into<String>) -> Failure {
        Failure {
            wish: Wish::Retry,
            story: Story::new("Retry", message.into(), None),
            dependency: None,
        }
    }

    /// Gives up at once: no retry can help, the job becomes a dead letter with the reason
    /// `rejected`.
    pub fn reject(message: impl Into<String>) -> Failure {
        Failure {
            wish: Wish::Reject,
            story: Story::new("Rejected", message.into(), None),
            dependency: None,
        }
    }

    /// Gives up at once because of an error, whose type and causes the letter keeps.
    pub fn reject_error(error: impl StdError + 'static) -> Failure {
        Failure {
            wish: Wish::Reject,
            story: Story::of(&error),
            dependency: None,
        }
    }

    /// Puts the job off: it runs again after `delay`, and this attempt does not count.
    /// At most 30 days.
    pub fn snooze(delay: Duration) -> Failure {
        Failure {
            wish: Wish::Snooze(delay),
            story: Story::new("Snoozed", String::new(), None),
            dependency: None,
        }
    }

    /// Says that something that the job needs is down: the job waits until it is back, and this
    /// attempt does not count, for up to 24 hours of nothing but outages. After that an outage is
    /// a failure like any other.
    ///
    /// After five in a row (see
    /// [`WorkerBuilder::breaker_after`](crate::WorkerBuilder::breaker_after)) the *breaker* opens:
    /// nobody claims the jobs concerned until a single one, tried now and then, meets no outage.
    /// Which jobs those are [`dependency`](Failure::dependency) says.
    ///
    /// ```
    /// use redrive::{Failure, Job};
    ///
    /// fn pay(job: &Job<u32>) -> Result<(), Failure> {
    ///     match std::net::TcpStream::connect("127.0.0.1:1") {
    ///         Ok(_gateway) => Ok(()),
    ///         Err(error) => Err(Failure::outage(error.to_string()).dependency("payments-api")),
    ///     }
    /// }
    ///
    /// assert!(pay(&Job::sample(7)).is_err());
    /// ```
    pub fn outage(message: impl Into<String>) -> Failure {
        Failure {
            wish: Wish::Outage,
            story: Story::new("Outage", message.into(), None),
            dependency: None,
        }
    }

    /// Names what is down, for an [`outage`](Failure::outage): then only the kinds that depend on
    /// it wait, in every queue. Defaults to what the kind was registered with
    /// ([`HandlerOptions::dependency`](crate::HandlerOptions::dependency)), or else to the whole
    /// queue. 1 to 100 characters, none of them a control character; what else there is in a name
    /// is left out. Any other failure than an outage stays what it is.
    #[must_use]
    pub fn dependency(mut self, name: impl Into<String>) -> Failure {
        self.dependency = Some(name::cleaned(&name.into())).filter(|name| !name.is_empty());
        self
    }

    /// Asks for the next attempt after `delay` instead of the backoff of the kind.
    /// At most 30 days. A rejection stays one; an outage is over when it is over.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Failure {
        self.wish = match self.wish {
            Wish::Retry | Wish::RetryAfter(_) => Wish::RetryAfter(delay),
            Wish::Reject => Wish::Reject,
            Wish::Outage => Wish::Outage,
            Wish::Snooze(_) => Wish::Snooze(delay),
        };
        self
    }

    /// Names the class of the error, by which letters are grouped.
    /// Defaults to the type of the error that was converted.
    #[must_use]
    pub fn class(mut self, class: impl Into<String>) -> Failure {
        self.story.class = clip(class.into(), CLASS_BYTES);
        self
    }

    /// Adds a detail that the letter keeps: a response body, a cause.
    #[must_use]
    pub fn detail(mut self, detail: impl Into<String>) -> Failure {
        let detail = detail.into();
        self.story.detail = Some(clip(
            // A message that was too long is there already, and stays.
            match self.story.detail.take() {
                Some(message) if self.story.is_cut() && !detail.contains(&message) => {
                    format!("{message}\n{detail}")
                }
                Some(_) | None => detail,
            },
            DETAIL_BYTES,
        ));
        self
    }

    /// The message of the failure.
    pub fn message(&self) -> &str {
        &self.story.message
    }
}

impl<E: StdError + 'static> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure {
            wish: Wish::Retry,
            story: Story::of(&error),
            dependency: None,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.story.message)
    }
}

/// What is told about an error: always text that the database accepts, never too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Story {
    pub(crate) class: String,
    pub(crate) message: String,
    pub(crate) detail: Option<String>,
}

impl Story {
    pub(crate) fn new(class: &str, message: String, detail: Option<String>) -> Story {
        let detail = if message.len() > MESSAGE_BYTES {
            let after = detail.map_or_else(String::new, |detail| format!("\n{detail}"));
            Some(format!("{message}{after}"))
        } else {
            detail
        };
        Story {
            class: clip(class.to_owned(), CLASS_BYTES),
            message: clip(message, MESSAGE_BYTES),
            detail: detail.map(|detail| clip(detail, DETAIL_BYTES)),
        }
    }

    /// The same story after the hook of the program has taken out what must not be kept. A hook
    /// that panics loses the text, and nothing else.
    pub(crate) fn redacted(self, redact: &(dyn Fn(&str) -> String + Send + Sync)) -> Story {
        let cleaned = |text: &str| {
            catch_unwind(AssertUnwindSafe(|| redact(text)))
                .unwrap_or_else(|_| "[redacted: the hook panicked]".to_owned())
        };
        let detail = self.detail.as_deref().map(cleaned);
        Story::new(&self.class, cleaned(&self.message), detail)
    }

    /// Whether the message was too long, so that the detail begins with it.
    fn is_cut(&self) -> bool {
        self.message.contains(CUT)
    }

    /// The story of a job that an operator cancelled and that has none of its own.
    pub(crate) fn cancelled() -> Story {
        Story::new("cancelled", "cancelled by an operator".to_owned(), None)
    }

    /// The story of an error: its type, its message, its causes, and a backtrace when the
    /// program runs with `RUST_BACKTRACE`.
    fn of<E: StdError + 'static>(error: &E) -> Story {
        let mut detail = String::new();
        let mut cause = error.source();
        while let Some(error) = cause {
            // Writing to a String cannot fail, but a Display of the user's may say it does.
            _ = writeln!(detail, "caused by: {}", shown(error));
            cause = error.source();
        }
        let backtrace = Backtrace::capture();
        if backtrace.status() == BacktraceStatus::Captured {
            _ = write!(detail, "{backtrace}");
        }
        let detail = (!detail.is_empty()).then_some(detail);
        Story::new(std::any::type_name::<E>(), shown(error), detail)
    }
}

/// What an error displays, even when its `Display` panics.
fn shown(error: &dyn StdError) -> String {
    catch_unwind(AssertUnwindSafe(|| error.to_string()))
        .unwrap_or_else(|_| "an error whose Display panics".to_owned())
}

/// What stands for the middle of a text that was cut.
const CUT: &str = "\n[... cut ...]\n";

/// Cuts a text to its head and its tail, and replaces NUL, which the database cannot hold.
pub(crate) fn clip(text: String, bytes: usize) -> String {
    let text = if text.contains('\0') {
        text.replace('\0', "\u{fffd}")
    } else {
        text
    };
    if text.len() <= bytes {
        return text;
    }
    let half = (bytes - CUT.len()) / 2;
    let head = text.floor_char_boundary(half);
    let tail = text.ceil_char_boundary(text.len() - half);
    format!("{}{CUT}{}", &text[..head], &text[tail..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(std::num::ParseIntError);

    impl fmt::Display for Outer {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("cannot read the amount")
        }
    }

    impl StdError for Outer {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn an_error_tells_its_type_message_and_causes() {
        let failure = Failure::from(Outer("x".parse::<i32>().expect_err("not a number")));
        assert_eq!(failure.wish, Wish::Retry);
        assert!(
            failure.story.class.ends_with("failure::tests::Outer"),
            "{}",
            failure.story.class
        );
        assert_eq!(failure.story.message, "cannot read the amount");
        let detail = failure.story.detail.expect("a cause");
        assert!(detail.starts_with("caused by: invalid digit"), "{detail}");
    }

    #[test]
    fn text_is_made_safe_for_the_database() {
        #[derive(Debug)]
        struct Evil;
        impl fmt::Display for Evil {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                panic!("in Display")
            }
        }
        impl StdError for Evil {}
        assert_eq!(
            Failure::from(Evil).message(),
            "an error whose Display panics"
        );
        assert_eq!(Failure::reject("a\0b").message(), "a\u{fffd}b");

        let long = format!("{}{}", "é".repeat(10_000), "tail");
        let cut = Failure::reject(long).story.message;
        assert!(cut.len() <= MESSAGE_BYTES && cut.starts_with("éé") && cut.ends_with("étail"));
        assert!(cut.contains("[... cut ...]"));
    }

    #[test]
    fn a_dependency_has_a_name_that_the_database_takes() {
        for (given, kept) in [
            ("payments-api", Some("payments-api")),
            (" pay\0ments\n", Some("payments")),
            ("\t", None),
        ] {
            let failure = Failure::outage("down").dependency(given);
            assert_eq!(failure.dependency.as_deref(), kept, "{given:?}");
        }
        let long = Failure::outage("down").dependency("x".repeat(1000));
        assert_eq!(long.dependency.map(|name| name.len()), Some(100));
    }

    #[test]
    fn a_long_message_is_whole_at_the_head_of_the_detail() {
        let long = format!("{}{}", "x".repeat(5_000), "end");
        let story = Failure::reject(long.clone()).detail("and more").story;
        assert!(story.message.len() <= MESSAGE_BYTES);
        assert_eq!(story.detail.as_deref(), Some(&*format!("{long}\nand more")));
        let short = Failure::reject("short").detail("one").detail("two").story;
        assert_eq!(short.detail.as_deref(), Some("two"));
    }

    #[test]
    fn a_hook_cleans_every_text_and_may_panic() {
        let story = || Failure::reject("card 4111").detail("of 4111").story;
        let cleaned = story().redacted(&|text| text.replace("4111", "****"));
        assert_eq!(
            (&*cleaned.message, cleaned.detail.as_deref()),
            ("card ****", Some("of ****"))
        );
        let lost = story().redacted(&|_| panic!("in the hook"));
        assert_eq!(lost.class, "Rejected");
        assert_eq!(lost.message, "[redacted: the hook panicked]");
    }

    #[test]
    fn after_keeps_a_rejection_a_rejection() {
        let delay = Duration::from_secs(9);
        assert_eq!(
            Failure::retry("later").after(delay).wish,
            Wish::RetryAfter(delay)
        );
        assert_eq!(Failure::reject("never").after(delay).wish, Wish::Reject);
        assert_eq!(Failure::outage("down").after(delay).wish, Wish::Outage);
        assert_eq!(
            Failure::snooze(Duration::ZERO).after(delay).wish,
            Wish::Snooze(delay)
        );
    }

    #[test]
    fn fifty_megabytes_of_an_error_are_cut() {
        for text in ["x", "\0", "é", "😀\n"] {
            let text = text.repeat(50 * 1024 * 1024 / text.len());
            let failure = Failure::retry(text.clone())
                .class(text.clone())
                .detail(text);
            let Story {
                class,
                message,
                detail,
            } = failure.story;
            assert!(class.len() <= CLASS_BYTES && message.len() <= MESSAGE_BYTES);
            assert!(detail.expect("a detail").len() <= DETAIL_BYTES);
        }
    }
}
