//! Probes of a breaker get past jobs of other kinds, in windows.

use std::time::Duration;

use postgres::Client;
use redrive::{HandlerOptions, Job, Operator};
use redrive_tests::{
    Hold, Order, SOON, TestDatabase, counted, fewest_pages, statement, stop, wait_until, worker,
};

use super::{AHEAD, PINNED, backlog, removed};

/// Returns the pages and rows that a search for a probe of the kind `hold` reads in this range and these ids of
/// rank 0, and whether it found a job.
fn read(client: &mut Client, range: &str, ids: &str) -> (i64, i64, bool) {
    client
        .batch_execute(&format!("PREPARE probe AS {}", statement("take_probe")))
        .unwrap();
    let execute = format!(
        "EXECUTE probe('gateway', gen_random_uuid(), 1000, 'orders', '{{hold}}', NULL, 3, {range}, {ids})"
    );
    let mut transaction = client.transaction().unwrap();
    let has_job = transaction.query_one(&execute, &[]).unwrap().get("has_job");
    transaction.rollback().unwrap();
    let reading = fewest_pages(client, &execute);
    client.batch_execute("DEALLOCATE probe").unwrap();
    (reading.pages, removed(&reading.plan), has_job)
}

const WHOLE: &str = "'{-32768}', '{0}', '{32767}'";
const NO_PART: &str = "'{}', '{}', '{}'";

#[test]
fn the_search_for_a_probe_reads_no_more_than_its_windows() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let mut client = test.client();
    client.batch_execute(PINNED).unwrap();
    let operator = Operator::new("maria").reason("a test");
    let admin = test.open();
    let one_day = Some(Duration::from_hours(24));
    let opened = admin.admin().open_breaker("gateway", one_day, &operator);
    opened.unwrap();
    let last = backlog(&mut client, "unhandled");
    let hold = queue.enqueue(&Hold {}).unwrap().get();

    // No probe is due.
    let not_due = format!(
        "PREPARE probe AS {}; EXECUTE probe('gateway', gen_random_uuid(), 1000, 'orders', NULL, NULL, 3, {WHOLE}, {NO_PART}); \
         DEALLOCATE probe",
        statement("take_probe")
    );
    let answers = client.simple_query(&not_due).unwrap();
    let rows = |answer: &&postgres::SimpleQueryMessage| {
        matches!(answer, postgres::SimpleQueryMessage::Row(_))
    };
    assert_eq!(answers.iter().filter(rows).count(), 0);

    client
        .batch_execute("UPDATE redrive.breakers SET probe_at = now() - interval '1 second'")
        .unwrap();
    let (pages, rows, has_job) = read(&mut client, WHOLE, NO_PART);
    assert!(has_job);
    assert_eq!(rows, AHEAD, "without windows, it reads all of them");
    assert!(pages > 3000, "{pages} pages");
    for (after, to, expected) in [(last - 1000, hold, true), (1000, 2000, false)] {
        let ids = format!("'{{0}}', '{{{after}}}', '{{{to}}}'");
        let (pages, rows, has_job) = read(&mut client, NO_PART, &ids);
        assert_eq!((rows, has_job), (1000, expected));
        assert!(pages < 300, "{pages} pages");
    }
}

#[test]
fn a_probe_finds_its_job_behind_a_locked_one_and_a_backlog() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let (mut client, mut caller) = (test.client(), test.client());
    let locked = queue.enqueue(&Hold {}).unwrap();
    backlog(&mut client, "unhandled");
    let free = queue.enqueue(&Hold {}).unwrap();
    queue.enqueue(&Order { number: 1 }).unwrap();
    let mut lock = caller.transaction().unwrap();
    let locks = "SELECT FROM redrive.jobs WHERE id = $1 FOR UPDATE";
    lock.query_one(locks, &[&locked.get()]).unwrap();
    let operator = Operator::new("maria").reason("a test");
    let (db, soon) = (test.open(), Some(Duration::from_millis(1)));
    let opened = db.admin().open_breaker("gateway", soon, &operator);
    opened.unwrap();
    let (probes, probed) = std::sync::mpsc::channel();
    let worker = worker(&queue)
        .handle(|_: &Job<Order>| Ok(()))
        .handle_with(HandlerOptions::new().dependency("gateway"), {
            move |job: &Job<Hold>| {
                probes.send(job.id()).unwrap();
                Ok(())
            }
        })
        .start()
        .unwrap();
    wait_until("the breaker to close", SOON, || {
        let closed = "SELECT state = 'closed' FROM redrive.breakers WHERE name = 'gateway'";
        client.query_one(closed, &[]).unwrap().get(0)
    });
    assert_eq!(probed.recv().unwrap(), free);
    lock.rollback().unwrap();
    counted(&worker, "all to be done", |counts| counts.done == 3);
    assert_eq!(probed.recv().unwrap(), locked);
    stop(worker);
}
