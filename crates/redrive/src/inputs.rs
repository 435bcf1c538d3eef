//! Inputs that nobody thought of, for the pure parts: properties that hold for each of them.
//!
//! `PROPTEST_CASES` says how many inputs a property gets, `PROPTEST_RNG_SEED` which;
//! `cargo xtask fuzz` sets both. A property that fails shows the smallest input it fails with.

mod addresses;
mod edits;
mod filters;
mod names;
mod payloads;
mod stories;
mod texts;
mod times;

use texts::{conditions, config, json, number, text};
