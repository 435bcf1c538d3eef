//! How long the jobs of one tenant wait beside the backlog of others.

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::unbounded;
use redrive::postgres::Client;
use redrive::{GroupPolicy, Job, NewJob, Operator, Queue, Worker};
use redrive_benches::{Bench, BenchPayload, Measurement, Outcome, Scenario, Target, Waits};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "tenants",
    what: "From the call of an enqueue to the start of its handler, one job every 20 ms, under the policy `fair` for \
           groups: beside 1,000,000 jobs of 1 ms of one other group, and beside as many of 100 other groups, which have \
           their turns before, compared with an empty queue.",
    run,
};

/// How long any job may wait.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Writes the same rows as an enqueue.
const BACKLOG: &str = "INSERT INTO redrive.jobs (segment, queue, kind, payload, meta.group_key)
    SELECT 8, 'tenants', 'payload', jsonb_build_object('id', 0, 'pad', repeat('x', 100)),
           'tenant-' || lpad((n % $2::bigint)::text, 6, '0')
    FROM generate_series(1, $1::bigint) n";

fn run(bench: &mut Bench) -> Outcome {
    let (backlog, many) = (bench.sized(1_000_000, 10_000), 100);
    let queue = Queue::new(bench.db(), "tenants")?;
    queue.set_group_policy(GroupPolicy::Fair, &Operator::new("bench"))?;
    let mut client = bench.client()?;
    let [mut empty, mut one, mut all] = [(); 3].map(|()| Waits::default());
    for _ in 0..bench.sized(3, 1) {
        for (tenants, waits) in [(0, &mut empty), (1, &mut one), (many, &mut all)] {
            if tenants > 0 {
                write(&mut client, backlog, tenants)?;
            }
            waits.push(measured(bench, &queue)?);
            client.batch_execute("TRUNCATE redrive.jobs")?;
        }
    }
    for (tenants, waits) in [(1, &one), (many, &all)] {
        for (name, part) in [("p50", 0.5), ("p99", 0.99)] {
            let name = format!("beside {backlog} jobs of {tenants} groups, {name}");
            let row = Measurement::compared(name, "ms", &empty.at(part), &waits.at(part));
            bench.report(row.target(Target::AtMost(1000.0)))?;
        }
    }
    Ok(())
}

fn write(client: &mut Client, jobs: i64, tenants: i64) -> Outcome {
    client.execute(BACKLOG, &[&jobs, &tenants])?;
    client.batch_execute("VACUUM ANALYZE redrive.jobs")?;
    client.batch_execute("CHECKPOINT")?;
    Ok(())
}

/// Enqueues the jobs of one tenant at intervals, and returns how long each waited, in milliseconds.
fn measured(bench: &Bench, queue: &Queue) -> Outcome<Vec<f64>> {
    let count = bench.sized(300_u64, 10);
    let (begun, starts) = unbounded();
    let worker = Worker::builder(queue)
        .slots(2)
        .handle(move |job: &Job<BenchPayload>| {
            match job.payload().id {
                0 => thread::sleep(Duration::from_millis(1)),
                id => _ = begun.send((id, Instant::now())),
            }
            Ok(())
        })
        .start()?;
    let mut waits = Vec::new();
    // Open the connections, prepare the statements and learn the duration of jobs first.
    for id in 1..=count + 20 {
        let called = Instant::now();
        queue.enqueue_job(NewJob::new(&BenchPayload::new(id))?.group("a small tenant"))?;
        let (started, at) = starts.recv_timeout(TIMEOUT)?;
        if started != id {
            return Err(format!("job {started} started instead of {id}").into());
        }
        if id > 20 {
            waits.push(at.saturating_duration_since(called).as_secs_f64() * 1e3);
        }
        thread::sleep(Duration::from_millis(20).saturating_sub(called.elapsed()));
    }
    worker.stop(TIMEOUT)?;
    Ok(waits)
}
