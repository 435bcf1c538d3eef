//! The smallest program: it enqueues a job, runs it and ends.

use std::error::Error;
use std::time::Duration;

use redrive::{Job, Payload, Queue, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Payload)]
#[payload(kind = "greeting")]
struct Greeting {
    name: String,
}

#[expect(clippy::print_stdout, reason = "an example")]
fn main() -> Result<(), Box<dyn Error>> {
    let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
    db.migrate()?;
    let queue = Queue::new(&db, "greetings")?;
    queue.enqueue(&Greeting {
        name: "world".to_owned(),
    })?;
    let worker = Worker::builder(&queue)
        .handle(|job: &Job<Greeting>| {
            println!("hello {}", job.payload().name);
            Ok(())
        })
        .start()?;
    // A service calls `run_until_signal` instead.
    worker.drain(Duration::from_secs(30))?;
    Ok(())
}
