//! A web service on axum that enqueues jobs, and a worker on plain threads that runs them, in one process.
//!
//! ```sh
//! export DATABASE_URL=postgres://postgres@localhost/shop
//! cargo run -p redrive --example axum
//! curl --json '{"mail": "ada@example.org"}' http://127.0.0.1:8080/users
//! cargo test -p redrive --example axum
//! ```

use std::error::Error;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use redrive::{Database, Failure, Job, Payload, Queue, Worker};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::task::spawn_blocking;

/// The body of the request, and the payload of the job.
#[derive(Serialize, Deserialize, Payload)]
#[payload(kind = "welcome", queue = "mails")]
struct Welcome {
    mail: String,
}

type Refused = (StatusCode, String);

/// redrive blocks, so its calls run beside the threads of the runtime.
async fn sign_up(State(db): State<Database>, Json(new): Json<Welcome>) -> Result<String, Refused> {
    match spawn_blocking(move || db.enqueue(&new)).await {
        Ok(Ok(job)) => Ok(format!("job {job}\n")),
        Ok(Err(error)) => Err((StatusCode::SERVICE_UNAVAILABLE, error.to_string())),
        Err(error) => Err((StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

fn worker(db: &Database) -> redrive::Result<Worker> {
    Worker::builder(&Queue::new(db, "mails")?)
        .handle(|job: &Job<Welcome>| -> Result<(), Failure> {
            log::info!("welcome, {}", job.payload().mail);
            Ok(())
        })
        .start()
}

fn main() -> Result<(), Box<dyn Error>> {
    env_logger::init();
    let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
    db.migrate()?;
    let worker = worker(&db)?;
    // The service runs until the process ends. A signal stops the worker gracefully.
    let router = Router::new().route("/users", post(sign_up)).with_state(db);
    let service = Runtime::new()?;
    service.spawn(async move {
        let listener = TcpListener::bind("127.0.0.1:8080").await?;
        axum::serve(listener, router).await
    });
    worker.run_until_signal(Duration::from_secs(10))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_becomes_a_job_that_the_worker_runs() {
        let db = redrive::connect(&std::env::var("DATABASE_URL").expect("DATABASE_URL"));
        let db = db.expect("a database");
        db.migrate().expect("a schema");
        let mail = "ada@example.org".to_owned();
        let answer = sign_up(State(db.clone()), Json(Welcome { mail }));
        let answer = Runtime::new().expect("a runtime").block_on(answer);
        assert!(answer.expect("a job").starts_with("job "));
        let worker = worker(&db).expect("a worker");
        assert!(worker.drain(Duration::from_secs(30)).expect("a drain"));
        let report = worker.stop(Duration::from_secs(10)).expect("a stop");
        assert!(report.stats.done >= 1);
    }
}
