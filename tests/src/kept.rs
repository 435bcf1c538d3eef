//! What handlers share with their test.

/// Returns something that lasts as long as the program, so that any handler can use it.
pub fn kept<T: Default>() -> &'static T {
    Box::leak(Box::default())
}
