//! Captures: foreign failures as letters, byte for byte, once per position.

mod bulk;
mod delivered;
mod large;
mod reopened;
mod single;
mod sql;
mod stream;

use redrive_tests::prelude::*;

fn captured(position: &str, raw: &[u8]) -> ForeignFailure {
    ForeignFailure::new("kafka:orders", position, "orders", "order", raw)
}
