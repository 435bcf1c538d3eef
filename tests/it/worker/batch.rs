//! Batches: jobs that a handler receives together, with a verdict for each.

mod failures;
mod interrupted;

use redrive_tests::prelude::*;

/// Longer than any test: a batch with this linger starts only when it is full.
const LONG: Duration = Duration::from_mins(1);

/// The numbers of the orders of each batch, in the order of their starts.
#[derive(Default)]
struct Batches(Mutex<Vec<Vec<i64>>>);

impl Batches {
    fn note(&self, batch: &Batch<Order>) {
        let numbers = batch.jobs().iter().map(|job| job.payload().number);
        self.0.lock().unwrap().push(numbers.collect());
    }

    fn all(&self) -> Vec<Vec<i64>> {
        self.0.lock().unwrap().clone()
    }

    fn sizes(&self) -> Vec<usize> {
        self.all().iter().map(Vec::len).collect()
    }

    /// Returns a handler that notes its batches.
    fn handler(&'static self) -> impl Fn(&Batch<Order>) -> Result<(), Failure> + Send + Sync {
        move |batch| {
            self.note(batch);
            Ok(())
        }
    }
}

/// Starts a worker whose batches of this many jobs start only when they are full.
fn full_batches(
    queue: &Queue,
    size: usize,
    handler: impl Fn(&Batch<Order>) -> Result<(), Failure> + Send + Sync + 'static,
) -> Worker {
    let options = BatchOptions::new(size).linger(LONG);
    worker(queue).handle_batch(options, handler).started()
}

/// Waits until the worker has ended this many jobs as done and this many as dead.
#[track_caller]
fn ended(worker: &Worker, done: u64, dead: u64) {
    counted(worker, &format!("{done} done and {dead} dead"), |counts| {
        (counts.done, counts.dead) == (done, dead)
    });
}

#[test]
fn full_batches_start_at_once_in_the_order_of_the_claim() {
    // A worker with another handler first has to learn that the queue has jobs for batches.
    for with_others in [false, true] {
        let (test, queue) = TestDatabase::with_orders();
        queue.enqueue_many(&Order::up_to(300)).unwrap();
        let batches = kept::<Batches>();
        let options = BatchOptions::new(100).linger(LONG);
        let builder = worker(&queue).handle_batch(options, batches.handler());
        let worker = match with_others {
            true => builder.runs(|_: &Job<Finish>| Ok(())),
            false => builder.started(),
        };
        done(&worker, 300);
        let of_a_slot = "SELECT slot_jobs FROM redrive.workers";
        let of_a_slot: Vec<i32> = test.client().column(of_a_slot, &[]);
        assert_eq!(of_a_slot, [if with_others { 1 } else { 100 }]);
        assert_eq!(finish(&queue, worker).stats.retried, 0);
        let expected: Vec<Vec<i64>> = [1..=100, 101..=200, 201..=300].map(Vec::from_iter).into();
        assert_eq!(batches.all(), expected, "with others: {with_others}");
    }
}

#[test]
fn a_batch_that_is_not_full_starts_after_the_linger_time() {
    for linger in [Duration::ZERO, Duration::from_millis(20)] {
        let (_test, queue) = TestDatabase::with_orders();
        queue.enqueue_many(&Order::up_to(7)).unwrap();
        let batches = kept::<Batches>();
        let options = BatchOptions::new(1000).linger(linger);
        let builder = worker(&queue).handle_batch(options, batches.handler());
        let worker = builder.started();
        done(&worker, 7);
        stop(worker);
        assert_eq!(batches.sizes(), [7], "{linger:?}");
    }
}

#[test]
fn a_batch_starts_while_the_next_claim_waits_for_the_database() {
    let (test, queue) = TestDatabase::with_orders();
    queue.enqueue(&Order { number: 1 }).unwrap();
    let batches = kept::<Batches>();
    let options = BatchOptions::new(10).linger(Duration::from_millis(500));
    let builder = worker(&queue).handle_batch(options, batches.handler());
    let worker = builder.started();
    test.reaches("leases", 1);
    // A claim waits two seconds for this lock.
    let lock = test.begins("LOCK TABLE redrive.jobs");
    let locked_at = Instant::now();
    wait_until("the batch", SOON, || batches.sizes() == [1]);
    let waited = locked_at.elapsed();
    assert!(waited < Duration::from_millis(1500), "{waited:?}");
    drop(lock);
    stop(worker);
}

#[test]
fn follow_ups_and_checkpoints_belong_to_single_jobs_of_a_batch() {
    let (_test, queue) = TestDatabase::with_orders();
    queue.enqueue_many(&Order::up_to(2)).unwrap();
    let (send, seen) = mpsc::channel();
    let handler = move |batch: &Batch<Order>| -> Result<(), Failure> {
        for job in batch.jobs() {
            let number = job.payload().number;
            let last: Option<i64> = job.last_checkpoint()?;
            send.send((number, job.attempt(), last)).unwrap();
            job.then(NewJob::new(&Finish {})?)?;
            // The last call decides, and no call takes the follow-up.
            job.done();
            job.fail(Failure::retry("not yet"));
            job.done();
            assert_eq!(job.follow_ups().len(), 1);
            if number == 2 && last.is_none() {
                job.checkpoint(&(10 * number))?;
                job.fail(Failure::retry("once more"));
            }
        }
        Ok(())
    };
    let worker = worker(&queue).handle_batch(BatchOptions::new(2).linger(LONG), handler);
    let worker = worker.runs(|_: &Job<Finish>| Ok(()));
    done(&worker, 4);
    assert_eq!(finish(&queue, worker).stats.retried, 1);
    let seen: Vec<_> = seen.try_iter().collect();
    assert_eq!(seen, [(1, 1, None), (2, 1, None), (2, 2, Some(20))]);
}

#[test]
fn jobs_of_a_batch_that_expired_make_no_run_look_fast() {
    let (test, queue, mut client) = TestDatabase::with_session();
    let (slow, next) = (Gate::new(), Gate::new());
    let options = BatchOptions::new(100).linger(LONG);
    let builder = worker(&queue).hold_for(LONG);
    let builder = builder.handle_batch(options, |_: &Batch<Order>| Ok(()));
    let builder = builder.handle(next.passing::<Finish>());
    let worker = builder.handle(slow.handler()).started();
    queue.enqueue(&Hold {}).unwrap();
    slow.wait_for(1);
    // While it runs, the worker claims none of these.
    let mut orders = vec![new_order(1).expires_in(Duration::from_mins(1)); 99];
    orders.push(new_order(2));
    queue.enqueue_jobs(&orders).unwrap();
    test.sql("UPDATE redrive.jobs SET enqueued_at = enqueued_at - interval '1 hour'");
    let begun = Instant::now();
    wait_until("a slow run", SOON, || {
        begun.elapsed() >= Duration::from_secs(1)
    });
    slow.open();
    ended(&worker, 2, 99);
    queue.enqueue_many(&[Finish {}; 600]).unwrap();
    next.wait_for(1);
    let leased: i64 = client.ask("SELECT sum(job_count) FROM redrive.leases", &[]);
    assert!(leased <= 100, "as for a free slot or a batch: {leased}");
    next.open();
    finish(&queue, worker);
}
