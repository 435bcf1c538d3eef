//! The cost of counting metrics.
//!
//! Without counting, `metric_ring` is empty: statements join their counts with its one row, so they
//! count and write nothing. Planning and starting the statements is the same in both cases.

use std::time::Duration;

use redrive::Queue;
use redrive_benches::{
    Bench, Measurement, Outcome, Samples, Scenario, Usage, drain_metered, enqueue_each_metered,
    enqueue_metered, fill_kinds,
};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "counters",
    what: "Drain of 100,000 jobs, bulk enqueue of as many and 5,000 single enqueues with the \
           counters of the metrics, compared with the same without; also by processor time, which other \
           work on the machine hardly changes.",
    run,
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Counting {
    On,
    Off,
}

/// The segment that counts are added to.
const RING: &str = "CREATE OR REPLACE VIEW redrive.metric_ring AS
    SELECT last_value::smallint AS segment FROM redrive.metric_ring_position";

type Counted = fn(&Bench, &Queue, usize) -> Outcome<Usage>;

fn run(bench: &mut Bench) -> Outcome {
    let many = bench.sized(100_000, 1_000);
    let few = bench.sized(5_000, 200);
    let queue = Queue::new(bench.db(), "counters")?;
    let mut client = bench.client()?;
    for (what, jobs, work) in [
        ("drain", many, drain as Counted),
        ("bulk enqueue", many, enqueue_metered),
        ("single enqueue", few, enqueue_each_metered),
    ] {
        let mut took = [(); 4].map(|()| Samples::default());
        for round in 0..bench.sized(10, 1) {
            // Alternate which comes first.
            let pair = match round % 2 {
                0 => [Counting::Off, Counting::On],
                _ => [Counting::On, Counting::Off],
            };
            for counting in pair {
                client.batch_execute("TRUNCATE redrive.jobs, redrive.leases")?;
                let rows = match counting {
                    Counting::On => "",
                    Counting::Off => " WHERE false",
                };
                client.batch_execute(&format!("{RING}{rows}; CHECKPOINT"))?;
                let once = work(bench, &queue, jobs)?;
                let at = usize::from(counting == Counting::On);
                took[at].push(micros(once.wall, jobs));
                took[2 + at].push(micros(once.client + once.server, jobs));
            }
        }
        let [wall_off, wall_on, processor_off, processor_on] = &took;
        for (name, off, on) in [
            (what.to_owned(), wall_off, wall_on),
            (
                format!("{what}, processor time"),
                processor_off,
                processor_on,
            ),
        ] {
            bench.report(Measurement::compared(name, "us a job", off, on))?;
        }
    }
    Ok(())
}

fn drain(bench: &Bench, queue: &Queue, jobs: usize) -> Outcome<Usage> {
    fill_kinds(queue, jobs)?;
    drain_metered(bench, queue, jobs)
}

#[expect(clippy::cast_precision_loss, reason = "a mean for people")]
fn micros(time: Duration, jobs: usize) -> f64 {
    time.as_secs_f64() * 1e6 / jobs as f64
}
