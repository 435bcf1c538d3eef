//! Rate limits: never more starts than they allow, in all processes together, and nothing is lost.

mod bucket;
mod each_group;
mod group_bucket;
mod input;

use redrive_tests::prelude::*;

const SECOND: Duration = Duration::from_secs(1);
/// Opens the breaker of the queue, with a probe that is due.
const OPEN: &str = "INSERT INTO redrive.breakers (name, state, cause, message, delay_ms, probe_at) \
                    VALUES ('queue:orders', 'open', 'outage', 'a test', 1000, clock_timestamp())";

/// A limit that grants one start, and no second one during a test.
fn once() -> RateLimit {
    RateLimit::per(1, DAY).burst(1)
}

fn limit(queue: &Queue, jobs: RateLimited<'_>, limit: RateLimit) {
    queue.limit_rate(jobs, limit, &maria()).unwrap();
}

fn unlimit(queue: &Queue, jobs: RateLimited<'_>) {
    let had = queue.unlimit_rate(jobs, &maria()).unwrap();
    assert!(had, "it had a limit");
}

/// When the handlers started.
#[derive(Default)]
struct Starts(Mutex<Vec<Instant>>);

impl Starts {
    fn record(&self) {
        self.0.lock().unwrap().push(Instant::now());
    }

    fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// A handler that records and succeeds.
    fn recorder<P: 'static>(
        &'static self,
    ) -> impl Fn(&Job<P>) -> Result<(), Failure> + Send + Sync {
        move |_| {
            self.record();
            Ok(())
        }
    }

    /// Fails if more jobs had started at any time than `burst + rate · t` since before the limit.
    ///
    /// A busy machine only delays what a handler notes. Windows that begin at a start need exact
    /// times: the benchmark `rates` measures them.
    #[track_caller]
    fn obeys(&self, before: Instant, rate: f64, burst: usize) {
        let mut starts = self.0.lock().unwrap().clone();
        starts.sort();
        for (started, at) in (1_u32..).zip(&starts) {
            let window = at.duration_since(before).as_secs_f64();
            #[expect(clippy::cast_precision_loss, reason = "small numbers")]
            let allowed = burst as f64 + rate * window;
            // The clock of the process and that of the server may differ in speed by a little.
            let is_right = f64::from(started) <= allowed + 0.01;
            assert!(is_right, "{started} within {window:.4} s, not {allowed:.2}");
        }
    }
}

/// A worker that records the starts of orders and of jobs of another kind.
fn recording(queue: &Queue, orders: &'static Starts, others: &'static Starts) -> Worker {
    let builder = worker(queue).handle(orders.recorder::<Order>());
    builder.runs(others.recorder::<Finish>())
}

#[test]
fn three_workers_never_start_more_than_a_limit_allows() {
    // Bursts that refill within 250 ms and within 20 ms, and even spacing.
    for (rate, burst, jobs) in [(400, 100, 400), (1000, 2, 60), (100, 1, 20)] {
        let (test, queue) = TestDatabase::with_orders();
        let before = Instant::now();
        let allowed = RateLimit::per(rate, SECOND).burst(burst);
        limit(&queue, RateLimited::Queue, allowed);
        let (orders, others) = (kept::<Starts>(), kept::<Starts>());
        queue.enqueue_many(&Order::up_to(jobs)).unwrap();
        let workers = [(); 3].map(|()| recording(&test.queue("orders"), orders, others));
        drained(&queue);
        assert_eq!(stop_all(workers), jobs.unsigned_abs());
        assert_eq!(orders.count() as u64, jobs.unsigned_abs(), "none ran twice");
        orders.obeys(before, f64::from(rate), burst as usize);
    }
}

