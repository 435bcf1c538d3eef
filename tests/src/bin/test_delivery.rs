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
use redrive::dlq::{Letter, LetterFilter};
use redrive::{Failure, Operator};

fn main() {
    let url = std::env::args().nth(1).expect("the URL of the database");
    let db = redrive::connect(&url).expect("connect");
    let sink = |letter: &Letter| -> Result<(), Failure> {
        Client::connect(&url, NoTls)
            .and_then(|mut client| {
                client.execute(
                    "INSERT INTO public.begun (job) VALUES ($1)",
                    &[&letter.id.get()],
                )
            })
            .expect("write down a letter");
        loop {
            thread::park();
        }
    };
    db.dlq()
        .deliver(&LetterFilter::new(), &sink, &Operator::default())
        .expect("it is killed before that");
}
