//! A web shop on plain threads: it takes orders over HTTP, and charges and ships them as jobs.
//!
//! ```sh
//! export DATABASE_URL=postgres://postgres@localhost/shop
//! cargo run -p redrive --example shop -- http://127.0.0.1:9000/charges
//! curl -d '{"customer": "ada", "cents": 4200}' http://127.0.0.1:8080/orders
//! cargo test -p redrive --example shop    # the tests below; they leave nothing in the database
//! ```

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use redrive::postgres::{NoTls, Transaction};
use redrive::r2d2_postgres::PostgresConnectionManager;
use redrive::{Database, Failure, Handlers, Job, NewJob, Payload, Pooler, Workers, r2d2};
use serde::{Deserialize, Serialize};
use tiny_http::{Method, Request, Response, Server};

const SCHEMA: &str = "CREATE TABLE IF NOT EXISTS shop_orders
    (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text NOT NULL,
     cents bigint NOT NULL CHECK (cents > 0), state text NOT NULL DEFAULT 'placed')";

#[derive(Deserialize)]
struct NewOrder {
    customer: String,
    cents: i64,
}

#[derive(Serialize, Deserialize, Payload)]
#[payload(kind = "shop.charge", queue = "payments")]
struct Charge {
    order: i64,
}

#[derive(Serialize, Deserialize, Payload)]
#[payload(kind = "shop.ship", queue = "parcels")]
struct Ship {
    order: i64,
}

/// Who takes the money. A call with the key of an earlier one charges nothing.
type Gateway = Box<dyn Fn(&str, i64) -> Result<(), NotCharged> + Send + Sync>;

enum NotCharged {
    Declined,
    Unreachable,
}

/// Stores an order and the job that charges it: both or neither.
fn place(db: &Database, tx: &mut Transaction<'_>, order: &NewOrder) -> Result<i64, Box<dyn Error>> {
    let insert = "INSERT INTO shop_orders (customer, cents) VALUES ($1, $2) RETURNING id";
    let row = tx.query_one(insert, &[&order.customer, &order.cents])?;
    let order = row.get("id");
    db.enqueue_in(tx, &Charge { order })?;
    Ok(order)
}

/// Charges an order. Its new state, the end of this job and the job that ships it commit together.
fn charge(gateway: &Gateway, job: &Job<Charge>, tx: &mut Transaction<'_>) -> Result<(), Failure> {
    let order = job.payload().order;
    let update =
        "UPDATE shop_orders SET state = 'paid' WHERE id = $1 AND state = 'placed' RETURNING cents";
    let Some(row) = tx.query_opt(update, &[&order])? else {
        return Err(Failure::reject("there is no such order to be paid"));
    };
    // The job keeps its id through retries, death and redrive.
    match gateway(&job.id().to_string(), row.get("cents")) {
        Ok(()) => Ok(job.then(NewJob::new(&Ship { order })?)?),
        // A dead letter: nobody is charged until a person decides.
        Err(NotCharged::Declined) => Err(Failure::reject("the card was declined")),
        // Costs no attempt. After a few, the workers wait for the gateway.
        Err(NotCharged::Unreachable) => Err(Failure::outage("the gateway did not answer")),
    }
}

fn handlers(gateway: Gateway) -> Handlers {
    Handlers::with(gateway)
        .handle(charge)
        .handle(|_: &Gateway, job: &Job<Ship>, tx: &mut Transaction<'_>| {
            let update = "UPDATE shop_orders SET state = 'shipped' WHERE id = $1";
            tx.execute(update, &[&job.payload().order])?;
            Ok(())
        })
        .into()
}

