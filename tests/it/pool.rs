//! A pool of the user's: the library works on it, and gives its connections back as they were.

use std::str::FromStr as _;

use redrive::postgres::{Config, NoTls};
use redrive::r2d2::Pool;
use redrive::r2d2_postgres::PostgresConnectionManager;
use redrive::{Database, Job, Queue};
use redrive_tests::{Order, TestDatabase, drained, stop, worker};

type Users = Pool<PostgresConnectionManager<NoTls>>;

fn pool(test: &TestDatabase, connections: u32) -> Users {
    let config = Config::from_str(test.url()).unwrap();
    Pool::builder()
        .max_size(connections)
        .build(PostgresConnectionManager::new(config, NoTls))
        .unwrap()
}

#[test]
fn a_worker_runs_on_the_users_own_pool() {
    let test = TestDatabase::migrated();
    let users = pool(&test, 5);
    let queue = Queue::new(&Database::from_pool(users), "orders").unwrap();
    queue.enqueue_many(&Order::up_to(20)).unwrap();
    let worker = worker(&queue)
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    drained(&queue);
    assert_eq!(stop(worker).counts.done, 20);
}

#[test]
fn the_users_connections_come_back_with_their_own_settings() {
    let test = TestDatabase::migrated();
    let users = pool(&test, 4);
    let queue = Queue::new(&Database::from_pool(users.clone()), "orders").unwrap();
    queue.enqueue(&Order { number: 1 }).unwrap();
    let worker = worker(&queue)
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    drained(&queue);
    stop(worker);
    // All of them at once: whichever the worker held is among them.
    let mut connections: Vec<_> = (0..4).map(|_| users.get().unwrap()).collect();
    for connection in &mut connections {
        for (setting, value) in [
            ("enable_seqscan", "on"),
            ("jit", "on"),
            ("plan_cache_mode", "auto"),
            ("lock_timeout", "0"),
        ] {
            let row = connection
                .query_one("SELECT current_setting($1)", &[&setting])
                .unwrap();
            assert_eq!(row.get::<_, &str>(0), value, "{setting}");
        }
        let channels = connection
            .query("SELECT pg_listening_channels()", &[])
            .unwrap();
        assert!(channels.is_empty(), "nobody reads what it listens to");
    }
}

#[test]
fn a_pool_that_is_too_small_for_a_worker_is_refused_at_its_start() {
    let test = TestDatabase::migrated();
    let queue = Queue::new(&Database::from_pool(pool(&test, 3)), "orders").unwrap();
    let error = worker(&queue)
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .expect_err("three connections");
    assert!(error.is_invalid(), "{error:?}");
    assert!(error.to_string().contains("needs 4"), "{error}");
}
