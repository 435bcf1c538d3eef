//! Run: call a handler so that nothing it does can end the thread.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::Once;

use crate::failure::{Failure, Story};
use crate::judge::Outcome;

thread_local! {
    /// Where and how the handler on this thread panicked. `None`: no handler is running here.
    static PANIC: RefCell<Option<Place>> = const { RefCell::new(None) };
}

/// What only the panic hook gets to see.
#[derive(Debug, Default)]
struct Place {
    location: Option<String>,
    backtrace: Option<String>,
}

/// Calls a handler; a panic is an outcome like any other.
pub(crate) fn run(handler: impl FnOnce() -> Result<(), Failure>) -> Outcome {
    install_hook();
    PANIC.set(Some(Place::default()));
    let caught = panic::catch_unwind(AssertUnwindSafe(handler));
    let place = PANIC.take().unwrap_or_default();
    match caught {
        Ok(Ok(())) => Outcome::Done,
        Ok(Err(failure)) => Outcome::Failed(failure),
        Err(payload) => {
            let text = text_of(&*payload);
            let message = match place.location {
                Some(location) => format!("panicked at {location}: {text}"),
                // A panic that is handed on, from another thread say, passes no hook.
                None => format!("panicked: {text}"),
            };
            // A payload may panic when it is dropped; then it is leaked, with its own payload.
            if let Err(again) = panic::catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                std::mem::forget(again);
            }
            Outcome::Panicked(Story::new("panic", message, place.backtrace))
        }
    }
}

/// The message of a panic, when it has one.
fn text_of(payload: &(dyn Any + Send)) -> &str {
    if let Some(text) = payload.downcast_ref::<&str>() {
        text
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text
    } else {
        "a value that is no text"
    }
}

/// Notes location and backtrace of panics in handlers; the program's own hook runs as well.
fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            // The thread may be ending, or the cell be in use: then there is nothing to note.
            _ = PANIC.try_with(|cell| {
                if let Ok(mut place) = cell.try_borrow_mut()
                    && let Some(place) = place.as_mut()
                {
                    place.location = info.location().map(ToString::to_string);
                    let backtrace = Backtrace::capture();
                    // Captured only when the program runs with RUST_BACKTRACE.
                    if backtrace.status() == BacktraceStatus::Captured {
                        place.backtrace = Some(backtrace.to_string());
                    }
                }
            });
            previous(info);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(outcome: &Outcome) -> &str {
        let Outcome::Panicked(story) = outcome else {
            panic!("not a panic: {outcome:?}")
        };
        &story.message
    }

    #[test]
    fn a_panic_tells_its_message_and_place() {
        let text = run(|| panic!("boom"));
        assert!(message(&text).contains("src/run.rs:"), "{text:?}");
        assert!(message(&text).ends_with(": boom"), "{text:?}");
        let formatted = run(|| panic!("boom {}", 7));
        assert!(message(&formatted).ends_with(": boom 7"), "{formatted:?}");
        let odd = run(|| panic::panic_any(7));
        assert!(message(&odd).ends_with("no text"), "{odd:?}");
        let handed_on = run(|| panic::resume_unwind(Box::new("from elsewhere")));
        assert_eq!(message(&handed_on), "panicked: from elsewhere");
    }

    #[test]
    fn a_payload_that_panics_when_dropped_ends_nothing() {
        struct Evil;
        impl Drop for Evil {
            fn drop(&mut self) {
                panic!("again");
            }
        }
        assert!(message(&run(|| panic::panic_any(Evil))).ends_with("no text"));
        assert!(matches!(run(|| Ok(())), Outcome::Done));
    }
}
