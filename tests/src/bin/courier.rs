//! A program that delivers letters to a sink that never answers, for a test that kills it:
//! `courier URL`.
//!
//! It tells through rows of the table `begun` (job) which letters its sink has got.

#![expect(
    clippy::expect_used,
    reason = "whatever goes wrong here fails the test that started it"
)]

use std::thread;

use postgres::{Client, NoTls};
use redrive::{Act, Failure, Letter, Letters};

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
    db.redrive_to(&Letters::all(), &sink, &Act::new())
        .expect("it is killed before that");
}
