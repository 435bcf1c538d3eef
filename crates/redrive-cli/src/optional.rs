//! Options that a builder takes only if they are given.

/// A builder whose methods take one value or none.
pub(crate) trait Optional: Sized {
    /// Calls the method if there is a value.
    #[must_use]
    fn with<T>(self, given: Option<T>, method: impl FnOnce(Self, T) -> Self) -> Self {
        match given {
            Some(value) => method(self, value),
            None => self,
        }
    }

    /// Calls the method if the flag is given.
    #[must_use]
    fn with_flag(self, is_given: bool, method: impl FnOnce(Self) -> Self) -> Self {
        match is_given {
            true => method(self),
            false => self,
        }
    }
}

impl<T> Optional for T {}
