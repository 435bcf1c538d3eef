//! A command line of a shop's own: all verbs of `redrive`, with the shop's handlers, validators and
//! sinks behind them.
//!
//! ```sh
//! export DATABASE_URL=postgres://postgres@localhost/shop
//! alias shop-dlq='cargo run -q -p redrive-cli --example own_verbs --'
//! shop-dlq migrate
//! shop-dlq enqueue billing invoice '{"order": 7, "cents": -1}'
//! shop-dlq work billing --drain               # our handler, no --exec
//! shop-dlq dlq validate billing               # our validator
//! shop-dlq dlq edit billing --merge '{"cents": 1}' --yes
//! shop-dlq dlq validate billing
//! shop-dlq dlq deliver billing --sink accounting --yes
//! ```

#![allow(clippy::print_stdout, reason = "a program that talks to a terminal")]

use std::process::ExitCode;

use redrive::{Failure, Job, Letter, Payload};
use redrive_cli::Program;
use serde::{Deserialize, Serialize};

/// What the shop sends to its customers.
#[derive(Debug, Serialize, Deserialize)]
struct Invoice {
    order: i64,
    cents: i64,
}

impl Payload for Invoice {
    const KIND: &'static str = "invoice";
}

fn main() -> ExitCode {
    program().main()
}

/// The program, which a test can drive as well.
pub(crate) fn program() -> Program {
    Program::new("shop-dlq")
        .version("1.4.2")
        .handle(send_invoice)
        .validate(check_invoice)
        .sink("accounting", to_accounting)
}

/// Sends an invoice.
fn send_invoice(invoice: &Job<Invoice>) -> Result<(), Failure> {
    check_invoice(invoice.payload()).map_err(|why| Failure::reject(why).class("BadInvoice"))
}

/// Tells whether an invoice makes sense, and does nothing else.
fn check_invoice(invoice: &Invoice) -> Result<(), String> {
    match invoice.cents {
        1.. => Ok(()),
        cents => Err(format!("order {} costs {cents} cents", invoice.order)),
    }
}

/// Where invoices go that cannot be sent.
fn to_accounting(letter: &Letter) -> Result<(), Failure> {
    let Some(payload) = &letter.payload else {
        return Err(Failure::reject("accounting takes JSON alone"));
    };
    // A real one makes a call to another system.
    println!("{payload}");
    Ok(())
}
