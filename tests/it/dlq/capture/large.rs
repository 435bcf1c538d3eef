//! Captures of over 16 MiB: the letter shows the start, and nothing loses or leaves behind the rest.

mod kept;
mod removed;

use redrive_tests::prelude::*;

use super::captured;

/// What a letter keeps of such bytes.
const START: usize = 64 * 1024;

/// 17 MiB of JSON, with this value at their end.
fn body(secret: &str) -> Vec<u8> {
    let mut body = b"{\"blob\": \"".to_vec();
    body.resize(17 << 20, b'x');
    body.extend(format!("\", \"card\": \"{secret}\"}}").into_bytes());
    body
}

/// Fails unless the letter has the start of these bytes and the database all of them.
#[track_caller]
fn is_whole(db: &Database, id: JobId, body: &[u8]) {
    let letter = db.letter(id);
    let is_start = letter.raw.as_deref() == Some(&body[..START]);
    assert!(is_start, "another start");
    assert_eq!(letter.raw_size, Some(body.len() as u64));
    assert!(letter.payload.is_none());
    let found = db.dlq().captured_bytes(id).unwrap();
    assert!(found.as_deref() == Some(body), "other bytes");
}
