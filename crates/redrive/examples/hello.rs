//! The smallest service, for what it weighs: its size, its memory, its dependencies.

use std::error::Error;

use redrive::{Job, Payload, Queue, Worker};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Greeting {
    name: String,
}

impl Payload for Greeting {
    const KIND: &'static str = "greeting";
}

#[expect(clippy::print_stdout, reason = "an example")]
fn main() -> Result<(), Box<dyn Error>> {
    let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
    let queue = Queue::new(&db, "greetings")?;
    let worker = Worker::builder(&queue)
        .handle(|job: &Job<Greeting>| {
            println!("hello {}", job.payload().name);
            Ok(())
        })
        .start()?;
    // Until standard input ends.
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    worker.stop(std::time::Duration::from_secs(5))?;
    Ok(())
}
