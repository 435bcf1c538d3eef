//! Redrive of many letters, and the wait of live jobs during it.

use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::unbounded;
use redrive::dlq::LetterFilter;
use redrive::dlq::runs::{DriveStatus, RunDriver, RunId, RunOptions};
use redrive::postgres::Client;
use redrive::{Database, Job, Operator, Queue, Worker};
use redrive_benches::{Bench, BenchPayload, Measurement, Outcome, Samples, Target, Waits, rate};

pub(crate) const WHAT: &str = "Redrive of 100,000 letters compared with the bare UPDATE and INSERT \
    of the same rows, 5,000 at a time; and how long 200 live jobs a second wait in the same queue \
    meanwhile, compared with when nothing is redriven.";

/// The interval of live jobs.
const EVERY: Duration = Duration::from_millis(5);

const EMPTY: &str = "TRUNCATE redrive.dead_letters, redrive.jobs, redrive.jobs_delayed,
    redrive.leases, redrive.redrive_runs, redrive.run_letters, redrive.run_chunks,
    redrive.run_deltas,
    redrive.letter_deltas, redrive.groups, redrive.failure_hours, redrive.workers";
const INSERT_LETTERS: &str = "INSERT INTO redrive.dead_letters
        (queue, kind, cause, error_class, error_message, payload, history, enqueued_at)
    SELECT 'payloads', 'payload', 'rejected', 'gateway', 'timeout after ' || n || ' ms',
           jsonb_build_object('id', n, 'pad', repeat('x', 100)),
           jsonb_build_array(jsonb_build_object('attempt', 1, 'generation', 0,
               'outcome', 'rejected', 'run_ms', 12, 'ended_at', clock_timestamp(),
               'error_class', 'gateway', 'error_message', 'timeout after ' || n || ' ms',
               'worker', gen_random_uuid(), 'host', 'host-1', 'version', '1.4.2')),
           clock_timestamp()
    FROM generate_series(1, $1::bigint) n";
/// The same rows in a table with a primary key and an index on the time of death. Moving a row is an
/// update and an insert into a table with one index.
const BASELINE: &str = "DROP TABLE IF EXISTS baseline_letters, baseline_jobs;
    CREATE TABLE baseline_letters AS SELECT * FROM redrive.dead_letters;
    ALTER TABLE baseline_letters ADD PRIMARY KEY (id);
    CREATE INDEX ON baseline_letters (died_at, id);
    CREATE INDEX ON baseline_letters (queue, died_at, id) WHERE state = 'open';
    CREATE TABLE baseline_jobs (id bigint, queue text, payload jsonb, history jsonb,
        priority smallint, enqueued_at timestamptz);
    CREATE INDEX ON baseline_jobs (queue, priority, id)";
const BASELINE_MOVE: &str = "WITH moved AS (
        UPDATE baseline_letters l SET state = 'redriving', changed_at = clock_timestamp()
        WHERE l.id IN (SELECT o.id FROM baseline_letters o WHERE o.queue = 'payloads' AND o.state = 'open'
                       ORDER BY o.died_at, o.id LIMIT 5000 FOR UPDATE SKIP LOCKED)
        RETURNING l.*)
    INSERT INTO baseline_jobs SELECT id, queue, payload, history, priority, enqueued_at FROM moved";

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    moved(bench)?;
    waits(bench)
}

fn moved(bench: &mut Bench) -> Outcome {
    let letters = bench.sized(100_000, 1_000);
    let [mut baseline, mut run, mut direct] = [(); 3].map(|()| Samples::default());
    let mut client = bench.client()?;
    for _ in 0..bench.sized(5, 1) {
        insert_letters(&mut client, letters)?;
        client.batch_execute(BASELINE)?;
        client.batch_execute("ANALYZE baseline_letters; CHECKPOINT")?;
        baseline.push(rate(letters, || {
            while client.execute(BASELINE_MOVE, &[])? > 0 {}
            Ok(())
        })?);
        client.batch_execute("DROP TABLE baseline_letters, baseline_jobs; CHECKPOINT")?;
        let mut driver = start(bench.db(), &RunOptions::new().unthrottled())?;
        run.push(rate(letters, || {
            while matches!(driver.step()?, DriveStatus::Running(_)) {}
            Ok(())
        })?);
        bench.expect_rows("redrive.jobs", letters)?;
        insert_letters(&mut client, letters)?;
        direct.push(rate(letters, || {
            let dlq = bench.db().dlq();
            let some = LetterFilter::new().queue("payloads").limit(20_000);
            let operator = Operator::default();
            while !dlq.redrive(&some, &operator)?.redriven.is_empty() {}
            Ok(())
        })?);
        bench.expect_rows("redrive.jobs", letters)?;
    }
    let row = Measurement::compared("a run, unthrottled", "letters/s", &baseline, &run);
    bench.report(row.target(Target::AtLeast(50_000.0)))?;
    let name = "direct";
    bench.report(Measurement::compared(name, "letters/s", &baseline, &direct))
}

