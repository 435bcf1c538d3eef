//! A process with four databases of its own for tests that end it: `test_database`, or `test_database panic`.
//!
//! It prints their URLs, and ends when its input does.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a panic here fails the test that started it, which reads the output"
)]

use std::io::Read as _;
use std::thread;

use redrive::testing::TestDatabase;

fn main() {
    let new = || TestDatabase::new().unwrap_or_else(|error| panic!("{error:#}"));
    let started: Vec<_> = (0..4).map(|_| thread::spawn(new)).collect();
    let databases = started
        .into_iter()
        .map(|one| one.join().expect("a database"));
    let databases: Vec<TestDatabase> = databases.collect();
    for database in &databases {
        println!("{}", database.url());
    }
    let mut input = String::new();
    std::io::stdin()
        .read_to_string(&mut input)
        .expect("the end");
    assert!(std::env::args().nth(1).is_none(), "as it was told");
}
