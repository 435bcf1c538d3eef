//! Calls code of the program and drops its values, so that neither can end a thread of redrive.

use std::any::Any;
use std::error::Error as StdError;
use std::fmt;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Any error, its type erased.
pub(crate) type BoxedError = Box<dyn StdError + Send + Sync>;

/// Calls code of the program, which may panic.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Panic> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|payload| Panic(Some(payload)))
}

/// What code of the program panicked with.
pub(crate) struct Panic(Option<Box<dyn Any + Send>>);

impl Panic {
    pub(crate) fn text(&self) -> &str {
        let payload = self.0.as_deref();
        let text = payload.and_then(|payload| payload.downcast_ref::<&str>().copied());
        let string = || Some(payload?.downcast_ref::<String>()?.as_str());
        text.or_else(string).unwrap_or("a panic without a message")
    }
}

impl Drop for Panic {
    fn drop(&mut self) {
        let payload = self.0.take();
        // A payload may itself panic when dropped. Then leak what it panics with.
        if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(again);
        }
    }
}

/// An error value of the program, whose `Drop` may panic.
pub(crate) struct ErrorValue(pub(crate) BoxedError);

impl Deref for ErrorValue {
    type Target = dyn StdError + Send + Sync;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl Drop for ErrorValue {
    fn drop(&mut self) {
        // The replacement has no size, so this allocates nothing.
        let error = std::mem::replace(&mut self.0, Box::new(fmt::Error));
        if let Err(panic) = caught(|| drop(error)) {
            log::warn!(
                "an error of a handler panicked when dropped: {}",
                panic.text().replace(char::is_control, " ")
            );
        }
    }
}

impl fmt::Debug for ErrorValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;

    /// A value of the program that panics when it is dropped, with another one.
    struct Evil;

    impl Drop for Evil {
        fn drop(&mut self) {
            panic_any(Evil);
        }
    }

    #[test]
    fn a_payload_that_panics_when_dropped_harms_nothing() {
        let panic = caught(|| panic_any(Evil)).expect_err("it panics");
        assert_eq!(panic.text(), "a panic without a message");
        drop(panic);
    }
}
