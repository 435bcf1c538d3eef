//! A million letters over 200 failure groups and 20 queues, few of which have most of them: how
//! long the questions take, and how fast letters are taken away:
//! `DATABASE_URL=… cargo bench -p redrive-benches --bench million`.
//!
//! It needs an empty database of its own; `LETTERS` is another number than a million. Times are
//! also printed as a ratio to the time of one sequential count of the table in the same run,
//! because machines differ.
#![allow(clippy::print_stdout, reason = "a benchmark prints its table")]
#![allow(missing_docs, reason = "not a library")]

use std::error::Error;
use std::time::{Duration, Instant};

use redrive::postgres::{Client, NoTls};
use redrive::{Act, Database, LetterState, Letters, Policy, PolicyMode, Retention};
use redrive_benches::rate;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const LETTERS: i64 = 1_000_000;
/// How many letters are pruned and archived: a tenth.
const SHARE: i64 = 10;
/// How often each question is asked; the best counts, because noise only ever slows down.
const ASKED: usize = 5;

/// A thousand letters a statement, as workers write them; a cubed random number makes few groups
/// large. Of ten letters seven are open, two recovered and one is discarded.
const FILL: &str = "
    INSERT INTO redrive.dead_letters
        (queue, kind, state, discard_reason, reason, error_class, error_message, payload, host,
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

fn main() -> Outcome<()> {
    // `cargo test --benches` runs this too; then there is nothing to measure.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let url = std::env::var("DATABASE_URL")
        .map_err(|_| "set DATABASE_URL to an empty database: this makes tables of its own there")?;
    let letters: i64 = match std::env::var("LETTERS") {
        Ok(number) => number.parse()?,
        Err(_) => LETTERS,
    };
    let db = redrive::connect(&url)?;
    db.migrate()?;
    let mut client = Client::connect(&url, NoTls)?;
    fill(&mut client, letters)?;
    let scan = best(|| {
        let counted = client.query_one(
            "SELECT count(*), max(length(error_message)) FROM redrive.dead_letters",
            &[],
        )?;
        let _: i64 = counted.get(0);
        Ok(())
    })?;
    println!("{:<46} {:>9} {:>9}", "", "ms", "x a scan");
    show("one sequential count", scan, scan);
    ask(&db, &mut client, scan)?;
    tick(&db, &mut client, scan)?;
    take_away(&db, &mut client, letters / SHARE)
}

/// Writes the letters that are not there yet.
fn fill(client: &mut Client, letters: i64) -> Outcome<()> {
    let there: i64 = client
        .query_one("SELECT count(*) FROM redrive.dead_letters", &[])?
        .get(0);
    let fill = client.prepare(FILL)?;
    let start = Instant::now();
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
    println!(
        "{} letters written in {:.0?}",
        letters - there,
        start.elapsed()
    );
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

fn ask(db: &Database, client: &mut Client, scan: Duration) -> Outcome<()> {
    let open = |which: Letters| which.state(LetterState::Open);
    for (what, which) in [
        ("list", open(Letters::all())),
        ("list a large queue", open(Letters::queue("queue0"))),
        (
            "list a frequent class",
            open(Letters::all().error_class("Class0")),
        ),
        (
            "list a rare class",
            open(Letters::all().error_class("Class39")),
        ),
        (
            "list a class that is not there",
            open(Letters::all().error_class("NoSuch")),
        ),
    ] {
        show(what, best(|| Ok(db.letters(&which).map(drop)?))?, scan);
    }
    for (what, which) in [
        ("count", open(Letters::all())),
        ("count a queue", open(Letters::queue("queue3"))),
        (
            "count a rare class",
            open(Letters::all().error_class("Class39")),
        ),
    ] {
        show(
            what,
            best(|| Ok(db.count_letters(&which).map(drop)?))?,
            scan,
        );
    }
    let groups = "SELECT id, title, open, deaths, last_seen FROM redrive.failure_groups ORDER BY open DESC LIMIT 50";
    show(
        "groups",
        best(|| Ok(client.query(groups, &[]).map(drop)?))?,
        scan,
    );
    show("stats", best(|| Ok(db.stats(None).map(drop)?))?, scan);
    Ok(())
}

/// One tick of a policy, in a transaction that is rolled back so that each finds the same.
fn tick(db: &Database, client: &mut Client, scan: Duration) -> Outcome<()> {
    let hour = Duration::from_hours(1);
    let plain = |which| Policy::new("bench", which).every(hour).batch(50);
    for (what, policy) in [
        ("tick of 50, any queue", plain(Letters::all())),
        ("tick of 50, one queue", plain(Letters::queue("queue0"))),
        (
            "tick of 50, a rare class",
            plain(Letters::all().error_class("Class39")),
        ),
        ("tick of 10,000", plain(Letters::all()).batch(10_000)),
        (
            "dry tick of 50",
            plain(Letters::all()).mode(PolicyMode::DryRun),
        ),
        (
            "tick that finds nothing in a million",
            plain(Letters::all().kind("no.such")),
        ),
    ] {
        db.set_policy(&policy, &Act::new())?;
        let time = best(|| {
            let mut transaction = client.transaction()?;
            transaction.execute(
                "UPDATE redrive.policies SET next_at = clock_timestamp()",
                &[],
            )?;
            transaction.query(
                "SELECT policy, letters, trouble FROM redrive.run_policies()",
                &[],
            )?;
            Ok(transaction.rollback()?)
        })?;
        show(what, time, scan);
    }
    db.remove_policy("bench", &Act::new())?;
    show(
        "policies, none due",
        best(|| {
            Ok(client
                .query("SELECT policy FROM redrive.run_policies()", &[])
                .map(drop)?)
        })?,
        scan,
    );
    Ok(())
}

/// Prunes a share of the letters, and archives another.
fn take_away(db: &Database, client: &mut Client, share: i64) -> Outcome<()> {
    // So old that just the share is older.
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
    let pruned = rate(count, || db.prune(closed).map(|pruned| taken = pruned))?;
    println!("prune: {taken} letters, {pruned:.0} a second");
    let open = age("open")?;
    db.set_retention(&Retention::archive(LetterState::Open, open), &Act::new())?;
    show_due(db)?;
    let archived = rate(count, || {
        db.retain(&Act::new()).map(|archived| taken = archived)
    })?;
    println!("archive: {taken} letters, {archived:.0} a second");
    db.remove_retention(None, LetterState::Open, &Act::new())?;
    Ok(())
}

fn show_due(db: &Database) -> Outcome<()> {
    let start = Instant::now();
    let due: u64 = db.retention_due()?.iter().map(|due| due.letters).sum();
    println!(
        "prune --dry-run: {due} letters are due, {:.1?}",
        start.elapsed()
    );
    Ok(())
}

/// The best time of several.
fn best(mut question: impl FnMut() -> Outcome<()>) -> Outcome<Duration> {
    let mut best = Duration::MAX;
    for _ in 0..ASKED {
        let start = Instant::now();
        question()?;
        best = best.min(start.elapsed());
    }
    Ok(best)
}

fn show(what: &str, time: Duration, scan: Duration) {
    println!(
        "{what:<46} {:>9.1} {:>9.3}",
        time.as_secs_f64() * 1000.0,
        time.as_secs_f64() / scan.as_secs_f64()
    );
}
