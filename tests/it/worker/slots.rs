//! Slots: a worker runs several jobs at a time, and several workers share a queue.

use redrive_tests::prelude::*;

#[test]
fn a_payload_that_panics_on_drop_does_not_end_a_slot() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Bomb {}
    impl Payload for Bomb {
        const KIND: &'static str = "bomb";
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            // Only in the handler, not in the test that enqueues it.
            let thread = thread::current();
            let name = thread.name().unwrap_or_default();
            assert!(!name.starts_with("redrive-slot"), "boom");
        }
    }
    let run = |panics: bool| -> Result<(), Failure> {
        assert!(!panics, "in the handler");
        Ok(())
    };
    for (panics, in_transaction) in [(false, false), (false, true), (true, false), (true, true)] {
        let (_test, queue) = TestDatabase::with_orders();
        let worker = worker(&queue);
        let worker = match in_transaction {
            true => worker.handle(move |_: &Job<Bomb>, _: &mut Transaction<'_>| run(panics)),
            false => worker.handle(move |_: &Job<Bomb>| run(panics)),
        };
        let worker = worker.runs(|_: &Job<Order>| Ok(()));
        let bomb: JobId = put(&queue, NewJob::raw("bomb", "{}").unwrap().max_attempts(1));
        queue.enqueue(&Order { number: 1 }).unwrap();
        finish(&queue, worker);
        let letter = queue.letter(bomb);
        assert_eq!(letter.error_class, "panic", "{panics} {in_transaction}");
    }
}

/// The slow jobs in the other slots may take hours.
#[test]
fn the_last_free_slot_beside_slow_jobs_takes_a_job() {
    let (_test, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let worker = worker(&queue).slots(8).handle(gate.handler());
    let worker = worker.runs(|_: &Job<Order>| Ok(()));
    queue.enqueue_many(&[Hold {}; 7]).unwrap();
    gate.wait_for(7);
    queue.enqueue(&Order { number: 1 }).unwrap();
    done(&worker, 1);
    gate.open();
    stop(worker);
}
