//! A command line for a shop: every command of `redrive`, with the handlers, validators and sinks
//! of the shop.
//!
//! ```sh
//! export DATABASE_URL=postgres://postgres@localhost/shop
//! alias shop-dlq='cargo run -q -p redrive-cli --example own_verbs --'
//! shop-dlq migrate
//! shop-dlq enqueue billing invoice '{"order": 7, "cents": -1}'
//! shop-dlq work billing --drain               # uses the handler, without --exec
//! shop-dlq dlq validate billing               # uses the validator
//! shop-dlq dlq edit billing --merge '{"cents": 1}' --yes
//! shop-dlq dlq validate billing
//! shop-dlq dlq deliver billing --sink accounting --yes
//! ```

#![allow(clippy::print_stdout, reason = "the example prints to a terminal")]

use std::process::ExitCode;

use redrive::dlq::{Letter, Validators};
use redrive::{Failure, Handlers, Job, Payload};
use redrive_cli::Program;
use serde::{Deserialize, Serialize};

/// An invoice to a customer.
#[derive(Debug, Serialize, Deserialize, Payload)]
#[payload(kind = "invoice")]
struct Invoice {
    order: i64,
    cents: i64,
}

fn main() -> ExitCode {
    program().main()
}

/// Builds the program. A test calls this too.
pub(crate) fn program() -> Program {
    Program::new("shop-dlq")
        .version("1.4.2")
        .handlers(Handlers::new().handle(send_invoice))
        .validators(Validators::new().check(check_invoice))
        .sink("accounting", to_accounting)
}

/// Sends an invoice.
fn send_invoice(invoice: &Job<Invoice>) -> Result<(), Failure> {
    check_invoice(invoice.payload()).map_err(|error| Failure::reject(error).class("BadInvoice"))
}

/// Checks an invoice. A validator has no side effects.
fn check_invoice(invoice: &Invoice) -> Result<(), String> {
    match invoice.cents {
        1.. => Ok(()),
        cents => Err(format!("order {} costs {cents} cents", invoice.order)),
    }
}

/// Delivers an invoice to accounting.
fn to_accounting(letter: &Letter) -> Result<(), Failure> {
    let Some(payload) = &letter.payload else {
        return Err(Failure::reject("accounting accepts only JSON"));
    };
    // A real sink would call another system.
    println!("{payload}");
    Ok(())
}
