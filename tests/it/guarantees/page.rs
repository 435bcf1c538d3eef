//! GUARANTEES.md: its numbers equal those of the code, and its promises have tests.

mod numbers;
mod promises;

/// Returns the parts of a text between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}
