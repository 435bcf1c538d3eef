//! Cycles under a held horizon.

use std::time::Instant;

use redrive::postgres::{Client, IsolationLevel};
use redrive::{Queue, Worker};
use redrive_benches::{
    Bench, Gate, Outcome, Ran, Row, Samples, Scenario, Target, drain, fill_kinds, handle_kinds,
    until_ended,
};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "held",
    what: "Ten cycles of filling 50,000 jobs, VACUUM and draining them, while another session holds \
           a REPEATABLE READ snapshot from before the first, beside ten cycles without; by a worker \
           that is started anew for each cycle and by one that lives on.",
    run,
};

/// How many cycles; when it is only looked whether it runs, three.
fn how_many(bench: &Bench) -> usize {
    bench.sized(10, 3)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Horizon {
    Free,
    Held,
}

/// What ten cycles were like.
#[derive(Default)]
struct Cycles {
    rates: Vec<f64>,
    megabytes: Vec<f64>,
}

type Drainer = fn(&Bench, &Queue, usize, Horizon) -> Outcome<Cycles>;

fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(50_000, 1_000);
    let rounds = bench.sized(3, 1);
    for (what, drainer) in [
        ("a worker a cycle", fresh as Drainer),
        ("one worker", lived_on),
    ] {
        let (mut free, mut tenth, mut last, mut bytes, mut free_bytes) = (
            Samples::new(),
            Samples::new(),
            Samples::new(),
            Samples::new(),
            Samples::new(),
        );
        let mut cycles = Cycles::default();
        for round in 0..rounds {
            let queue = Queue::new(bench.db(), &format!("held-{round}"))?;
            let unheld = drainer(bench, &queue, jobs, Horizon::Free)?;
            cycles = drainer(bench, &queue, jobs, Horizon::Held)?;
            free.push(median(&unheld.rates));
            tenth.push(cycles.rates.last().copied().unwrap_or_default());
            last.push(median(cycles.rates.last_chunk::<3>().ok_or("no cycles")?));
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
        bench.row(
            &Row::beside(
                format!("{what}: the 10th held cycle, beside the median free one"),
                "jobs/s",
                &free,
                &tenth,
            )
            .target(Target::RatioAtLeast(0.9))
            .note(format!(
                "held, the last round: {} thousand jobs/s",
                listed(&cycles.rates, 1e3)
            )),
        )?;
        bench.row(&Row::beside(
            format!("{what}: the median of held cycles 8 to 10, beside the same"),
            "jobs/s",
            &free,
            &last,
        ))?;
        bench.row(
            &Row::beside(
                format!("{what}: the most disk space of the schema, held beside free"),
                "MB",
                &free_bytes,
                &bytes,
            )
            .note(format!(
                "held, after each cycle: {} MB",
                listed(&cycles.megabytes, 1.0)
            )),
        )?;
    }
    Ok(())
}

/// A worker that is started for each cycle, with the jobs there already.
fn fresh(bench: &Bench, queue: &Queue, jobs: usize, horizon: Horizon) -> Outcome<Cycles> {
    holding(bench, horizon, |client, cycles| {
        for _ in 0..how_many(bench) {
            fill_kinds(queue, jobs)?;
            settle_down(client)?;
            cycles.rates.push(drain(bench, queue, jobs)?.rate);
            cycles.megabytes.push(megabytes(client)?);
        }
        Ok(())
    })
}

/// One worker for all cycles; a gate is shut in front of it while jobs are written.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn lived_on(bench: &Bench, queue: &Queue, jobs: usize, horizon: Horizon) -> Outcome<Cycles> {
    holding(bench, horizon, |client, cycles| {
        let ran = Ran::default();
        let mut gate = Gate::shut(bench, queue.name())?;
        let worker = handle_kinds(Worker::builder(queue).slots(2), &ran).start()?;
        for cycle in 1..=how_many(bench) {
            fill_kinds(queue, jobs)?;
            settle_down(client)?;
            if ran.count() != (cycle - 1) * jobs {
                return Err("the gate did not hold".into());
            }
            let begin = Instant::now();
            gate.open()?;
            until_ended(&worker, cycle * jobs)?;
            cycles
                .rates
                .push(jobs as f64 / begin.elapsed().as_secs_f64());
            cycles.megabytes.push(megabytes(client)?);
            if ran.count() != cycle * jobs {
                let count = ran.count();
                return Err(format!("{count} handlers ran instead of {}", cycle * jobs).into());
            }
            gate = Gate::shut(bench, queue.name())?;
            // It has heard of it when it looked for chores or was notified; make sure.
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        worker.stop(std::time::Duration::from_secs(10))?;
        gate.open()
    })
}

fn holding(
    bench: &Bench,
    horizon: Horizon,
    work: impl FnOnce(&mut Client, &mut Cycles) -> Outcome,
) -> Outcome<Cycles> {
    let mut client = bench.client()?;
    // What earlier rounds left is not theirs to carry.
    client.batch_execute("TRUNCATE redrive.jobs, redrive.leases, redrive.metric_deltas")?;
    let mut cycles = Cycles::default();
    let mut holder = bench.client()?;
    if horizon == Horizon::Free {
        work(&mut client, &mut cycles)?;
        return Ok(cycles);
    }
    let mut held = holder
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .start()?;
    // A snapshot, and no lock on anything of ours.
    held.batch_execute("SELECT count(*) FROM pg_class")?;
    work(&mut client, &mut cycles)?;
    held.rollback()?;
    Ok(cycles)
}

fn settle_down(client: &mut Client) -> Outcome {
    for statement in [
        "VACUUM ANALYZE redrive.jobs",
        "VACUUM redrive.leases",
        "CHECKPOINT",
    ] {
        client.batch_execute(statement)?;
    }
    Ok(())
}

/// What the schema takes on disk.
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
