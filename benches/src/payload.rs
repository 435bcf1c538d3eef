//! The payloads: about 130 bytes, of one kind or of ten.

use redrive::Payload;
use serde::{Deserialize, Serialize};

/// A payload of about 130 bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BenchPayload {
    /// A number.
    pub id: u64,
    /// Padding.
    pub pad: String,
}

impl Payload for BenchPayload {
    const KIND: &'static str = "payload";
}

impl BenchPayload {
    /// Creates the payload with this number.
    pub fn new(id: u64) -> BenchPayload {
        BenchPayload {
            id,
            pad: "x".repeat(100),
        }
    }

    /// Creates `count` payloads.
    pub fn many(count: usize) -> Vec<BenchPayload> {
        (0..count as u64).map(BenchPayload::new).collect()
    }

    /// Returns the JSON text for the baseline.
    pub fn json(&self) -> String {
        format!("{{\"id\": {}, \"pad\": \"{}\"}}", self.id, self.pad)
    }
}

/// The ten kinds.
pub(crate) const KINDS: [&str; 10] = [
    "kind-0", "kind-1", "kind-2", "kind-3", "kind-4", "kind-5", "kind-6", "kind-7", "kind-8",
    "kind-9",
];

/// The payload of one kind of ten.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kind<const N: usize>(pub BenchPayload);

impl<const N: usize> Payload for Kind<N> {
    const KIND: &'static str = KINDS[N];
}