#[test]
fn a_limited_kind_delays_no_other_kind_and_is_not_charged() {
    let (test, queue) = TestDatabase::with_orders();
    limit(&queue, RateLimited::Kind("finish"), once());
    queue.enqueue_many(&[Finish {}; 300]).unwrap();
    queue.enqueue_many(&Order::up_to(300)).unwrap();
    let (orders, others) = (kept::<Starts>(), kept::<Starts>());
    let worker = recording(&queue, orders, others);
    wait_until("the orders and one other job to run", SOON, || {
        orders.count() == 300 && others.count() == 1
    });
    // New orders keep running.
    queue.enqueue_many(&Order::up_to(10)).unwrap();
    done(&worker, 311);
    assert_eq!(others.count(), 1);
    assert_eq!((test.untouched(), test.count("jobs")), (299, 299));

    unlimit(&queue, RateLimited::Kind("finish"));
    assert_eq!(finish(&queue, worker).stats.done, 610);
    assert_eq!(others.count(), 300);
}

#[test]
fn a_job_needs_a_token_of_its_queue_and_of_its_kind() {
    let (test, queue) = TestDatabase::with_orders();
    limit(&queue, RateLimited::Queue, RateLimit::per(3, DAY).burst(3));
    limit(&queue, RateLimited::Kind("finish"), once());
    let many = RateLimit::per(100, DAY).burst(100);
    limit(&queue, RateLimited::Kind("order"), many);
    queue.enqueue_many(&[Finish {}; 5]).unwrap();
    let (orders, others) = (kept::<Starts>(), kept::<Starts>());
    let worker = recording(&queue, orders, others);
    wait_until("the other job to run", SOON, || others.count() == 1);
    queue.enqueue_many(&Order::up_to(5)).unwrap();
    // It had one of the three tokens of the queue.
    wait_until("two orders to run", SOON, || orders.count() == 2);
    informed(&test, &[&worker]);
    assert_eq!((orders.count(), others.count()), (2, 1));
    unlimit(&queue, RateLimited::Queue);
    wait_until("all orders to run", SOON, || orders.count() == 5);
    assert_eq!(others.count(), 1);
    stop(worker);
}

#[test]
fn a_limit_that_is_set_while_workers_run_takes_effect_without_a_restart() {
    let (test, queue) = TestDatabase::with_orders();
    let (orders, others) = (kept::<Starts>(), kept::<Starts>());
    let worker = recording(&queue, orders, others);
    queue.enqueue_many(&Order::up_to(20)).unwrap();
    drained(&queue);
    limit(&queue, RateLimited::Queue, once());
    informed(&test, &[&worker]);
    queue.enqueue_many(&Order::up_to(20)).unwrap();
    wait_until("the one order to run", SOON, || orders.count() == 21);
    informed(&test, &[&worker]);
    assert_eq!(orders.count(), 21);
    // A larger limit applies at once, too, also if a job must start as soon as before.
    let larger = RateLimit::per(100_000, SECOND).burst(400_000);
    limit(&queue, RateLimited::Queue, larger);
    assert_eq!(finish(&queue, worker).stats.done, 40);
}

#[test]
fn a_job_that_starts_too_late_returns_without_a_charge() {
    let (test, queue) = TestDatabase::with_orders();
    // A job must start within 20 ms.
    let per_second = 1000;
    let before = Instant::now();
    let allowed = RateLimit::per(per_second, SECOND).burst(30);
    limit(&queue, RateLimited::Queue, allowed);
    let (gate, starts) = (kept::<Gate>(), kept::<Starts>());
    let worker = worker(&queue).runs(move |job: &Job<Order>| {
        starts.record();
        if job.payload().number == 0 {
            gate.pass();
        }
        Ok(())
    });
    // Quick jobs first, so that it claims in batches.
    queue.enqueue_many(&Order::up_to(100)).unwrap();
    drained(&queue);
    let slow_first: Vec<Order> = (0..=50).map(|number| Order { number }).collect();
    queue.enqueue_many(&slow_first).unwrap();
    gate.wait_for(1);
    // Longer than the time within which the jobs of the same claim must start.
    wait_until("the tokens of the claimed jobs to be lost", SOON, || {
        test.count("leases WHERE claimed_at < clock_timestamp() - interval '40 ms'") > 0
    });
    gate.open();
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.done, counts.dead), (151, 0));
    assert!(counts.released > 0, "{counts:?}");
    assert_eq!(starts.count(), 151, "no attempt ran twice");
    starts.obeys(before, f64::from(per_second), 30);
}
