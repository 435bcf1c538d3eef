//! Retention: what is taken away and when, what never is, and that nothing is lost on the way
//! into the archive.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use postgres::Client;
use redrive::{Act, Captured, Failure, Job, JobId, LetterState, Letters, Retention};
use redrive_tests::{
    Order, SOON, TestDatabase, drained, letters, letters_in, statement, stop, wait_until, worker,
};
use serde_json::Value;

const DAY: Duration = Duration::from_hours(24);

/// Letters of a queue in a state, as old as asked for.
fn make(client: &mut Client, queue: &str, state: LetterState, days: i32, count: i32) {
    client
        .execute(
            "INSERT INTO redrive.dead_letters \
             (queue, kind, reason, error_class, error_message, payload, enqueued_at, state, discard_reason, died_at, changed_at) \
             SELECT $1::text, 'k', 'rejected', 'c', 'm', '{}', t.at, $2::text, CASE $2::text WHEN 'discarded' THEN 'why' END, t.at, t.at \
             FROM generate_series(1, $4) n, (SELECT now() - $3::integer * interval '1 day' AS at) t",
            &[&queue, &state.as_str(), &days, &count],
        )
        .unwrap();
}

fn count(client: &mut Client, sql: &str) -> i64 {
    client.query_one(sql, &[]).unwrap().get(0)
}

fn left(client: &mut Client) -> Vec<(String, String, i64)> {
    let asked =
        "SELECT queue::text, state, count(*) FROM redrive.dead_letters GROUP BY 1, 2 ORDER BY 1, 2";
    let rows = client.query(asked, &[]).unwrap();
    rows.iter()
        .map(|row| (row.get(0), row.get(1), row.get(2)))
        .collect()
}

fn told(queue: &str, state: &str, count: i64) -> (String, String, i64) {
    (queue.to_owned(), state.to_owned(), count)
}

#[test]
fn a_rule_of_a_queue_goes_before_the_one_for_all() {
    let test = TestDatabase::migrated();
    let (db, mut client) = (test.open(), test.client());
    for queue in ["a", "b"] {
        for days in [10, 50, 100] {
            make(&mut client, queue, LetterState::Recovered, days, 2);
            make(&mut client, queue, LetterState::Discarded, days, 1);
            make(&mut client, queue, LetterState::Open, days, 1);
        }
    }
    let act = Act::new().person("maria@ops-1").why("disk");
    let rules = [
        Retention::delete(LetterState::Recovered, 30 * DAY),
        Retention::archive(LetterState::Recovered, 90 * DAY).queue("a"),
        Retention::delete(LetterState::Discarded, 5 * DAY).queue("b"),
    ];
    for rule in &rules {
        db.set_retention(rule, &act).unwrap();
    }
    assert_eq!(
        db.retention().unwrap(),
        [rules[0].clone(), rules[1].clone(), rules[2].clone()]
    );
    let due: Vec<(String, String, u64)> = db
        .retention_due()
        .unwrap()
        .iter()
        .map(|due| {
            let queue = due.rule.for_queue().expect("a queue").to_owned();
            (queue, due.rule.state().to_string(), due.letters)
        })
        .collect();
    let expected = [
        ("a", "recovered", 2),
        ("b", "discarded", 3),
        ("b", "recovered", 4),
    ];
    assert_eq!(
        due,
        expected.map(|(queue, state, letters)| (queue.to_owned(), state.to_owned(), letters))
    );

    assert_eq!(db.retain(&act).unwrap(), 9);
    assert_eq!(
        left(&mut client),
        [
            told("a", "discarded", 3),
            told("a", "open", 3),
            told("a", "recovered", 4),
            told("b", "open", 3),
            told("b", "recovered", 2),
        ]
    );
    assert_eq!(
        count(
            &mut client,
            "SELECT count(*) FROM redrive.archived_letters WHERE queue = 'a'"
        ),
        2
    );
    assert_eq!(
        count(&mut client, "SELECT count(*) FROM redrive.archived_letters"),
        2
    );
    let audit = "SELECT sum(letters)::bigint FROM redrive.audit WHERE verb = 'retain' AND person = 'maria@ops-1' AND why = 'disk'";
    assert_eq!(count(&mut client, audit), 9);
    // The numbers of the groups follow.
    let open = "SELECT (sum(open) * 100 + sum(recovered) * 10 + sum(discarded))::bigint FROM redrive.failure_groups";
    assert_eq!(count(&mut client, open), 6 * 100 + 6 * 10 + 3);

    assert!(
        db.remove_retention(Some("a"), LetterState::Recovered, &act)
            .unwrap()
    );
    assert!(
        !db.remove_retention(Some("a"), LetterState::Recovered, &act)
            .unwrap()
    );
    assert_eq!(
        db.retain(&act).unwrap(),
        2,
        "now the rule for all is that of `a`"
    );
}

