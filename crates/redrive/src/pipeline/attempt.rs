//! Runs a handler so that it cannot end its thread.

use std::cell::RefCell;
use std::panic::{self, PanicHookInfo};
use std::sync::Once;

use crate::job::caught::caught;
use crate::job::error_report::{ErrorReport, backtrace};
use crate::job::failure::Failure;
use crate::pipeline::outcome::{FailedBy, Outcome};

thread_local! {
    /// Where the handler on this thread panicked. `None`: no handler is running.
    static PANIC_SITE: RefCell<Option<PanicSite>> = const { RefCell::new(None) };
}

/// The location and the backtrace, which only the panic hook knows.
type PanicSite = (Option<String>, Option<String>);

/// Calls a handler. A panic is a failure like any other.
pub(crate) fn run_handler<T>(handler: impl FnOnce() -> Result<T, Failure>) -> Result<T, Outcome> {
    install_hook();
    PANIC_SITE.set(Some(PanicSite::default()));
    let ended = caught(handler);
    let (location, frames) = PANIC_SITE.take().unwrap_or_default();
    match ended {
        Ok(ended) => ended.map_err(Outcome::from),
        Err(panic) => {
            let text = panic.text();
            let message = match location {
                Some(location) => format!("panicked at {location}: {text}"),
                // A resumed panic, for example from another thread, does not pass the hook.
                None => format!("panicked: {text}"),
            };
            let report = ErrorReport::new("panic", message, frames);
            Err(Outcome::of(FailedBy::Panic, report))
        }
    }
}

/// Records location and backtrace of panics in handlers. The program's own hook still runs.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            // The thread may be ending, or the cell in use. Then record nothing.
            _ = PANIC_SITE.try_with(|cell| {
                if let Ok(mut place) = cell.try_borrow_mut()
                    && let Some(place) = place.as_mut()
                {
                    *place = (info.location().map(ToString::to_string), backtrace());
                }
            });
            previous(info);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(ended: &Result<(), Outcome>) -> &str {
        let outcome = ended.as_ref().expect_err("it panics");
        assert_eq!(outcome.by, FailedBy::Panic);
        outcome.failure.message()
    }

    #[test]
    fn a_panic_is_recorded_with_its_location_if_it_has_one() {
        let here = run_handler(|| panic!("boom"));
        assert!(message(&here).contains("attempt.rs:"), "{here:?}");
        assert!(message(&here).ends_with(": boom"), "{here:?}");
        let handed_on = run_handler(|| panic::resume_unwind(Box::new("from elsewhere")));
        assert_eq!(message(&handed_on), "panicked: from elsewhere");
    }
}
