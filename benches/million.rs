//! A million letters, most of them in a few of 200 groups and 20 queues: the time of queries, and
//! the rates of prune and archive.

use std::time::Duration;

use redrive::Operator;
use redrive::dlq::{LetterFilter, LetterState, Policy, RetentionRule};
use redrive::postgres::Client;
use redrive::schedule::Schedule;
use redrive_benches::{Bench, Measurement, Outcome, Samples, Scenario, fill_letters, rate, timed};

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
    fill_letters(&mut client, FILL, letters)?;
    let scan = timed(ASKED, || {
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

fn ask(bench: &mut Bench, client: &mut Client, scan: &Samples) -> Outcome {
    let db = bench.db().clone();
    let parsed = |filter: &str| -> Outcome<LetterFilter> {
        let filter: LetterFilter = filter.parse()?;
        Ok(filter.or_state(LetterState::Open).limit(50))
    };
    for filter in [
        "",
        "queue=queue0",
        "class=Class0",
        "class=Class39",
        "class=NoSuch",
        "queue=queue3 class=Class17",
        "cause=exhausted version=1.4.2 host=web-1",
        "payload.order=42",
        "state=any",
        "state=any class=Class0",
        "state=any class=Class39",
    ] {
        let which = parsed(filter)?;
        let name = format!("list {filter}");
        show(bench, &name, scan, || Ok(db.dlq().list(&which).map(drop)?))?;
    }
    for filter in ["", "queue=queue3", "class=Class39", "queue=queue3 age>1h"] {
        let which = parsed(filter)?;
        let name = format!("count {filter}");
        show(bench, &name, scan, || {
            Ok(db.dlq().count(&which).map(drop)?)
        })?;
    }
    let groups = "SELECT id, title, open, deaths, last_seen FROM redrive.failure_groups ORDER BY open DESC LIMIT 50";
    show(bench, "groups", scan, || {
        Ok(client.query(groups, &[]).map(drop)?)
    })?;
    show(bench, "stats", scan, || {
        Ok(db.admin().stats(None).map(drop)?)
    })
}

/// Runs one tick of a policy and rolls it back, so that all start from the same state.
fn tick(bench: &mut Bench, client: &mut Client, scan: &Samples) -> Outcome {
    let db = bench.db().clone();
    let hour = Duration::from_hours(1);
    let plain = |which| Policy::new(which).batch(50);
    let all = LetterFilter::new;
    for (what, policy) in [
        ("tick of 50, any queue", plain(all())),
        ("tick of 50, one queue", plain(all().queue("queue0"))),
        (
            "tick of 50, a rare class",
            plain(all().error_class("Class39")),
        ),
        ("tick of 10,000", plain(all()).batch(10_000)),
        ("counting tick of 50", plain(all()).count_only()),
        (
            "tick that finds nothing in a million",
            plain(all().kind("no.such")),
        ),
    ] {
        let schedule = Schedule::every("bench", hour)?.redrive(policy);
        db.schedules().set(&schedule, &Operator::default())?;
        show(bench, what, scan, || {
            let mut transaction = client.transaction()?;
            transaction.query("SELECT redrive.trigger_schedule('bench')", &[])?;
            Ok(transaction.rollback()?)
        })?;
    }
    db.schedules().remove("bench", &Operator::default())?;
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
    let name = format!("prune of {taken} letters");
    bench.report(Measurement::new(name, "letters/s", pruned))?;
    let open = age("open")?;
    let rule = RetentionRule::archive(LetterState::Open, open);
    db.dlq().retention().set(&rule, &Operator::default())?;
    show_due(bench)?;
    let archived = rate(count, || {
        taken = db.dlq().retention().apply(&Operator::default())?;
        Ok(())
    })?;
    let name = format!("archive of {taken} letters");
    bench.report(Measurement::new(name, "letters/s", archived))?;
    db.dlq()
        .retention()
        .remove(None, LetterState::Open, &Operator::default())?;
    Ok(())
}

fn show_due(bench: &mut Bench) -> Outcome {
    let db = bench.db().clone();
    let mut letters = 0;
    let took = timed(1, || {
        let due = db.dlq().retention().due()?;
        letters = due.iter().map(|due| due.letters).sum::<u64>();
        Ok(())
    })?;
    let name = format!("prune --dry-run, {letters} letters are due");
    bench.report(Measurement::new(name, "ms", &took))
}

/// Reports how long a question takes, compared with a scan of the table.
fn show(
    bench: &mut Bench,
    what: &str,
    scan: &Samples,
    question: impl FnMut() -> Outcome,
) -> Outcome {
    let times = timed(ASKED, question)?;
    bench.report(Measurement::compared(what.trim_end(), "ms", scan, &times))
}