fn waits(bench: &mut Bench) -> Outcome {
    let unthrottled = "a run, unthrottled";
    let letters = bench.sized(100_000, 1_000);
    let mut nothing: Option<Waits> = None;
    for (what, pace) in [
        ("nothing", None),
        ("a run at 100 a second", Some(RunOptions::new().rate(100))),
        (unthrottled, Some(RunOptions::new().unthrottled())),
    ] {
        let mut client = bench.client()?;
        insert_letters(&mut client, letters)?;
        client.batch_execute("ANALYZE redrive.dead_letters; CHECKPOINT")?;
        let driver = pace.map(|pace| start(bench.db(), &pace)).transpose()?;
        let watching = bench.sized(Duration::from_secs(15), Duration::from_millis(1_500));
        let (waits, sent) = watch(bench.db(), driver, watching)?;
        let nothing = nothing.get_or_insert_with(|| waits.clone());
        for (part, at) in [("p50", 0.5), ("p99", 0.99)] {
            let name = format!("wait of live jobs, {part}, meanwhile: {what}");
            let row = Measurement::compared(name, "ms", &nothing.at(at), &waits.at(at));
            let row = match sent {
                0 => row,
                sent => row.note(format!("{sent} letters were redriven meanwhile")),
            };
            bench.report(match (what == unthrottled, part) {
                (true, "p99") => row.target(Target::RatioAtMost(2.0)),
                _ => row,
            })?;
        }
    }
    Ok(())
}

/// Enqueues live jobs while a run is driven. Returns their waits, and the number of redriven letters.
fn watch(db: &Database, driver: Option<RunDriver>, watching: Duration) -> Outcome<(Waits, u64)> {
    let queue = Queue::new(db, "payloads")?;
    let origin = Instant::now();
    let (waits, waited) = unbounded();
    let worker = Worker::builder(&queue)
        .slots(2)
        .handle(move |job: &Job<BenchPayload>| {
            // Redriven payloads have no time.
            if let Ok(sent) = job.payload().pad.parse::<f64>() {
                _ = waits.send((origin.elapsed().as_secs_f64() - sent) * 1e3);
            }
            Ok(())
        })
        .start()?;
    thread::sleep(Duration::from_secs(1));
    let driving = driver.map(|mut driver| {
        thread::spawn(move || -> redrive::Result<RunId> {
            while let DriveStatus::Running(wait) = driver.step()? {
                if origin.elapsed() > watching {
                    break;
                }
                thread::sleep(wait);
            }
            Ok(driver.run())
        })
    });
    let mut jobs = 0;
    while origin.elapsed() < watching {
        let pad = origin.elapsed().as_secs_f64().to_string();
        queue.enqueue(&BenchPayload { id: jobs, pad })?;
        jobs += 1;
        let late = origin
            .elapsed()
            .saturating_sub(EVERY * u32::try_from(jobs)?);
        thread::sleep(EVERY.saturating_sub(late));
    }
    let sent = match driving {
        Some(driving) => {
            let run = driving.join().map_err(|_| "a thread panicked")??;
            db.dlq().runs().get(run)?.map_or(0, |run| run.sent)
        }
        None => 0,
    };
    while (waited.len() as u64) < jobs {
        thread::sleep(Duration::from_millis(10));
    }
    worker.stop(Duration::from_secs(5))?;
    Ok((waited.try_iter().collect::<Vec<f64>>().into(), sent))
}

/// Empties the schema and inserts letters.
fn insert_letters(client: &mut Client, letters: usize) -> Outcome {
    client.batch_execute(EMPTY)?;
    client.execute(INSERT_LETTERS, &[&i64::try_from(letters)?])?;
    // VACUUM cannot run in a transaction.
    client.batch_execute("VACUUM ANALYZE redrive.dead_letters")?;
    client.batch_execute("CHECKPOINT")?;
    Ok(())
}

fn start(db: &Database, pace: &RunOptions) -> Outcome<RunDriver> {
    let started = db.dlq().runs().start(
        &LetterFilter::new().queue("payloads"),
        pace,
        &Operator::default(),
    )?;
    Ok(started.ok_or("no letters")?.1)
}