#[test]
fn nothing_open_is_deleted_unless_it_is_said() {
    let test = TestDatabase::migrated();
    let (db, mut client) = (test.open(), test.client());
    for state in [
        LetterState::Open,
        LetterState::Quarantined,
        LetterState::Redriving,
        LetterState::Recovered,
    ] {
        make(&mut client, "q", state, 10_000, 3);
    }
    assert_eq!(
        db.retain(&Act::new()).unwrap(),
        0,
        "without a rule all is kept"
    );
    for state in [
        LetterState::Open,
        LetterState::Quarantined,
        LetterState::Redriving,
    ] {
        let rule = Retention::delete(state, DAY);
        let error = db.set_retention(&rule, &Act::new()).expect_err("it waits");
        assert!(error.is_invalid(), "{error}");
        for refused in [
            format!("SELECT redrive.set_retention('q', '{state}', '1 day')"),
            format!(
                "INSERT INTO redrive.retention (state, keep, action) VALUES ('{state}', '1 day', 'delete')"
            ),
        ] {
            client.batch_execute(&refused).expect_err("it waits");
        }
    }
    assert_eq!(db.retain(&Act::new()).unwrap(), 0);
    db.prune(Duration::ZERO).unwrap();
    assert_eq!(
        left(&mut client),
        [
            told("q", "open", 3),
            told("q", "quarantined", 3),
            told("q", "redriving", 3)
        ]
    );
    let rule = Retention::delete(LetterState::Quarantined, DAY).even_open();
    db.set_retention(&rule, &Act::new()).unwrap();
    db.set_retention(&Retention::archive(LetterState::Open, DAY), &Act::new())
        .unwrap();
    assert_eq!(db.retain(&Act::new()).unwrap(), 6);
    assert_eq!(left(&mut client), [told("q", "redriving", 3)]);
    assert_eq!(
        count(&mut client, "SELECT count(*) FROM redrive.archived_letters"),
        3
    );
}

