//! The library's own statements, for tests that run one by itself.

/// The text of the statement with this name.
pub fn statement(name: &str) -> &'static str {
    let found = redrive::statements().find(|(known, _)| *known == name);
    found
        .unwrap_or_else(|| panic!("no statement is called `{name}`"))
        .1
}
