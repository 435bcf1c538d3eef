//! Fill and drain cycles while a snapshot holds back vacuum.

use std::time::Instant;

use redrive::postgres::Client;
use redrive::{Queue, Worker};
use redrive_benches::{
    Bench, Measurement, Outcome, Ran, Samples, Target, drain, fill_kinds, handle_kinds, pause,
    rate_of, resume, until_ended,
};

pub(crate) const WHAT: &str = "Ten cycles of filling 50,000 jobs, VACUUM and draining them, while \
    another session holds a REPEATABLE READ snapshot from before the first, compared with ten \
    cycles without; by a worker started for each cycle, and by one worker for all cycles.";

/// The number of cycles.
fn how_many(bench: &Bench) -> usize {
    bench.sized(10, 3)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Horizon {
    Free,
    Held,
}

/// The results of all cycles.
#[derive(Default)]
struct Cycles {
    rates: Vec<f64>,
    megabytes: Vec<f64>,
}

type Drainer = fn(&Bench, &Queue, usize, Horizon) -> Outcome<Cycles>;

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(50_000, 1_000);
    let rounds = bench.sized(3, 1);
    for (what, drainer) in [
        ("a worker a cycle", new_worker_per_cycle as Drainer),
        ("one worker", one_worker),
    ] {
        let [mut free, mut tenth, mut bytes, mut free_bytes] = [(); 4].map(|()| Samples::default());
        let mut cycles = Cycles::default();
        for round in 0..rounds {
            let queue = Queue::new(bench.db(), &format!("held-{round}"))?;
            let unheld = drainer(bench, &queue, jobs, Horizon::Free)?;
            cycles = drainer(bench, &queue, jobs, Horizon::Held)?;
            free.push(median(&unheld.rates));
            tenth.push(cycles.rates.last().copied().unwrap_or_default());
            bytes.push(cycles.megabytes.iter().copied().fold(0.0, f64::max));
            free_bytes.push(unheld.megabytes.iter().copied().fold(0.0, f64::max));
        }
        let listed = |numbers: &[f64], scale: f64| {
            let numbers: Vec<String> = numbers
                .iter()
                .map(|number| format!("{:.0}", number / scale))
                .collect();
            numbers.join(" ")
        };
        let name = format!("{what}: the 10th held cycle, compared with the median free one");
        let row = Measurement::compared(name, "jobs/s", &free, &tenth);
        let rates = listed(&cycles.rates, 1e3);
        let note = format!("held, the last round: {rates} thousand jobs/s");
        bench.report(row.target(Target::RatioAtLeast(0.9)).note(note))?;
        let name = format!("{what}: the most disk space of the schema, held compared with free");
        let row = Measurement::compared(name, "MB", &free_bytes, &bytes);
        let sizes = listed(&cycles.megabytes, 1.0);
        bench.report(row.note(format!("held, after each cycle: {sizes} MB")))?;
    }
    Ok(())
}

/// Starts a worker for each cycle after its jobs are enqueued.
fn new_worker_per_cycle(
    bench: &Bench,
    queue: &Queue,
    jobs: usize,
    horizon: Horizon,
) -> Outcome<Cycles> {
    holding(bench, horizon, |client, cycles| {
        for _ in 0..how_many(bench) {
            fill_kinds(queue, jobs)?;
            vacuum_and_checkpoint(client)?;
            cycles.rates.push(drain(bench, queue, jobs, 1)?.rate);
            cycles.megabytes.push(megabytes(client)?);
        }
        Ok(())
    })
}

/// Uses one worker for all cycles. The queue is paused while jobs are enqueued.
fn one_worker(bench: &Bench, queue: &Queue, jobs: usize, horizon: Horizon) -> Outcome<Cycles> {
    holding(bench, horizon, |client, cycles| {
        let ran = Ran::default();
        pause(bench, queue)?;
        let worker = handle_kinds(Worker::builder(queue).slots(2), &ran, 1).start()?;
        for cycle in 1..=how_many(bench) {
            fill_kinds(queue, jobs)?;
            vacuum_and_checkpoint(client)?;
            // The worker has claimed nothing from the paused queue.
            ran.check((cycle - 1) * jobs)?;
            let start = Instant::now();
            resume(bench, queue)?;
            until_ended(&worker, cycle * jobs)?;
            cycles.rates.push(rate_of(jobs, start.elapsed()));
            cycles.megabytes.push(megabytes(client)?);
            ran.check(cycle * jobs)?;
            pause(bench, queue)?;
            // The worker sees the breaker by notification or by its next check.
            std::thread::sleep(std::time::Duration::from_secs(1));
        }
        worker.stop(std::time::Duration::from_secs(10))?;
        resume(bench, queue)
    })
}

fn holding(
    bench: &Bench,
    horizon: Horizon,
    work: impl FnOnce(&mut Client, &mut Cycles) -> Outcome,
) -> Outcome<Cycles> {
    let mut client = bench.client()?;
    // Remove dead rows of earlier rounds.
    client.batch_execute("TRUNCATE redrive.jobs, redrive.leases, redrive.metric_deltas")?;
    let _held = match horizon {
        Horizon::Free => None,
        Horizon::Held => Some(bench.hold_snapshot()?),
    };
    let mut cycles = Cycles::default();
    work(&mut client, &mut cycles)?;
    Ok(cycles)
}

fn vacuum_and_checkpoint(client: &mut Client) -> Outcome {
    for statement in [
        "VACUUM ANALYZE redrive.jobs",
        "VACUUM redrive.leases",
        "CHECKPOINT",
    ] {
        client.batch_execute(statement)?;
    }
    Ok(())
}

/// Returns the size of the schema on disk, in megabytes.
#[expect(clippy::cast_precision_loss, reason = "a size for people")]
pub(crate) fn megabytes(client: &mut Client) -> Outcome<f64> {
    let bytes: i64 = client
        .query_one(
            "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c
             WHERE c.relnamespace = 'redrive'::regnamespace AND c.relkind = 'r'",
            &[],
        )?
        .get(0);
    Ok(bytes as f64 / 1e6)
}

fn median(numbers: &[f64]) -> f64 {
    numbers.iter().copied().collect::<Samples>().figure().median
}