#[test]
fn an_archived_letter_is_whole() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let (db, mut client) = (queue.database().clone(), test.client());
    let detail = format!("at step one\n{}", "backtrace ".repeat(100));
    let job = queue.enqueue(&Order { number: 7 }).unwrap();
    let dying = worker(&queue)
        .version("1.4.2")
        .handle({
            let detail = detail.clone();
            move |_: &Job<Order>| Err(Failure::reject("broken").detail(&*detail))
        })
        .start()
        .unwrap();
    drained(&queue);
    stop(dying);
    let foreign = Captured::new(
        "kafka:orders",
        "3/17",
        "orders",
        "order",
        b"\xff\0{broken".as_slice(),
    )
    .header("trace", "abc")
    .error("ParseError", "no JSON");
    db.capture(&foreign).unwrap();
    let row = client
        .query_one(
            "SELECT detail_id IS NOT NULL FROM redrive.dead_letters WHERE id = $1",
            &[&job.get()],
        )
        .unwrap();
    assert!(
        row.get::<_, bool>(0),
        "the detail is stored beside the letter"
    );
    db.discard(&Letters::all(), &Act::new().why("enough"))
        .unwrap();
    let rule = Retention::archive(LetterState::Discarded, Duration::ZERO);
    db.set_retention(&rule, &Act::new()).unwrap();
    assert_eq!(db.retain(&Act::new()).unwrap(), 2);

    let archived = db.archived_letters(None, None, 10).unwrap();
    let read =
        |index: usize| -> Value { serde_json::from_str(archived[index].letter.get()).unwrap() };
    let (dead, foreign) = (read(0), read(1));
    assert_eq!((archived[0].id, &*archived[0].queue), (job, "orders"));
    for (key, value) in [
        ("kind", "order"),
        ("state", "discarded"),
        ("discard_reason", "enough"),
        ("reason", "rejected"),
        ("error_message", "broken"),
        ("version", "1.4.2"),
        ("error_detail", &*detail),
    ] {
        assert_eq!(dead[key], value, "{key}");
    }
    assert_eq!(dead["payload"]["number"], 7);
    assert_eq!(dead["history"][0]["error_message"], "broken");
    assert!(dead.get("raw_base64").is_none());
    assert_eq!(foreign["raw_base64"], "/wB7YnJva2Vu");
    assert_eq!(
        (&foreign["source"], &foreign["position"]),
        (&"kafka:orders".into(), &"3/17".into())
    );
    assert_eq!(foreign["headers"]["trace"], "abc");
    assert!(foreign.get("payload").is_none());
    // Page by page, and by queue.
    assert_eq!(
        db.archived_letters(Some("orders"), Some(job), 10)
            .unwrap()
            .len(),
        1
    );
    assert!(
        db.archived_letters(Some("mails"), None, 10)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn a_crash_leaves_a_letter_in_the_table_or_in_the_archive() {
    let test = TestDatabase::migrated();
    let (db, mut client) = (test.open(), test.client());
    make(&mut client, "q", LetterState::Recovered, 10, 20);
    db.set_retention(
        &Retention::archive(LetterState::Recovered, DAY),
        &Act::new(),
    )
    .unwrap();
    let places = "SELECT 100 * (SELECT count(*) FROM redrive.dead_letters) + (SELECT count(*) FROM redrive.archived_letters)";
    let mut doomed = test.client();
    let mut transaction = doomed.transaction().unwrap();
    let nobody: Option<&str> = None;
    let taken: i64 = transaction
        .query_one(
            statement("apply_retention"),
            &[&15_i64, &"none", &nobody, &nobody],
        )
        .unwrap()
        .get("taken");
    assert_eq!(taken, 15);
    assert_eq!(
        count(&mut client, places),
        2000,
        "nothing has moved for anybody else"
    );
    // Meanwhile the others have nothing to do.
    let row = client
        .query_one(
            statement("apply_retention"),
            &[&15_i64, &"none", &nobody, &nobody],
        )
        .unwrap();
    assert_eq!(row.get::<_, Option<i64>>("taken"), None);
    let pid: i32 = transaction
        .query_one("SELECT pg_backend_pid()", &[])
        .unwrap()
        .get(0);
    client
        .query("SELECT pg_terminate_backend($1, 60000)", &[&pid])
        .unwrap();
    drop(transaction);
    assert_eq!(count(&mut client, places), 2000);
    assert_eq!(db.retain(&Act::new()).unwrap(), 20);
    assert_eq!(count(&mut client, places), 20);
}

#[test]
fn a_letter_in_somebodys_hands_is_left_for_the_next_time() {
    let test = TestDatabase::migrated();
    let (db, mut client) = (test.open(), test.client());
    make(&mut client, "q", LetterState::Discarded, 10, 5);
    db.set_retention(&Retention::delete(LetterState::Discarded, DAY), &Act::new())
        .unwrap();
    let mut holder = test.client();
    let mut transaction = holder.transaction().unwrap();
    let held: i64 = transaction
        .query_one(
            "SELECT id FROM redrive.dead_letters ORDER BY id LIMIT 1 FOR UPDATE",
            &[],
        )
        .unwrap()
        .get(0);
    assert_eq!(db.retain(&Act::new()).unwrap(), 4, "it does not wait");
    assert_eq!(db.prune(Duration::ZERO).unwrap(), 0);
    drop(transaction);
    assert!(db.letter(JobId::new(held)).unwrap().is_some());
    assert_eq!(db.retain(&Act::new()).unwrap(), 1);
}

#[test]
fn a_worker_takes_away_what_is_due() {
    let test = TestDatabase::migrated();
    let (queue, mut client) = (test.queue("q"), test.client());
    make(&mut client, "q", LetterState::Recovered, 10, 5);
    make(&mut client, "q", LetterState::Open, 10, 1);
    let rule = Retention::delete(LetterState::Recovered, DAY);
    queue.database().set_retention(&rule, &Act::new()).unwrap();
    let worker = worker(&queue)
        .lease(Duration::from_secs(3))
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    wait_until("the worker's share", SOON, || {
        left(&mut client) == [told("q", "open", 1)]
    });
    stop(worker);
}

#[test]
fn retention_prune_redrive_and_death_at_once_lose_nothing() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let mut client = test.client();
    let dead = letters(&queue, 600);
    for state in [LetterState::Recovered, LetterState::Discarded] {
        let rule = Retention::archive(state, Duration::ZERO);
        db.set_retention(&rule, &Act::new()).unwrap();
    }
    let over = Arc::new(AtomicBool::new(false));
    let archivists: Vec<_> = (0..2)
        .map(|_| {
            let (db, over) = (test.open(), Arc::clone(&over));
            thread::spawn(move || {
                let mut taken = 0;
                while !over.load(Ordering::SeqCst) {
                    taken += db.retain(&Act::new()).unwrap();
                }
                taken + db.retain(&Act::new()).unwrap()
            })
        })
        .collect();
    // A third recovers, a third dies again, a third is discarded.
    let worker = worker(&queue)
        .slots(4)
        .handle(|job: &Job<Order>| match job.payload().number % 2 {
            0 => Ok(()),
            _ => Err(Failure::reject("still broken")),
        })
        .start()
        .unwrap();
    for part in dead.chunks(60) {
        db.redrive(&Letters::ids(part[..40].iter().copied()), &Act::new())
            .unwrap();
        let unwanted = Letters::ids(part[40..].iter().copied());
        db.discard(&unwanted, &Act::new().why("not wanted"))
            .unwrap();
    }
    drained(&queue);
    wait_until("all jobs to have ended", SOON, || {
        letters_in(db, "orders", LetterState::Redriving) == 0
    });
    over.store(true, Ordering::SeqCst);
    let taken: u64 = archivists
        .into_iter()
        .map(|archivist| archivist.join().unwrap())
        .sum();
    stop(worker);
    let mut ids = |table: &str| -> BTreeSet<i64> {
        let rows = client
            .query(&format!("SELECT id FROM redrive.{table}"), &[])
            .unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    };
    let (here, there) = (ids("dead_letters"), ids("archived_letters"));
    assert!(here.is_disjoint(&there), "in both");
    let all: BTreeSet<i64> = here.union(&there).copied().collect();
    assert_eq!(all, dead.iter().map(|id| id.get()).collect(), "in neither");
    assert_eq!((here.len(), there.len(), taken), (200, 400, 400));
    assert_eq!(letters_in(db, "orders", LetterState::Open), 200);
    let groups = "SELECT (sum(open) * 1000 + sum(recovered + discarded + redriving))::bigint FROM redrive.failure_groups";
    assert_eq!(count(&mut client, groups), 200_000);
}

