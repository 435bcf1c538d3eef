//! A million letters, most of them in a few of 200 groups and 20 queues: the time of queries, and
//! the rates of prune and archive.

use std::time::{Duration, Instant};

use redrive::Operator;
use redrive::dlq::{LetterFilter, LetterState, Policy, PolicyMode, RetentionRule};
use redrive::postgres::Client;
use redrive_benches::{Bench, Measurement, Outcome, Samples, Scenario, rate};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "million",
    what: "Questions about a million letters over 200 groups and 20 queues, compared with one sequential \
           count of the table; prune, archive and the ticks of policies.",
    run,
};

/// How many letters are pruned and archived: a tenth.
const SHARE: i64 = 10;
/// How often each query runs.
const ASKED: usize = 5;

/// Inserts a thousand letters a statement, as workers do. A cubed random number makes few groups
/// large. Of ten letters, seven are open, two recovered and one discarded.
const FILL: &str = "
    INSERT INTO redrive.dead_letters
        (queue, kind, state, discard_reason, cause, error_class, error_message, payload, host,
         version, enqueued_at, died_at, changed_at)
    SELECT 'queue' || g % 20, 'order.placed', s.state, CASE s.state WHEN 'discarded' THEN 'old' END,
           'exhausted', 'Class' || g % 40,
           'failure ' || chr(97 + g / 26 % 26) || chr(97 + g % 26) || ' of order ' || n,
           jsonb_build_object('order', n, 'pad', repeat('x', 100)), 'web-' || n % 4, '1.4.2',
           d.at, d.at, d.at
    FROM generate_series($1::bigint, $2::bigint) n
    CROSS JOIN LATERAL (SELECT ((200 * power(random(), 3))::bigint % 200 + 0 * n)::integer AS g) x
    CROSS JOIN LATERAL (SELECT CASE WHEN n % 10 < 7 THEN 'open' WHEN n % 10 < 9 THEN 'recovered' ELSE 'discarded' END AS state) s
    CROSS JOIN LATERAL (SELECT clock_timestamp() - ($3::bigint - n) * interval '5 seconds' AS at) d";

fn run(bench: &mut Bench) -> Outcome {
    let letters = bench.sized(1_000_000, 1_000);
    let mut client = bench.client()?;
    fill(&mut client, letters)?;
    let scan = times(|| {
        let counted = client.query_one(
            "SELECT count(*), max(length(error_message)) FROM redrive.dead_letters",
            &[],
        )?;
        let _: i64 = counted.get(0);
        Ok(())
    })?;
    ask(bench, &mut client, &scan)?;
    tick(bench, &mut client, &scan)?;
    take_away(bench, &mut client, letters / SHARE)
}

/// Inserts the missing letters.
fn fill(client: &mut Client, letters: i64) -> Outcome<()> {
    let there: i64 = client
        .query_one("SELECT count(*) FROM redrive.dead_letters", &[])?
        .get(0);
    let fill = client.prepare(FILL)?;
    let mut from = there + 1;
    while from <= letters {
        let to = letters.min(from + 999);
        client.execute(&fill, &[&from, &to, &letters])?;
        if from % 50_000 == 1 {
            fold(client)?;
        }
        from = to + 1;
    }
    fold(client)?;
    Ok(client.batch_execute("VACUUM ANALYZE")?)
}

fn fold(client: &mut Client) -> Outcome<()> {
    while client
        .query_one("SELECT redrive.fold_letters()", &[])?
        .get::<_, i64>(0)
        > 0
    {}
    Ok(())
}

/// Not a closure: Rust 1.95 miscompiles closures that take equal large values (rust-lang/rust#155241).
fn open(which: LetterFilter) -> LetterFilter {
    which.state(LetterState::Open)
}

fn ask(bench: &mut Bench, client: &mut Client, scan: &Samples) -> Outcome {
    let db = bench.db().clone();
    for (what, which) in [
        ("list", open(LetterFilter::new())),
        (
            "list a large queue",
            open(LetterFilter::new().queue("queue0")),
        ),
        (
            "list a frequent class",
            open(LetterFilter::new().error_class("Class0")),
        ),
        (
            "list a rare class",
            open(LetterFilter::new().error_class("Class39")),
        ),
        (
            "list a class that is not there",
            open(LetterFilter::new().error_class("NoSuch")),
        ),
    ] {
        show(
            bench,
            what,
            &times(|| Ok(db.dlq().list(&which).map(drop)?))?,
            scan,
        )?;
    }
    for (what, which) in [
        ("count", open(LetterFilter::new())),
        ("count a queue", open(LetterFilter::new().queue("queue3"))),
        (
            "count a rare class",
            open(LetterFilter::new().error_class("Class39")),
        ),
    ] {
        show(
            bench,
            what,
            &times(|| Ok(db.dlq().count(&which).map(drop)?))?,
            scan,
        )?;
    }
    let groups = "SELECT id, title, open, deaths, last_seen FROM redrive.failure_groups ORDER BY open DESC LIMIT 50";
    show(
        bench,
        "groups",
        &times(|| Ok(client.query(groups, &[]).map(drop)?))?,
        scan,
    )?;
    show(
        bench,
        "stats",
        &times(|| Ok(db.admin().stats(None).map(drop)?))?,
        scan,
    )?;
    Ok(())
}

