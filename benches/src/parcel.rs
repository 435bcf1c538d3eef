//! The payloads that are moved: about 130 bytes, of one kind or of ten.

use redrive::Payload;
use serde::{Deserialize, Serialize};

/// A payload of about 130 bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Parcel {
    /// Its number.
    pub id: u64,
    /// Ballast.
    pub pad: String,
}

impl Payload for Parcel {
    const KIND: &'static str = "parcel";
}

impl Parcel {
    /// The parcel of this number.
    pub fn new(id: u64) -> Parcel {
        Parcel {
            id,
            pad: "x".repeat(100),
        }
    }

    /// The first `count` parcels.
    pub fn many(count: usize) -> Vec<Parcel> {
        (0..count as u64).map(Parcel::new).collect()
    }

    /// As JSON, for the floor.
    pub fn json(&self) -> String {
        format!("{{\"id\": {}, \"pad\": \"{}\"}}", self.id, self.pad)
    }
}

/// How many kinds of [`Kind`] there are.
pub const KINDS: usize = 10;

const NAMES: [&str; KINDS] = [
    "kind-0", "kind-1", "kind-2", "kind-3", "kind-4", "kind-5", "kind-6", "kind-7", "kind-8",
    "kind-9",
];

/// The payload of one kind of ten: a parcel by another name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Kind<const N: usize>(pub Parcel);

impl<const N: usize> Payload for Kind<N> {
    const KIND: &'static str = NAMES[N];
}
