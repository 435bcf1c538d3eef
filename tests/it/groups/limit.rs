//! Limited groups: a freed slot is taken at once. `followers` has their limit.

use super::*;

#[test]
fn a_freed_slot_is_taken_long_before_a_poll() {
    let (_test, queue) = with_policy(GroupPolicy::Limit(8));
    let gates = [(); 41].map(|()| kept::<Gate>());
    let started = kept::<Mutex<Vec<usize>>>();
    let workers = [(); 2].map(|()| {
        let builder = worker(&queue).slots(4);
        let builder = builder.poll_interval(Duration::from_mins(1));
        builder.runs(move |job: &Job<Order>| {
            let number = usize::try_from(job.payload().number).unwrap();
            started.lock().unwrap().push(number);
            gates[number].pass();
            Ok(())
        })
    });
    enqueue_rounds(&queue, &["a"], 40);
    // Less than the poll interval, and much more than a slow machine needs.
    let half = Duration::from_secs(30);
    let running = |count: usize| {
        wait_until("a job in each slot", half, || {
            started.lock().unwrap().len() == count
        });
    };
    running(8);
    for ended in 0..32 {
        let number = started.lock().unwrap()[ended];
        gates[number].open();
        running(9 + ended);
    }
    for gate in &gates {
        gate.open();
    }
    drained(&queue);
    stop_all(workers);
}

#[test]
fn a_claim_takes_whole_batches_of_a_limited_group() {
    let (_test, queue) = with_policy(GroupPolicy::Limit(1000));
    enqueue_rounds(&queue, &["a"], 60);
    let sizes = kept::<Mutex<Vec<usize>>>();
    // Each batch has jobs of one claim. After the first one, the worker knows that they are fast.
    let options = BatchOptions::new(20).linger(Duration::ZERO);
    let builder = worker(&queue).slots(1);
    let builder = builder.handle_batch(options, move |batch: &Batch<Order>| {
        sizes.lock().unwrap().push(batch.jobs().len());
        Ok(())
    });
    let worker = builder.started();
    done(&worker, 60);
    stop(worker);
    assert_eq!(*sizes.lock().unwrap(), [20; 3]);
}

#[test]
fn a_replaced_job_keeps_its_place_in_its_group() {
    let (test, queue) = with_policy(CONTINUE);
    let keyed = |number: i64| order("a", number).unique("k").replace(Replace::Both);
    let first = queue.enqueue_job(keyed(1)).unwrap();
    enqueue(&queue, "a", 2);
    let again = queue.enqueue_job(keyed(3)).unwrap();
    assert_eq!(again, Enqueued::Replaced(first.id()));
    assert_eq!(test.count("jobs_waiting"), 2);
    run_all(&test, &queue, &[3, 2]);
}
