//! Measures which share of a rate limit its starts use, and whether they exceed it.

use std::time::{Duration, Instant};

use redrive::{GroupPolicy, Job, NewJob, Operator, Queue, RateLimit, RateLimited, Worker};
use redrive_benches::{
    Bench, BenchPayload, Measurement, Outcome, Recorder, Scenario, Target, fill_with, until_drained,
};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "rates",
    what: "Starts under a rate limit, with enough work for 20 s and four workers of two slots: of a queue, and of \
           each of ten groups. The share of the rate counts the starts after the burst; the excess is the most \
           starts of any window above its burst and its rate times the time.",
    run,
};

/// The groups of the limit of each group.
const GROUPS: u64 = 10;
/// The limits: starts a second, and the burst.
const LIMITS: [(u32, u32); 3] = [(10, 10), (100, 200), (1_000, 100)];
/// How often a worker looks for jobs without a notification.
const POLL: Duration = Duration::from_millis(500);

fn run(bench: &mut Bench) -> Outcome {
    for (rate, burst) in LIMITS {
        for groups in [1, GROUPS] {
            let (share, excess) = once(bench, groups, rate, burst)?;
            let name = match groups {
                1 => format!("{rate} a second for a queue"),
                _ => format!("{rate} a second for each of {groups} groups"),
            };
            let row = Measurement::new(format!("{name}, share of the rate"), "%", share);
            bench.report(row.target(Target::AtLeast(95.0)))?;
            let row = Measurement::new(format!("{name}, excess"), "starts", excess);
            bench.report(row.target(Target::AtMost(0.0)))?;
        }
    }
    Ok(())
}

/// Runs jobs under a limit of the queue, or of each group. Returns the share of the rate that was used, in percent,
/// and the greatest excess of a window.
fn once(bench: &Bench, groups: u64, rate: u32, burst: u32) -> Outcome<(f64, f64)> {
    let name = format!("rates-{rate}-{groups}");
    let queue = Queue::new(bench.db(), &name)?;
    let operator = Operator::new("bench");
    let limited = match groups {
        1 => RateLimited::Queue,
        _ => {
            queue.set_group_policy(GroupPolicy::Fair, &operator)?;
            RateLimited::EachGroup
        }
    };
    let limit = RateLimit::per(rate, Duration::from_secs(1)).burst(burst);
    queue.limit_rate(limited, limit, &operator)?;
    let seconds = bench.sized(20, 1);
    let of_each = (burst + rate * seconds) as usize;
    let jobs = of_each * usize::try_from(groups)?;
    fill_with(&queue, jobs, |job: NewJob, id| match groups {
        1 => job,
        _ => job.group(format!("group-{}", id % groups)),
    })?;
    // When each handler started, with the group of its job.
    let starts = Recorder::default();
    let workers = (0..4)
        .map(|_| {
            let recorder = starts.clone();
            let queue = Queue::new(&redrive::connect(bench.url())?, &name)?;
            Worker::builder(&queue)
                .slots(2)
                .poll_interval(POLL)
                .handle(move |job: &Job<BenchPayload>| {
                    recorder.push((job.payload().id % groups, Instant::now()));
                    Ok(())
                })
                .start()
        })
        .collect::<redrive::Result<Vec<_>>>()?;
    until_drained(&queue)?;
    for worker in workers {
        worker.stop(Duration::from_secs(10))?;
    }
    let starts = starts.take();
    let (mut shares, mut excess) = (Vec::new(), f64::MIN);
    for group in 0..groups {
        let of_group = starts.iter().filter(|(of, _)| *of == group);
        let mut times: Vec<Instant> = of_group.map(|(_, at)| *at).collect();
        times.sort_unstable();
        if times.len() != of_each {
            return Err(format!("{} starts instead of {of_each}", times.len()).into());
        }
        shares.push(100.0 * share(&times, rate, burst));
        excess = excess.max(most_above(&times, rate, burst));
    }
    shares.sort_by(f64::total_cmp);
    Ok((shares[0], excess))
}

/// Returns the share of the rate that was used after the burst.
fn share(times: &[Instant], rate: u32, burst: u32) -> f64 {
    let took = times[times.len() - 1].duration_since(times[0]);
    let paced = decimal(times.len()) - f64::from(burst);
    paced / (f64::from(rate) * took.as_secs_f64())
}

/// Returns the most starts of any window above what the limit allows. Each start fills a bucket that leaks at the
/// rate.
fn most_above(times: &[Instant], rate: u32, burst: u32) -> f64 {
    let (mut level, mut most) = (0.0_f64, f64::MIN);
    for (at, time) in times.iter().enumerate() {
        let before = times[at.saturating_sub(1)];
        let waited = time.duration_since(before).as_secs_f64();
        level = (level - waited * f64::from(rate)).max(0.0) + 1.0;
        most = most.max(level - f64::from(burst));
    }
    most
}

#[expect(clippy::cast_precision_loss, reason = "a number of jobs")]
fn decimal(count: usize) -> f64 {
    count as f64
}