/// Runs one tick of a policy and rolls it back, so that all start from the same state.
fn tick(bench: &mut Bench, client: &mut Client, scan: &Samples) -> Outcome {
    let db = bench.db().clone();
    let hour = Duration::from_hours(1);
    let plain = |which| Policy::new("bench", which).every(hour).batch(50);
    for (what, policy) in [
        ("tick of 50, any queue", plain(LetterFilter::new())),
        (
            "tick of 50, one queue",
            plain(LetterFilter::new().queue("queue0")),
        ),
        (
            "tick of 50, a rare class",
            plain(LetterFilter::new().error_class("Class39")),
        ),
        ("tick of 10,000", plain(LetterFilter::new()).batch(10_000)),
        (
            "dry tick of 50",
            plain(LetterFilter::new()).mode(PolicyMode::DryRun),
        ),
        (
            "tick that finds nothing in a million",
            plain(LetterFilter::new().kind("no.such")),
        ),
    ] {
        db.dlq().policies().set(&policy, &Operator::default())?;
        let time = times(|| {
            let mut transaction = client.transaction()?;
            transaction.execute(
                "UPDATE redrive.policies SET next_at = clock_timestamp()",
                &[],
            )?;
            transaction.query(
                "SELECT policy, letters, error FROM redrive.run_policies()",
                &[],
            )?;
            Ok(transaction.rollback()?)
        })?;
        show(bench, what, &time, scan)?;
    }
    db.dlq().policies().remove("bench", &Operator::default())?;
    show(
        bench,
        "policies, none due",
        &times(|| {
            Ok(client
                .query("SELECT policy FROM redrive.run_policies()", &[])
                .map(drop)?)
        })?,
        scan,
    )?;
    Ok(())
}

/// Prunes a share of the letters, and archives another.
fn take_away(bench: &mut Bench, client: &mut Client, share: i64) -> Outcome {
    let db = bench.db().clone();
    // The age that only this share exceeds.
    let mut age = |state: &str| -> Outcome<Duration> {
        let asked = "SELECT (extract(epoch FROM clock_timestamp() - l.changed_at) * 1000)::bigint FROM redrive.dead_letters l
            WHERE l.state = ANY ($1) ORDER BY l.changed_at LIMIT 1 OFFSET $2";
        let states: Vec<&str> = state.split(' ').collect();
        let found: i64 = client.query_one(asked, &[&states, &share])?.get(0);
        Ok(Duration::from_millis(found.unsigned_abs()))
    };
    let count = usize::try_from(share)?;
    let closed = age("recovered discarded")?;
    let mut taken = 0;
    let pruned = rate(count, || {
        taken = db.dlq().prune(closed, &Operator::default())?;
        Ok(())
    })?;
    bench.report(&Measurement::new(
        format!("prune of {taken} letters"),
        "letters/s",
        pruned,
    ))?;
    let open = age("open")?;
    db.dlq().retention().set(
        &RetentionRule::archive(LetterState::Open, open),
        &Operator::default(),
    )?;
    show_due(bench)?;
    let archived = rate(count, || {
        taken = db.dlq().retention().apply(&Operator::default())?;
        Ok(())
    })?;
    bench.report(&Measurement::new(
        format!("archive of {taken} letters"),
        "letters/s",
        archived,
    ))?;
    db.dlq()
        .retention()
        .remove(None, LetterState::Open, &Operator::default())?;
    Ok(())
}

fn show_due(bench: &mut Bench) -> Outcome {
    let db = bench.db().clone();
    let start = Instant::now();
    let due: u64 = db
        .dlq()
        .retention()
        .due()?
        .iter()
        .map(|due| due.letters)
        .sum();
    let took = start.elapsed().as_secs_f64() * 1e3;
    bench.report(&Measurement::new(
        format!("prune --dry-run, {due} letters are due"),
        "ms",
        took,
    ))
}

/// Measures a query in milliseconds.
fn times(mut question: impl FnMut() -> Outcome) -> Outcome<Samples> {
    (0..ASKED)
        .map(|_| {
            let start = Instant::now();
            question()?;
            Ok(start.elapsed().as_secs_f64() * 1e3)
        })
        .collect()
}

fn show(bench: &mut Bench, what: &str, times: &Samples, scan: &Samples) -> Outcome {
    bench.report(&Measurement::compared(what, "ms", scan, times))
}
