//! Consumes a log of events, and captures what it cannot process: no event stops the others, and
//! none is lost.
//!
//! The log is a file with one event a line, or stdin; the number of a line is its offset, as in a
//! partition of Kafka. A real consumer reads from its broker instead, and commits its offset there.
//!
//! ```sh
//! export DATABASE_URL=postgres://postgres@localhost/shop
//! redrive migrate
//! cargo run -p redrive --example stream_consumer -- orders.ndjson
//! redrive dlq list orders
//! ```
//!
//! The events that failed are letters now, with their bytes as they came. Fix what was wrong, look
//! with `redrive dlq validate`, fix payloads with `redrive dlq edit`, and send them to a worker of
//! the queue with `redrive dlq redrive`, or back to the broker with `redrive dlq deliver`.

#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, stdin};

use redrive::Database;
use redrive::dlq::ForeignFailure;
use serde::Deserialize;

/// An event of the log.
#[derive(Debug, Deserialize)]
pub(crate) struct OrderPlaced {
    order: i64,
    cents: i64,
}

/// The result of consuming a log.
#[derive(Debug, Default)]
pub(crate) struct Consumed {
    pub(crate) processed: u64,
    pub(crate) captured: u64,
    /// Where the next run begins.
    pub(crate) next_offset: u64,
}

/// How many events are processed before the offset moves on.
const BATCH: usize = 100;

fn main() -> Result<(), Box<dyn Error>> {
    let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
    let name = std::env::args().nth(1);
    let log: Box<dyn BufRead> = match &name {
        Some(file) => Box::new(BufReader::new(File::open(file)?)),
        None => Box::new(stdin().lock()),
    };
    let source = format!("log:{}", name.as_deref().unwrap_or("stdin"));
    let consumed = consume(log, &source, 0, &db)?;
    println!("{consumed:?}");
    Ok(())
}

/// Processes the events of a log from an offset on; what fails is captured.
///
/// A batch's failures are letters before its offset is committed. A consumer that is killed in
/// between begins again with the same batch: it captures the same positions, which changes nothing.
pub(crate) fn consume(
    log: impl BufRead,
    source: &str,
    from: u64,
    db: &Database,
) -> Result<Consumed, Box<dyn Error>> {
    let mut consumed = Consumed {
        next_offset: from,
        ..Consumed::default()
    };
    // Bytes, not lines of text: an event that is not UTF-8 is just one more that fails.
    let events = (0..).zip(log.split(b'\n'));
    let mut events = events.skip_while(|(offset, _)| *offset < from).peekable();
    while events.peek().is_some() {
        let (mut failed, mut next_offset) = (Vec::new(), consumed.next_offset);
        for (offset, event) in events.by_ref().take(BATCH) {
            let event = event?;
            if let Err((class, message)) = process(&event) {
                let position = offset.to_string();
                let event = ForeignFailure::new(source, position, "orders", "order.placed", event);
                failed.push(event.error(class, message));
            } else {
                consumed.processed += 1;
            }
            next_offset = offset + 1;
        }
        consumed.captured += db.dlq().capture_many(failed.iter())?.len() as u64;
        // Here the offset is committed to the broker, after what failed is kept.
        consumed.next_offset = next_offset;
    }
    Ok(consumed)
}

/// Processes one event. An error has a class and a message.
fn process(event: &[u8]) -> Result<(), (&'static str, String)> {
    match serde_json::from_slice(event) {
        Ok(OrderPlaced { order, cents }) if cents <= 0 => {
            Err(("OrderRefused", format!("order {order} costs {cents} cents")))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(("Undecodable", error.to_string())),
    }
}
