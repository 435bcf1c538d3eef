//! Probes of a breaker get past jobs of other kinds, in windows.

use redrive_tests::prelude::*;

use super::backlog;

#[test]
fn a_probe_finds_its_job_behind_a_locked_one_and_a_backlog() {
    let (test, queue) = TestDatabase::with_orders();
    let (mut client, mut caller) = (test.client(), test.client());
    let locked = queue.enqueue(&Hold {}).unwrap();
    backlog(&mut client, "unhandled");
    let free = queue.enqueue(&Hold {}).unwrap();
    queue.enqueue(&Order { number: 1 }).unwrap();
    let mut lock = caller.transaction().unwrap();
    let locks = "SELECT FROM redrive.jobs WHERE id = $1 FOR UPDATE";
    lock.query_one(locks, &[&locked.get()]).unwrap();
    let (db, soon) = (test.open(), Some(Duration::from_millis(1)));
    db.admin().open_breaker("gateway", soon, &maria()).unwrap();
    let (probes, probed) = mpsc::channel();
    let worker = worker(&queue)
        .handle(|_: &Job<Order>| Ok(()))
        .handle({
            move |job: &Job<Hold>| {
                probes.send(job.id()).unwrap();
                Ok(())
            }
        })
        .options(HandlerOptions::new().dependency("gateway"))
        .started();
    wait_until("the breaker to close", SOON, || {
        let closed = "SELECT state = 'closed' FROM redrive.breakers WHERE name = 'gateway'";
        client.ask(closed, &[])
    });
    assert_eq!(probed.recv().unwrap(), free);
    lock.rollback().unwrap();
    done(&worker, 3);
    assert_eq!(probed.recv().unwrap(), locked);
    stop(worker);
}
