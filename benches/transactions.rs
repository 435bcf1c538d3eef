//! Handlers that settle in their own transaction, compared with bare transactions.

use std::thread;

use redrive::limits::WORKER_CONNECTIONS;
use redrive::postgres::{Client, NoTls};
use redrive::{Failure, Job, Queue};
use redrive_benches::{
    Baseline, BaselineKeys, Bench, BenchPayload, Measurement, Outcome, Scenario, drain_with, fill,
    rate,
};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "transactions",
    what: "Drain of 10,000 jobs whose handlers insert a row and settle in one transaction, compared with \
           bare transactions of a DELETE … RETURNING of one row and the same insert, on as many \
           connections as there are slots.",
    run,
};

const EFFECTS: &str = "CREATE TABLE IF NOT EXISTS effects (id bigint NOT NULL, note text NOT NULL)";
const EFFECT: &str = "INSERT INTO effects (id, note) VALUES ($1, 'done')";
const TAKE: &str = "DELETE FROM baseline WHERE ctid = (
    SELECT ctid FROM baseline ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, payload";

fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(10_000, 300);
    bench.client()?.batch_execute(EFFECTS)?;
    for slots in [2, 8] {
        let baseline = Baseline::new(bench, BaselineKeys::Primary)?;
        let (baselines, redrive) = bench.by_turns(
            3,
            || bare(bench, &baseline, jobs, slots),
            || once(bench, jobs, slots),
        )?;
        bench.report(
            &Measurement::compared(format!("{slots} slots"), "jobs/s", &baselines, &redrive)
                .note("the baseline runs 2 statements and a commit a job, without a lease"),
        )?;
    }
    Ok(())
}

fn effects(client: &mut Client, expected: usize) -> Outcome {
    let there: i64 = client
        .query_one("SELECT count(DISTINCT id) FROM effects", &[])?
        .get(0);
    client.batch_execute("TRUNCATE effects; CHECKPOINT")?;
    match there == i64::try_from(expected)? {
        true => Ok(()),
        false => Err(format!("{there} of {expected} effects exist").into()),
    }
}

fn bare(bench: &Bench, baseline: &Baseline, jobs: usize, connections: usize) -> Outcome<f64> {
    baseline.copy(jobs)?;
    let url = bench.url();
    let rate = rate(jobs, || {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..connections)
                .map(|_| {
                    scope.spawn(|| -> Outcome {
                        let mut client = Client::connect(url, NoTls)?;
                        let take = client.prepare(TAKE)?;
                        let effect = client.prepare(EFFECT)?;
                        loop {
                            let mut transaction = client.transaction()?;
                            let Some(row) = transaction.query_opt(&take, &[])? else {
                                return Ok(());
                            };
                            transaction.execute(&effect, &[&row.get::<_, i64>(0)])?;
                            transaction.commit()?;
                        }
                    })
                })
                .collect();
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().map_err(|_| "a thread panicked")?)
        })
    })?;
    effects(&mut bench.client()?, jobs)?;
    Ok(rate)
}

fn once(bench: &Bench, jobs: usize, slots: usize) -> Outcome<f64> {
    let db = redrive::Database::builder(bench.url())
        .connections(u32::try_from(slots)? + WORKER_CONNECTIONS)
        .open()?;
    let queue = Queue::new(&db, "transactions")?;
    fill(&queue, jobs)?;
    let drained = drain_with(bench, &queue, jobs, jobs, |builder, ran| {
        let ran = ran.clone();
        builder.slots(slots).handle_in_transaction(
            move |job: &Job<BenchPayload>, transaction| -> Result<(), Failure> {
                ran.one();
                transaction.execute(EFFECT, &[&job.id().get()])?;
                Ok(())
            },
        )
    })?;
    effects(&mut bench.client()?, jobs)?;
    Ok(drained.rate)
}
