//! An order service in plain threads: it takes orders as jobs and delivers each to a payment
//! gateway over HTTP.
//!
//! ```text
//! redrive enqueue orders order.placed --file orders.ndjson   # one JSON object a line
//! order_service --gateway http://127.0.0.1:8080              # until SIGTERM or Ctrl-C
//! ```
//!
//! `cargo xtask demo` runs it through a Friday evening.

use std::error::Error;
use std::time::Duration;

use clap::{Parser, value_parser};
use redrive::{Backoff, Failure, Job, Payload, Queue, Worker};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use ureq::Agent;

/// How many deliveries run at a time.
const SLOTS: usize = 8;
/// How long the gateway may take for one answer, and a stop waits for deliveries under way.
const PATIENCE: Duration = Duration::from_secs(10);

/// Delivers orders to a payment gateway until SIGTERM or Ctrl-C.
#[derive(Debug, Parser)]
struct Arguments {
    /// The PostgreSQL that holds the jobs.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// The queue of the orders.
    #[arg(long, default_value = "orders")]
    queue: String,
    /// Where the payment gateway listens.
    #[arg(long)]
    gateway: String,
    /// Which release of this service to be. The second one trims the currency: a partner sends `"USD "`.
    #[arg(long, default_value_t = 2, value_parser = value_parser!(u8).range(1..=2))]
    release: u8,
}

/// An order, as its shop sent it: any JSON object.
#[derive(Clone, Debug, Serialize, Deserialize, Payload)]
#[payload(kind = "order.placed")]
#[serde(transparent)]
struct OrderPlaced(Map<String, Value>);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    env_logger::Builder::from_env(env_logger::Env::new().default_filter_or("warn")).init();
    let db = redrive::connect(&arguments.database_url)?;
    let queue = Queue::new(&db, &arguments.queue)?;
    let gateway = Agent::config_builder()
        // A rejected order has a response body worth reading, so the client must not fail.
        .http_status_as_error(false)
        .timeout_global(Some(PATIENCE))
        .max_idle_connections_per_host(SLOTS)
        .build();
    let (gateway, release) = (Agent::from(gateway), arguments.release);
    let url = format!("{}/payments", arguments.gateway);
    let worker = Worker::builder(&queue)
        .slots(SLOTS)
        .version(format!("release {release}"))
        // Short, so that the evening of the demo is; minutes and hours in real life.
        .backoff(Backoff::exponential(Duration::from_millis(200)).max(Duration::from_secs(2)))
        .poll_interval(Duration::from_millis(200))
        .handle(move |job: &Job<OrderPlaced>| {
            let mut order = job.payload().clone();
            // The fix of the second release.
            if let (2, Some(Value::String(currency))) = (release, order.0.get_mut("currency")) {
                *currency = currency.trim().to_owned();
            }
            // The job keeps its id for life.
            charge(&gateway, &url, &order, &job.id().to_string())
        })
        .start()?;
    let stopped = worker.run_until_signal(PATIENCE)?;
    log::info!("stopped: {stopped:?}");
    Ok(())
}

/// Charges an order once, however often it is called with the same key.
fn charge(gateway: &Agent, url: &str, order: &OrderPlaced, key: &str) -> Result<(), Failure> {
    let request = gateway.post(url).header("Idempotency-Key", key);
    let mut answer = request.send_json(order)?; // no connection, a timeout: retry later
    match answer.status().as_u16() {
        200..=299 => Ok(()),
        // The order itself is wrong: no retry can help.
        422 => {
            let refusal: Refusal = answer.body_mut().read_json()?;
            Err(Failure::reject(refusal.message).class(refusal.error))
        }
        status => {
            let message = format!("the payment gateway answered {status}");
            Err(Failure::retry(message).class("GatewayTrouble"))
        }
    }
}

/// The gateway's word on a malformed order.
#[derive(Debug, Deserialize)]
struct Refusal {
    error: String,
    message: String,
}
