//! The name of the program in the commands that it suggests.

use std::cell::RefCell;
use std::fmt;

/// The name of the program that has nothing registered.
pub(crate) const OWN_NAME: &str = "redrive";

thread_local! {
    static NAME: RefCell<String> = RefCell::new(OWN_NAME.to_owned());
}

/// The program, by the name under which this thread runs it: `{Me} dlq list`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Me;

impl Me {
    /// Names the program.
    pub(crate) fn run_as(name: &str) {
        NAME.set(name.to_owned());
    }
}

impl fmt::Display for Me {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        NAME.with_borrow(|name| f.write_str(name))
    }
}
