//! Suspects: jobs that lost their worker each have their own lease, and run alone on their last
//! chance.

use redrive::Workers;
use redrive::limits::MAX_CRASHES;
use redrive_tests::prelude::*;

#[test]
fn a_job_on_its_last_chance_is_the_only_suspect() {
    let last = i16::try_from(MAX_CRASHES).unwrap() - 1;
    // The first suspect in the queue decides: one that must be alone, or those that need not.
    for (crashes, first) in [([last, 1, 1, last], 1), ([1, last, 1, last], 2)] {
        let (test, queue) = TestDatabase::with_orders();
        let suspects = suspects(&test, &queue, crashes);
        let (tally, gate) = (Tally::new(), Gate::new());
        let worker = at_the_gate(&test, &tally, &gate);
        gate.wait_for(first);
        let shared = "leases WHERE (metas[1]).crashes > 0 AND job_count > 1";
        assert_eq!(test.count(shared), 0, "each has its own");
        // Other jobs run before the waiting suspects.
        let others = queue.enqueue_many(&Order::up_to(5)).unwrap();
        gate.wait_for(first + 5);
        assert!(others.iter().all(|id| tally.of(*id) == 1));
        let began = suspects.iter().zip(crashes);
        let began = began.filter(|(id, _)| tally.of(**id) == 1);
        let began = began.map(|(_, crashes)| crashes);
        assert!(began.eq(vec![crashes[0]; first]));
        gate.open();
        finish(&queue, worker);
        assert_eq!((tally.jobs(), tally.repeated()), (9, vec![]));
    }
}

#[test]
fn a_job_on_its_last_chance_is_the_only_suspect_of_all_queues_of_its_process() {
    for queues_of_workers in [
        vec![vec!["orders", "mails"]],
        vec![vec!["orders"], vec!["mails"]],
    ] {
        let test = TestDatabase::migrated();
        let db = Database::builder(test.url()).connections(16);
        let db = db.open().unwrap();
        let queues = ["orders", "mails"].map(|name| Queue::new(&db, name).unwrap());
        let suspects = queues.each_ref().map(|queue| put(queue, new_order(1)));
        test.sql("UPDATE redrive.jobs SET meta.crashes = 2");
        let (tally, gate) = (Tally::new(), Gate::new());
        let handlers = Handlers::new().handle(gate.counting(&tally, |_| Ok(())));
        let start = |names: Vec<&str>| {
            let builder = names.into_iter().fold(Workers::builder(&db), |all, name| {
                all.queue(name, 2, &handlers)
            });
            let short = |worker: WorkerBuilder| worker.poll_interval(Duration::from_millis(20));
            let worker = builder.each(short).start().unwrap();
            gate.wait_for(1);
            worker
        };
        let workers: Vec<Worker> = queues_of_workers.into_iter().map(start).collect();
        // The claims that find these would find the suspects before them.
        let others = queues.each_ref().map(|queue| put(queue, new_order(2)));
        wait_until("the others to begin", SOON, || {
            others.iter().all(|id| tally.of(*id) == 1)
        });
        let began = suspects.iter().filter(|id| tally.of(**id) == 1);
        assert_eq!(began.count(), 1);
        gate.open();
        for worker in workers {
            assert!(worker.drain(SOON).unwrap());
            stop(worker);
        }
        assert_eq!((tally.jobs(), tally.repeated()), (4, vec![]));
    }
}

#[test]
fn a_job_on_its_last_chance_is_the_only_suspect_of_all_groups() {
    let of = |group: &str| new_order(1).group(group);
    // Under a rate limit, one claim looks for jobs with and without a group.
    for (first, is_limited) in [(new_order(1), true), (of("b"), true), (of("b"), false)] {
        let (test, queue) = crate::groups::with_policy(GroupPolicy::Fair);
        if is_limited {
            test.sql("SELECT redrive.set_rate_limit('orders', 1000)");
        }
        let suspects = [first, of("a")].map(|job| put(&queue, job));
        test.sql("UPDATE redrive.jobs SET meta.crashes = 2");
        let (tally, gate) = (Tally::new(), Gate::new());
        let worker = at_the_gate(&test, &tally, &gate);
        gate.wait_for(1);
        let others = ["c", "d"].map(|group| put(&queue, of(group)));
        wait_until("the others to begin", SOON, || {
            others.iter().all(|id| tally.of(*id) == 1)
        });
        let began = suspects.iter().filter(|id| tally.of(**id) == 1);
        assert_eq!(began.count(), 1);
        gate.open();
        finish(&queue, worker);
        assert_eq!((tally.jobs(), tally.repeated()), (4, vec![]));
    }
}

/// Starts a worker whose handlers wait at the gate.
fn at_the_gate(test: &TestDatabase, tally: &Tally, gate: &Gate) -> Worker {
    let builder = worker(&test.queue("orders")).slots(8);
    builder.runs(gate.counting(tally, |_| Ok(())))
}

/// Makes jobs that lost these numbers of workers.
fn suspects<const N: usize>(test: &TestDatabase, queue: &Queue, crashes: [i16; N]) -> Vec<JobId> {
    let count = i64::try_from(N).unwrap();
    let ids = queue.enqueue_many(&Order::up_to(count)).unwrap();
    for (id, crashes) in ids.iter().zip(crashes) {
        // Only a test updates rows of `jobs`.
        let update = "UPDATE redrive.jobs SET meta.crashes = $2::smallint WHERE id = $1";
        test.client().change(update, &[&id.get(), &crashes]);
    }
    ids
}

#[test]
fn a_job_on_its_last_chance_runs_alone_until_its_outcome_is_stored() {
    // If the next suspect began earlier and killed the process, this one would be blamed too.
    let (test, queue) = TestDatabase::with_orders();
    let suspects = queue.enqueue_many(&Order::up_to(2)).unwrap();
    test.sql("UPDATE redrive.jobs SET meta.crashes = 2");
    let (tally, gate) = (Tally::new(), Gate::new());
    let worker = at_the_gate(&test, &tally, &gate);
    gate.wait_for(1);
    assert_eq!(tally.of(suspects[0]), 1);
    // The settle of the first suspect has to wait for this lock.
    let mut locker = test.begins("SELECT FROM redrive.leases FOR UPDATE");
    gate.open();
    // A later claim finds this job, and would find the suspect before it.
    let next = put(&queue, new_order(3).priority(-1));
    wait_until("the next job to begin", SOON, || tally.of(next) == 1);
    let after = put(&queue, new_order(4).priority(-2));
    wait_until("the one after it to begin", SOON, || tally.of(after) == 1);
    assert_eq!(tally.of(suspects[1]), 0, "the first one is not settled");
    locker.sql("ROLLBACK");
    finish(&queue, worker);
    assert_eq!(tally.of(suspects[1]), 1);
}
