//! Deadlocks: statements that lock several rows lock them in the same order.

mod mixed;
mod order;

use redrive_tests::prelude::*;

/// Makes a database with a short deadlock timeout, which is longer than the lock timeouts of the library.
fn database() -> TestDatabase {
    let test = TestDatabase::migrated();
    test.sets("deadlock_timeout = '150ms'");
    test
}

/// Returns the deadlocks of this database. Call it when all other sessions have ended.
fn deadlocks(test: &TestDatabase) -> i64 {
    let mut client = test.client();
    let others = "SELECT count(*) FROM pg_stat_activity \
                  WHERE datname = current_database() AND pid <> pg_backend_pid()";
    // A session publishes its statistics at its end at the latest.
    wait_until("the other sessions to end", SOON, || {
        client.ask::<i64>(others, &[]) == 0
    });
    let counted = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    client.ask(counted, &[])
}

/// Runs the jobs of a queue, each to its given end, when the gate is open.
fn at_the_gate(queue: &Queue, gate: &Gate, end: fn(i64) -> Result<(), Failure>) -> Worker {
    let handler = gate.passing_to(move |job: &Job<Order>| end(job.payload().number));
    worker(queue).slots(2).runs(handler)
}

/// Two redriven letters: the job of the first dies again, the second succeeds.
fn redriven(test: &TestDatabase, gate: &Gate) -> (Queue, Vec<JobId>, Worker) {
    let queue = test.queue("orders");
    let ids = letters(&queue, 2);
    queue.redrives(&of_orders());
    let worker = at_the_gate(&queue, gate, |number| match number {
        1 => Err(Failure::reject("still broken")),
        _ => Ok(()),
    });
    gate.wait_for(2);
    (queue, ids, worker)
}

/// The letters, and how many an operation selects.
const LETTERS: i64 = 160;

/// Returns a foreign failure.
fn foreign(number: i64) -> ForeignFailure {
    let position = format!("0/{:03}", (number * 37) % LETTERS);
    let payload = format!(r#"{{"number": {number}}}"#);
    let failure = ForeignFailure::new("kafka:orders", position, "orders", "order", payload);
    let message = format!("failure of kind {}", char_of(number));
    failure.error(format!("Class{}", number % 3), message)
}

/// Returns a letter of the alphabet, which normalisation keeps.
fn char_of(number: i64) -> char {
    char::from(b'a' + u8::try_from(number.rem_euclid(7)).expect("small"))
}
