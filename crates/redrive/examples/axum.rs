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

fn router(db: Database) -> Router {
    Router::new().route("/users", post(sign_up)).with_state(db)
}

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
    let service = Runtime::new()?;
    service.spawn(async move {
        let listener = TcpListener::bind("127.0.0.1:8080").await?;
        axum::serve(listener, router(db)).await
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
        let service = Runtime::new().expect("a runtime");
        let listener = service.block_on(TcpListener::bind("127.0.0.1:0"));
        let listener = listener.expect("a port");
        let url = format!("http://{}/users", listener.local_addr().expect("a port"));
        let router = router(db.clone());
        service.spawn(async move { axum::serve(listener, router).await });
        let request = ureq::post(&url).header("Content-Type", "application/json");
        let answer = request
            .send(r#"{"mail": "ada@example.org"}"#)
            .expect("a job");
        assert_eq!(answer.status(), 200);
        let worker = worker(&db).expect("a worker");
        assert!(worker.drain(Duration::from_secs(30)).expect("a drain"));
        let report = worker.stop(Duration::from_secs(10)).expect("a stop");
        assert!(report.stats.done >= 1);
    }
}
