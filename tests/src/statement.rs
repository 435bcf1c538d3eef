//! The statements of the library, for tests that run a single one.

/// Returns the text of a statement.
pub fn statement(name: &str) -> &'static str {
    let found = redrive::statements().find(|(known, _)| *known == name);
    found
        .unwrap_or_else(|| panic!("no statement is called `{name}`"))
        .1
}