fn http_gateway(url: String) -> Gateway {
    Box::new(move |key, cents| {
        let request = ureq::post(&url).header("Idempotency-Key", key);
        match request.send(cents.to_string()) {
            Ok(_) => Ok(()),
            Err(ureq::Error::StatusCode(402)) => Err(NotCharged::Declined),
            Err(_) => Err(NotCharged::Unreachable),
        }
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let gateway = std::env::args().nth(1).ok_or("usage: shop GATEWAY_URL")?;
    let url = std::env::var("DATABASE_URL")?;
    // The web threads and the worker share a pool: a worker needs five connections, and one for each slot of a queue with
    // handlers in transactions.
    let manager = PostgresConnectionManager::new(url.parse()?, NoTls);
    let pool = r2d2::Pool::builder().max_size(15).build(manager)?;
    let db = Database::from_pool(pool.clone(), Pooler::Session);
    db.migrate()?;
    pool.get()?.batch_execute(SCHEMA)?;

    let server = Arc::new(Server::http("127.0.0.1:8080").map_err(|error| error as Box<dyn Error>)?);
    for _ in 0..4 {
        let (server, pool, db) = (Arc::clone(&server), pool.clone(), db.clone());
        std::thread::spawn(move || {
            for mut request in server.incoming_requests() {
                let (text, status) = match take(&pool, &db, &mut request) {
                    Ok(id) => (format!("order {id}\n"), 202),
                    Err(error) => (format!("{error}\n"), 400),
                };
                // The client may have gone.
                _ = request.respond(Response::from_string(text).with_status_code(status));
            }
        });
    }
    let handlers = handlers(http_gateway(gateway));
    let worker = Workers::builder(&db)
        .queue("payments", 4, &handlers)
        .queue("parcels", 2, &handlers)
        .start()?;
    worker.run_until_signal(Duration::from_secs(10))?;
    Ok(())
}

type Pool = r2d2::Pool<PostgresConnectionManager<NoTls>>;

/// Takes an order from a request.
fn take(pool: &Pool, db: &Database, request: &mut Request) -> Result<i64, Box<dyn Error>> {
    if (request.method(), request.url()) != (&Method::Post, "/orders") {
        return Err("POST /orders is all there is".into());
    }
    let order = serde_json::from_reader(request.as_reader())?;
    let mut client = pool.get()?;
    let mut tx = client.transaction()?;
    let id = place(db, &mut tx, &order)?;
    tx.commit()?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use redrive::postgres::Client;
    use redrive::testing::{drain_in, enqueued, travel};
    use redrive::worker::AttemptOutcome::{self, Dead, Done, Outage};

    use super::*;

    /// Places an order, and runs its jobs until it is paid or a letter. Returns the outcomes and its state.
    fn run(gateway: Gateway) -> (Vec<AttemptOutcome>, String) {
        let url = std::env::var("DATABASE_URL").expect("DATABASE_URL");
        let db = redrive::connect(&url).expect("a database");
        db.migrate().expect("a schema");
        let mut client = Client::connect(&url, NoTls).expect("a database");
        let mut tx = client.transaction().expect("a transaction");
        tx.batch_execute(SCHEMA).expect("a table");
        let order = serde_json::from_str(r#"{"customer": "ada", "cents": 4200}"#).expect("JSON");
        let id = place(&db, &mut tx, &order).expect("an order");
        let (handlers, mut outcomes) = (handlers(gateway), Vec::new());
        while !enqueued::<Charge>(&mut tx).expect("jobs").is_empty() {
            let ran = drain_in(&mut tx, &handlers).expect("jobs that run");
            outcomes.extend(ran.iter().map(|ran| ran.outcome));
            travel(&mut tx, Duration::from_mins(1)).expect("a minute");
        }
        let state = "SELECT state FROM shop_orders WHERE id = $1";
        let row = tx.query_one(state, &[&id]).expect("the order");
        (outcomes, row.get(0))
    }

    #[test]
    fn an_order_is_charged_and_shipped() {
        let (outcomes, state) = run(Box::new(|_, _| Ok(())));
        assert_eq!((&*outcomes, &*state), (&[Done, Done][..], "shipped"));
    }

    #[test]
    fn a_declined_card_is_a_letter_and_leaves_the_order_as_it_was() {
        let (outcomes, state) = run(Box::new(|_, _| Err(NotCharged::Declined)));
        assert_eq!((&*outcomes, &*state), (&[Dead][..], "placed"));
    }

    #[test]
    fn an_outage_of_the_gateway_costs_no_attempt() {
        let calls = AtomicUsize::new(0);
        let (outcomes, state) = run(Box::new(move |_, _| match calls.fetch_add(1, Relaxed) {
            0..9 => Err(NotCharged::Unreachable), // more often than a job has attempts
            _ => Ok(()),
        }));
        assert_eq!(outcomes[..9], [Outage; 9]);
        assert_eq!(state, "shipped");
    }
}
