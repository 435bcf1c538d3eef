//! Property tests of the pure parts, with generated inputs.
//!
//! `PROPTEST_CASES` sets the number of inputs per property and `PROPTEST_RNG_SEED` the seed; `cargo
//! xtask fuzz` sets both. A failing property reports its smallest failing input.

mod urls;
mod edits;
mod filters;
mod failures;
mod texts;

use texts::{conditions, config, json, text};
