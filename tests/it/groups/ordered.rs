//! Ordered groups: one job at a time, by id, through retries. `followers` has lost and stopped workers.

use super::*;

const GROUPS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// A worker whose jobs fail on their first attempt if their number is even, and which fails the test if two
/// jobs of a group run at the same time.
fn strict(queue: &Queue, finished: &'static Finished, tally: &Tally, backoff: Backoff) -> Worker {
    let (running, tally) = (Mutex::new(Vec::<String>::new()), tally.clone());
    let handler = finished.noting_unless(move |job| {
        let group = job.group().expect("a group").to_owned();
        {
            let mut running = running.lock().unwrap();
            assert!(!running.contains(&group), "two jobs of group {group} run");
            running.push(group.clone());
        }
        let is_first = tally.count(job.id()) == 1;
        running.lock().unwrap().retain(|other| *other != group);
        match is_first && job.payload().number % 2 == 0 {
            true => Err(Failure::retry("the first attempt fails")),
            false => Ok(()),
        }
    });
    worker(queue).slots(2).backoff(backoff).runs(handler)
}

#[test]
fn eight_workers_run_each_group_in_order_through_retries() {
    for backoff in [Duration::ZERO, Duration::from_millis(2)] {
        let (test, queue) = with_policy(CONTINUE);
        let (finished, tally) = (kept::<Finished>(), Tally::new());
        let workers = [(); 8].map(|()| {
            let queue = test.queue("orders");
            strict(&queue, finished, &tally, Backoff::fixed(backoff))
        });
        enqueue_rounds(&queue, &GROUPS, 20);
        drained(&queue);
        each_ran(finished, &GROUPS, 1..=20);
        assert_eq!(stop_all(workers), 6 * 20);
        no_slot_left(&test);
    }
}

#[test]
fn a_head_of_an_unhandled_kind_stops_only_its_group() {
    let (test, queue) = with_policy(CONTINUE);
    let unknown = put(&queue, NewJob::raw("unknown", "{}").unwrap().group("a"));
    enqueue(&queue, "a", 1);
    enqueue(&queue, "b", 1);
    let finished = kept::<Finished>();
    let worker = finishing(&queue, finished);
    wait_until("the other group to finish", SOON, || {
        finished.of("b") == [1]
    });
    assert!(finished.of("a").is_empty());
    let jobs = queue.database().admin().jobs();
    jobs.cancel(unknown, &maria()).unwrap();
    all_end(&test, &queue, worker, finished, &[1]);
}

#[test]
fn a_turn_passes_at_once_to_a_kind_with_a_limit_of_its_own() {
    let (_test, queue) = with_policy(CONTINUE);
    for _ in 0..30 {
        put(&queue, new_order(1).group("a"));
        put(&queue, NewJob::new(&Finish {}).unwrap().group("a"));
    }
    let worker = worker(&queue)
        .slots(2)
        .poll_interval(Duration::from_mins(1))
        .handle(|_: &Job<Order>| Ok(()))
        .options(HandlerOptions::new().concurrency(1))
        .handle(|_: &Job<Finish>| Ok(()))
        .started();
    assert!(worker.drain(SOON).unwrap(), "no turn waits for a poll");
    stop(worker);
}