#[test]
fn a_group_without_letters_goes_with_its_details_when_it_is_old() {
    let test = TestDatabase::migrated();
    let (db, mut client) = (test.open(), test.client());
    // Where the schema does not forget groups by itself.
    client
        .batch_execute(
            "DO $do$ BEGIN IF to_regprocedure('redrive.forget_groups(interval)') IS NULL THEN \
               CREATE FUNCTION redrive.forget_groups(age interval) RETURNS bigint LANGUAGE sql AS $$ \
                 WITH gone AS ( \
                   DELETE FROM redrive.groups g WHERE g.last_seen < now() - age \
                     AND NOT EXISTS (SELECT FROM redrive.dead_letters l WHERE l.group_id = g.id) RETURNING g.id), \
                 details AS (DELETE FROM redrive.details d USING gone WHERE d.group_id = gone.id) \
                 SELECT count(*) FROM gone $$; \
             END IF; END $do$",
        )
        .unwrap();
    for (queue, days, letters) in [("old", 100, 2), ("young", 10, 2), ("kept", 100, 1)] {
        make(&mut client, queue, LetterState::Discarded, days, letters);
    }
    make(&mut client, "kept", LetterState::Open, 100, 1);
    client
        .batch_execute(
            "INSERT INTO redrive.details (group_id, digest, detail) SELECT id, gen_random_uuid(), 'd' FROM redrive.groups; \
             UPDATE redrive.groups SET last_seen = now() - CASE queue WHEN 'young' THEN interval '10 days' ELSE interval '100 days' END",
        )
        .unwrap();
    db.set_retention(
        &Retention::delete(LetterState::Discarded, 5 * DAY),
        &Act::new(),
    )
    .unwrap();
    assert_eq!(db.retain(&Act::new()).unwrap(), 5);
    let asked = "SELECT string_agg(g.queue, ' ' ORDER BY g.queue) FROM redrive.details d JOIN redrive.groups g ON g.id = d.group_id";
    let left: String = client.query_one(asked, &[]).unwrap().get(0);
    assert_eq!(left, "kept young");
    assert_eq!(
        count(&mut client, "SELECT count(*) FROM redrive.details"),
        2
    );
}

