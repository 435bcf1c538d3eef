//! Handlers that settle in their own transaction, compared with bare transactions.

use redrive::limits::WORKER_CONNECTIONS;
use redrive::postgres::Transaction;
use redrive::{Job, Queue};
use redrive_benches::{
    Baseline, Bench, BenchPayload, Measurement, Outcome, Scenario, drain_with, fill, in_threads,
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
    bench.execute(EFFECTS)?;
    for slots in [2, 8] {
        let baseline = Baseline::new(bench)?;
        let (baselines, redrive) = bench.by_turns(
            3,
            || bare(bench, &baseline, jobs, slots),
            || once(bench, jobs, slots),
        )?;
        let name = format!("{slots} slots");
        let row = Measurement::compared(name, "jobs/s", &baselines, &redrive);
        bench.report(
            row.note("the baseline runs 2 statements and a commit a job, without a lease"),
        )?;
    }
    Ok(())
}

fn check_effects(bench: &Bench, expected: usize) -> Outcome {
    bench.expect_rows("(SELECT DISTINCT id FROM effects) e", expected)?;
    bench.execute("TRUNCATE effects; CHECKPOINT")
}

fn bare(bench: &Bench, baseline: &Baseline, jobs: usize, connections: usize) -> Outcome<f64> {
    baseline.copy(jobs)?;
    let rate = rate(jobs, || {
        in_threads(0..connections, |_| {
            let mut client = bench.client()?;
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
    })?;
    check_effects(bench, jobs)?;
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
        builder.slots(slots).handle(
            move |job: &Job<BenchPayload>, transaction: &mut Transaction<'_>| {
                ran.one();
                transaction.execute(EFFECT, &[&job.id().get()])?;
                Ok(())
            },
        )
    })?;
    check_effects(bench, jobs)?;
    Ok(drained.rate)
}
