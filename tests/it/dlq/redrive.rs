//! Redrives of selected letters.

mod concurrency;
mod delay;
mod letters;
mod loops;
mod selection;

use redrive_tests::prelude::*;

use super::runs::{fixable_with, live};

/// A worker whose handler fails until it is fixed.
fn fixable(queue: &Queue) -> (Worker, &'static AtomicBool) {
    fixable_with(queue, || Failure::retry("still broken"))
}
