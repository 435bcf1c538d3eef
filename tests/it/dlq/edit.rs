//! Edits: new payloads, with every version kept.

mod concurrency;
mod payloads;
mod preview;

use redrive_tests::prelude::*;

/// Returns the payload of a letter.
fn payload(queue: &Queue, id: JobId) -> Value {
    let letter = queue.letter(id);
    serde_json::from_str(letter.payload.expect("a payload").get()).unwrap()
}

fn merge(json: &str) -> Edit {
    Edit::merge(json).expect("a merge patch")
}
