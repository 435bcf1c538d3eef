//! WAL and processor time of a job.

use redrive::Queue;
use redrive_benches::{
    Baseline, Bench, BenchPayload, Measurement, Outcome, Samples, Target, Usage, drain, fill_kinds,
    metered,
};

pub(crate) const WHAT: &str = "Bytes of WAL and microseconds of processor time a job, for bulk \
    enqueue, single enqueue and drain of ten kinds, compared with COPY, INSERT and DELETE of the \
    same rows. The processor time of a short-lived connection is not counted.";

/// The cost of one job, round by round.
#[derive(Default)]
struct Cost {
    wal: Samples,
    client: Samples,
    server: Samples,
}

impl Cost {
    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    fn push(&mut self, took: Usage, jobs: usize) {
        let jobs = jobs as f64;
        self.wal.push(took.wal as f64 / jobs);
        self.client.push(took.client.as_secs_f64() * 1e6 / jobs);
        self.server.push(took.server.as_secs_f64() * 1e6 / jobs);
    }
}

pub(crate) fn run(bench: &mut Bench) -> Outcome {
    let jobs = bench.sized(200_000, 2_000);
    let few = bench.sized(5_000, 200);
    let baseline = Baseline::new(bench)?;
    let queue = Queue::new(bench.db(), "cost")?;
    let payloads = BenchPayload::many(jobs);
    let (mut bulk, mut single, mut drained) = (Cost::default(), Cost::default(), Cost::default());
    let [mut copied, mut inserted, mut deleted] = [(); 3].map(|()| Samples::default());
    for _ in 0..bench.sized(5, 1) {
        copied.push(wal(bench, jobs, || baseline.copy(jobs).map(drop))?);
        // Without the copy before the deletes.
        let before = copied.last().unwrap_or_default();
        deleted.push(wal(bench, jobs, || baseline.delete(jobs, 1).map(drop))? - before);
        inserted.push(wal(bench, few, || baseline.insert(few, 1).map(drop))?);

        empty(bench)?;
        let enqueued = metered(bench, || {
            for payload in payloads.iter().take(few) {
                queue.enqueue(payload)?;
            }
            Ok(())
        })?;
        single.push(enqueued, few);
        empty(bench)?;
        let enqueued = metered(bench, || Ok(queue.enqueue_many(&payloads).map(drop)?))?;
        bulk.push(enqueued, jobs);
        empty(bench)?;
        fill_kinds(&queue, jobs)?;
        drained.push(drain(bench, &queue, jobs, 1)?.used, jobs);
    }
    let row = Measurement::compared("WAL of a drained job", "bytes", &deleted, &drained.wal);
    let note = "includes full pages, because a checkpoint comes just before";
    bench.report(row.target(Target::AtMost(400.0)).note(note))?;
    for (name, baseline, redrive) in [
        ("WAL of a job, bulk enqueue", &copied, &bulk.wal),
        ("WAL of a job, single enqueue", &inserted, &single.wal),
    ] {
        bench.report(Measurement::compared(name, "bytes", baseline, redrive))?;
    }
    for (name, cost) in [
        ("drain", &drained),
        ("bulk enqueue", &bulk),
        ("single enqueue", &single),
    ] {
        for (of, time) in [("client", &cost.client), ("server", &cost.server)] {
            let name = format!("processor time of the {of}, {name}");
            bench.report(Measurement::new(name, "us a job", time))?;
        }
    }
    Ok(())
}

fn empty(bench: &Bench) -> Outcome {
    bench.execute("TRUNCATE redrive.jobs, redrive.leases, redrive.metric_deltas; CHECKPOINT")
}

/// Returns the bytes of WAL per row.
#[expect(clippy::cast_precision_loss, reason = "a mean for people")]
fn wal(bench: &Bench, rows: usize, work: impl FnOnce() -> Outcome) -> Outcome<f64> {
    Ok(metered(bench, work)?.wal as f64 / rows as f64)
}
