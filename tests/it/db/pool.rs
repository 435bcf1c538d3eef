//! A pool of the caller: the library returns its connections unchanged, or closes them.

use std::str::FromStr as _;

use redrive::Pooler;
use redrive::postgres::{Config, Error};
use redrive::r2d2::{CustomizeConnection, NopConnectionCustomizer, Pool};
use redrive::r2d2_postgres::PostgresConnectionManager;
use redrive_tests::prelude::*;

type Users = Pool<PostgresConnectionManager<NoTls>>;

fn pool(test: &TestDatabase, customizer: Box<dyn CustomizeConnection<Client, Error>>) -> Users {
    let config = Config::from_str(test.url()).unwrap();
    let builder = Pool::builder().max_size(6);
    let builder = builder.connection_customizer(customizer);
    let manager = PostgresConnectionManager::new(config, NoTls);
    builder.build(manager).unwrap()
}

/// A queue on the connections of a pool.
fn queue(users: &Users) -> Queue {
    let db = Database::from_pool(users.clone(), Pooler::Session);
    Queue::new(&db, "orders").unwrap()
}

/// Settings that the owner of the pool makes on each new connection.
#[derive(Debug)]
struct Customizer;

impl CustomizeConnection<Client, Error> for Customizer {
    fn on_acquire(&self, client: &mut Client) -> Result<(), Error> {
        client.batch_execute(
            "SET search_path = shop, public; SET statement_timeout = '7min'; SET jit = off;
             SET tcp_keepalives_idle = 77",
        )
    }
}

#[test]
fn pooled_connections_have_their_original_settings_after_a_worker() {
    let test = TestDatabase::migrated();
    let of_the_server = [
        ("enable_seqscan", "on"),
        ("jit", "on"),
        ("plan_cache_mode", "auto"),
        ("lock_timeout", "0"),
    ];
    let of_the_owner = [
        ("search_path", "shop, public"),
        ("statement_timeout", "7min"),
        ("jit", "off"),
        ("tcp_keepalives_idle", "77"),
    ];
    let plain = pool(&test, Box::new(NopConnectionCustomizer));
    let custom = pool(&test, Box::new(Customizer));
    for (users, settings) in [(plain, of_the_server), (custom, of_the_owner)] {
        let queue = queue(&users);
        queue.enqueue_many(&Order::up_to(20)).unwrap();
        finish(&queue, willing(&queue));
        // All connections at once, so that those of the worker are among them.
        let mut connections: Vec<_> = (0..6).map(|_| users.get().unwrap()).collect();
        for connection in &mut connections {
            for (setting, value) in settings {
                let found: String = connection.ask("SELECT current_setting($1)", &[&setting]);
                assert_eq!(found, value, "{setting}");
            }
            let channels = "SELECT pg_listening_channels()";
            let channels: Vec<String> = connection.column(channels, &[]);
            assert_eq!(channels, [""; 0], "it still listens");
        }
    }
}

#[test]
fn a_pool_gets_no_connection_back_in_a_failed_transaction() {
    let test = TestDatabase::migrated();
    test.sets("default_transaction_read_only = on");
    let users = pool(&test, Box::new(NopConnectionCustomizer));
    let mut orders = Some(vec![new_order(1)]);
    let enqueued = queue(&users).enqueue_chunks(|| Ok::<_, redrive::Error>(orders.take()));
    enqueued.expect_err("a read-only transaction");
    let mut connections: Vec<_> = (0..6).map(|_| users.get().unwrap()).collect();
    for connection in &mut connections {
        connection.sql("SELECT 1");
    }
}

#[test]
fn a_connection_whose_statements_were_deallocated_prepares_them_again() {
    let test = TestDatabase::migrated();
    let users = pool(&test, Box::new(NopConnectionCustomizer));
    let queue = queue(&users);
    for _ in 0..2 {
        assert!(queue.is_drained().unwrap());
        queue.enqueue_job(new_order(1).max_attempts(1)).unwrap();
        work_off(&queue, |job: &Job<Order>| match job.payload().number {
            1 => Ok(job.then(new_order(2))?),
            _ => Ok(()),
        });
        assert_eq!(in_state(&queue, LetterState::Open), 0);
        let mut connections: Vec<_> = (0..6).map(|_| users.get().unwrap()).collect();
        for connection in &mut connections {
            connection.sql("DISCARD ALL");
        }
    }
}

#[test]
fn a_job_that_waits_for_a_connection_does_not_start_once_its_queue_is_paused() {
    let (test, other) = TestDatabase::with_orders();
    let users = pool(&test, Box::new(NopConnectionCustomizer));
    let handler = |_: &Job<Order>, _: &mut Transaction<'_>| Ok(());
    let worker = worker(&queue(&users)).slots(1).handle(handler).started();
    told(&test, &worker);
    let mut taken = Vec::new();
    wait_until("a pool without connections", SOON, || {
        taken.extend(users.try_get());
        !taken.is_empty() && users.state().idle_connections == 0
    });
    other.enqueue(&Order { number: 1 }).unwrap();
    let held = || stats(other.database(), "orders").map(|stats| (stats.ready, stats.leased));
    wait_until("the job to be claimed", SOON, || held() == Some((0, 1)));
    other.pause(PauseEnd::Resumed, &maria()).unwrap();
    told(&test, &worker);
    drop(taken);
    wait_until("the job to be returned", SOON, || held() == Some((1, 0)));
    assert_eq!(test.untouched(), 1);
    assert!(other.resume(&maria()).unwrap());
    assert_eq!(finish(&other, worker).stats.done, 1);
}