/// Runs a command line; answers what it printed.
#[track_caller]
fn printed(test: &TestDatabase, code: u8, arguments: &[&str]) -> String {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let program = ["redrive", "--database-url", test.url(), "--no-wait"];
    let arguments = program
        .iter()
        .chain(arguments)
        .map(std::ffi::OsString::from);
    let ended = redrive_cli::run(arguments, &mut out, &mut err);
    let err = String::from_utf8(err).unwrap();
    assert_eq!(ended, std::process::ExitCode::from(code), "{err}");
    String::from_utf8(out).unwrap()
}

#[test]
fn rules_are_set_shown_and_applied_on_the_command_line() {
    let test = TestDatabase::migrated();
    let (db, mut client) = (test.open(), test.client());
    make(&mut client, "orders", LetterState::Recovered, 40, 3);
    make(&mut client, "orders", LetterState::Open, 40, 2);
    printed(&test, 1, &["dlq", "retention", "list"]);
    printed(&test, 0, &["prune", "--dry-run"]);
    printed(&test, 0, &["dlq", "retention", "set", "recovered", "30d"]);
    printed(&test, 2, &["dlq", "retention", "set", "open", "30d"]);
    printed(&test, 2, &["dlq", "retention", "set", "redriving", "30d"]);
    let archive = [
        "dlq",
        "retention",
        "set",
        "open",
        "30d",
        "archive",
        "--queue",
        "orders",
    ];
    printed(&test, 0, &archive);
    let list = printed(&test, 0, &["dlq", "retention", "list"]);
    assert_eq!(list.lines().count(), 3, "{list}");
    let dry = printed(&test, 0, &["prune", "--dry-run"]);
    assert!(
        dry.contains("5 letters would go") && dry.contains("archive"),
        "{dry}"
    );
    assert_eq!(left(&mut client).len(), 2, "nothing has changed");
    assert!(printed(&test, 0, &["prune"]).contains("5 letters"));
    assert!(left(&mut client).is_empty());
    assert_eq!(db.archived_letters(None, None, 10).unwrap().len(), 2);
    printed(
        &test,
        0,
        &["dlq", "retention", "remove", "open", "--queue", "orders"],
    );
    printed(
        &test,
        1,
        &["dlq", "retention", "remove", "open", "--queue", "orders"],
    );
}

#[test]
fn the_archive_is_exported_as_lines_that_capture_reads() {
    let test = TestDatabase::migrated();
    let (queue, db) = (test.queue("orders"), test.open());
    printed(&test, 1, &["dlq", "archive", "list"]);
    let own = letters(&queue, 1)[0];
    let foreign = Captured::new("kafka", "3/17", "orders", "order", b"\xff{".as_slice())
        .header("trace", "abc")
        .error("ParseError", "no JSON")
        .detail("at byte 0");
    db.capture(&foreign).unwrap();
    db.capture(&Captured::new(
        "kafka",
        "3/18",
        "mails",
        "mail",
        b"null".as_slice(),
    ))
    .unwrap();
    let rule = Retention::archive(LetterState::Open, Duration::ZERO);
    db.set_retention(&rule, &Act::new()).unwrap();
    db.retain(&Act::new()).unwrap();
    let listed = printed(&test, 0, &["dlq", "archive", "list"]);
    assert!(listed.contains("ParseError: no JSON"), "{listed}");
    let lines: Vec<Value> = printed(&test, 0, &["dlq", "archive", "export", "orders"])
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        lines,
        [
            serde_json::json!({
                "source": "redrive:letter", "position": own.to_string(), "queue": "orders", "kind": "order",
                "payload": {"number": 1}, "error_class": "Rejected", "error_message": "broken",
            }),
            serde_json::json!({
                "source": "kafka", "position": "3/17", "queue": "orders", "kind": "order",
                "raw_base64": "/3s=", "content_type": "application/json", "headers": {"trace": "abc"},
                "error_class": "ParseError", "error_message": "no JSON", "error_detail": "at byte 0",
            }),
        ]
    );
}
