//! A program that delivers letters to a sink that never returns, for a test that kills it:
//! `test_delivery URL`.
//!
//! It inserts a row into `begun` (job) for each letter that its sink receives.

#![expect(
    clippy::expect_used,
    reason = "a panic here fails the test that started it"
)]

use std::thread;

use postgres::{Client, NoTls};
use redrive::Failure;
use redrive::dlq::{Letter, LetterFilter};
use redrive_tests::{Sql as _, maria};

fn main() {
    let url = std::env::args().nth(1).expect("the URL of the database");
    let db = redrive::connect(&url).expect("connect");
    let sink = |letter: &Letter| -> Result<(), Failure> {
        let mut client = Client::connect(&url, NoTls).expect("connect");
        let begun = "INSERT INTO public.begun (job) VALUES ($1)";
        client.change(begun, &[&letter.id.get()]);
        loop {
            thread::park();
        }
    };
    let delivered = db.dlq().deliver(&LetterFilter::new(), &sink, &maria());
    delivered.expect("it is killed before that");
}
