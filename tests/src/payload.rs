//! The payloads of the tests.

use redrive::Payload;
use serde::{Deserialize, Serialize};

/// The payload of most tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// Its number.
    pub number: i64,
}

impl Order {
    /// Orders numbered from 1.
    pub fn up_to(count: i64) -> Vec<Order> {
        (1..=count).map(|number| Order { number }).collect()
    }
}

impl Payload for Order {
    const KIND: &'static str = "order";
}

/// A job that the test worker finishes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Finish {}

impl Payload for Finish {
    const KIND: &'static str = "finish";
}

/// A job that the test worker starts and never finishes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Hold {}

impl Payload for Hold {
    const KIND: &'static str = "hold";
}

/// A job that aborts the test worker.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Abort {}

impl Payload for Abort {
    const KIND: &'static str = "abort";
}

/// A job of a batch of up to 20 that the test worker runs together.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct AbortBatch {
    /// Whether it aborts the test worker.
    pub kills: bool,
}

impl Payload for AbortBatch {
    const KIND: &'static str = "abort_batch";
}

/// A job that the test worker starts in a transaction and never finishes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum HoldTransaction {
    /// The server runs a statement of the transaction.
    InStatement,
    /// The server waits for the next statement.
    BetweenStatements,
}

impl Payload for HoldTransaction {
    const KIND: &'static str = "hold_transaction";
}
