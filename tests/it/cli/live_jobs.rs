//! `redrive job list` and the commands that change waiting jobs.

use std::time::Duration;

use redrive::Job;
use redrive::dlq::LetterFilter;
use redrive_tests::{
    Gate, Hold, Order, SOON, TestDatabase, drained, ran as redrive, stop, wait_until, worker,
    worker_at,
};

/// Enqueues three ready orders, two delayed ones and a mail. Returns the id of the first order.
fn six(db: &TestDatabase) -> i64 {
    for number in 1..=3 {
        let payload = format!("{{\"number\": {number}}}");
        redrive(db, &["enqueue", "orders", "order", &payload]).exits_with(0);
    }
    for number in 4..=5 {
        let payload = format!("{{\"number\": {number}}}");
        let later = ["enqueue", "orders", "order", &payload, "--delay", "1h"];
        redrive(db, &later).exits_with(0);
    }
    redrive(db, &["enqueue", "mails", "mail", "{}"]).exits_with(0);
    let first = redrive(db, &["job", "list", "--json", "--limit", "1"]).exits_with(0);
    first.lines()[0]["id"].as_i64().expect("an id")
}

#[test]
fn a_list_takes_a_queue_conditions_and_pages() {
    let db = TestDatabase::migrated();
    let first = six(&db);
    let listed = redrive(&db, &["job", "list", "orders"]).exits_with(0);
    assert_eq!(listed.out.lines().count(), 6, "{}", listed.out);
    let delayed = [
        "job",
        "list",
        "orders",
        "state=delayed",
        "payload.number>4",
        "--json",
    ];
    let line = &redrive(&db, &delayed).exits_with(0).lines()[0];
    assert_eq!(
        (&line["state"], &line["payload"]["number"]),
        (&"delayed".into(), &5.into())
    );
    let page = redrive(&db, &["job", "list", "--limit", "4"]).exits_with(0);
    let after = (first + 3).to_string();
    assert!(
        page.err.contains(&format!("--after {after}")),
        "{}",
        page.err
    );
    let rest = redrive(&db, &["job", "list", "--after", &after, "--json"]).exits_with(0);
    assert_eq!(rest.lines().len(), 2);
    let none = redrive(&db, &["job", "list", "kind=nothing"]).exits_with(1);
    assert!(
        none.err.contains("no live job matches kind=nothing"),
        "{}",
        none.err
    );
    let wrong = redrive(&db, &["job", "list", "class=Timeout"]).exits_with(2);
    assert!(
        wrong.err.contains("expected one of queue="),
        "{}",
        wrong.err
    );
}

#[test]
fn bulk_commands_are_dry_runs_without_yes() {
    let db = TestDatabase::migrated();
    six(&db);
    for (command, would, left_out) in [
        (
            &["job", "cancel", "orders"][..],
            "5 would be cancelled",
            None,
        ),
        (
            &["job", "priority", "7", "orders"],
            "5 would be given the priority",
            None,
        ),
        (
            &["job", "run-now", "orders"],
            "2 would be made ready",
            Some("3 jobs left out: they are ready already"),
        ),
        (
            &["job", "priority", "0", "orders"],
            "0 would be given the priority",
            Some("5 jobs left out: they have priority 0 already"),
        ),
    ] {
        let code = u8::from(would.starts_with('0'));
        let dry = redrive(&db, command).exits_with(code);
        assert!(dry.out.starts_with("5 live jobs match; "), "{}", dry.out);
        assert!(dry.out.contains(would), "{}", dry.out);
        if let Some(left_out) = left_out {
            assert!(dry.out.contains(left_out), "{}", dry.out);
        }
        if code == 0 {
            let act = format!("  redrive {} --yes\n", command.join(" "));
            assert!(dry.out.ends_with(&act), "{}", dry.out);
        }
    }
    let merge = ["job", "edit", "orders", "--merge", r#"{"currency": "EUR"}"#];
    let dry = redrive(&db, &merge).exits_with(0);
    assert!(dry.out.contains("5 jobs would be edited"), "{}", dry.out);
    let line = &redrive(&db, &["job", "run-now", "orders", "--json"])
        .exits_with(0)
        .lines()[0];
    assert_eq!(
        line.to_string(),
        r#"{"action":"run-now","dry_run":true,"jobs":2,"matching":5,"skipped":[{"include":null,"jobs":3,"reason":"ready","state":null}]}"#
    );
    let listed = redrive(&db, &["job", "list", "state=ready", "priority=0"]).exits_with(0);
    assert_eq!(listed.out.lines().count(), 5, "{}", listed.out);
    let audits = "SELECT count(*) FROM redrive.audit";
    assert_eq!(
        db.client().query_one(audits, &[]).unwrap().get::<_, i64>(0),
        0
    );
}

#[test]
fn bulk_commands_change_what_matches_and_are_audited() {
    let db = TestDatabase::migrated();
    six(&db);
    let edit = [
        "job",
        "edit",
        "orders",
        "payload.number<=4",
        "--merge",
        r#"{"currency": "EUR"}"#,
        "--yes",
    ];
    assert_eq!(redrive(&db, &edit).exits_with(0).out, "4 jobs edited\n");
    let set = [
        "job",
        "priority",
        "-5",
        "orders",
        "payload.currency=EUR",
        "--yes",
    ];
    assert_eq!(
        redrive(&db, &set).exits_with(0).out,
        "4 jobs given the priority\n"
    );
    let run = ["job", "run-now", "orders", "priority=-5", "--yes"];
    assert_eq!(
        redrive(&db, &run).exits_with(0).out,
        "1 job made ready\n  3 jobs left out: they are ready already\n\n"
    );
    let cancel = [
        "job",
        "cancel",
        "orders",
        "state=ready",
        "--limit",
        "3",
        "--reason",
        "test orders",
        "--yes",
        "--json",
    ];
    let line = &redrive(&db, &cancel).exits_with(0).lines()[0];
    assert_eq!(
        (&line["action"], &line["jobs"]),
        (&"cancel".into(), &3.into())
    );
    assert_eq!(
        db.open().dlq().count(&LetterFilter::new()).unwrap().letters,
        3
    );
    let left = redrive(&db, &["job", "list", "--json"]).exits_with(0);
    assert_eq!(left.lines().len(), 3);

    let audit = redrive(&db, &["audit", "--json"]).exits_with(0).lines();
    // Delayed and ready jobs are two batches of one operation.
    let first = audit
        .iter()
        .rev()
        .filter(|line| line["about"]["batch_of"].is_null());
    let verbs: Vec<&str> = first.filter_map(|line| line["verb"].as_str()).collect();
    assert_eq!(
        verbs,
        [
            "edit_jobs",
            "set_priority_jobs",
            "run_now_jobs",
            "cancel_jobs"
        ]
    );
    let table = redrive(&db, &["audit"]).exits_with(0).out;
    assert_eq!(table.lines().count(), 5, "a line per command: {table}");
    assert!(!table.contains("batch_of"), "{table}");
    assert_eq!(audit[0]["reason"], "test orders");
    assert_eq!(audit[0]["filter"]["state"][0], "ready");
    assert_eq!(audit[0]["id"], line["audit"]);
    let again = redrive(&db, &["job", "cancel", "kind=nothing", "--yes"]).exits_with(1);
    assert!(again.err.contains("no live job matches"), "{}", again.err);
}

#[test]
fn jobs_given_by_id_change_at_once() {
    let db = TestDatabase::migrated();
    let first = six(&db);
    let id = |place: i64| (first + place).to_string();
    let (a, b, delayed) = (id(0), id(1), id(3));
    let set = redrive(&db, &["job", "priority", "9", &a, &b]).exits_with(0);
    assert_eq!(
        set.out,
        format!("job {a} now has priority 9\njob {b} now has priority 9\n")
    );
    let run = redrive(&db, &["job", "run-now", &delayed]).exits_with(0);
    assert_eq!(run.out, format!("job {delayed} is ready now\n"));
    let again = redrive(&db, &["job", "run-now", &delayed]).exits_with(1);
    assert!(again.err.contains("is ready already"), "{}", again.err);
    let edit = ["job", "edit", &a, "--set", r#"{"number": 100}"#];
    redrive(&db, &edit).exits_with(0);
    let shown = redrive(&db, &["job", "show", &a, "--json"]).exits_with(0);
    assert_eq!(shown.lines()[0]["payload"]["number"], 100);
    let other = redrive(&db, &["job", "cancel", &a, "kind=mail"]).exits_with(1);
    assert!(
        other.err.contains("does not match the conditions"),
        "{}",
        other.err
    );
    let cancelled = redrive(&db, &["job", "cancel", &a, &b, "999999"]).exits_with(1);
    assert_eq!(cancelled.out.lines().count(), 2, "{}", cancelled.out);
    assert!(
        cancelled.err.contains("job 999999 does not exist"),
        "{}",
        cancelled.err
    );
}

#[test]
fn asking_a_running_job_to_stop_is_audited() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    let gate = Gate::new();
    let worker = worker_at(&gate, &queue);
    let id = queue.enqueue(&Hold {}).unwrap().to_string();
    gate.wait_for(1);
    let cancel = ["job", "cancel", &id, "--reason", "it is too slow"];
    let asked = redrive(&db, &cancel).exits_with(0);
    assert!(asked.out.contains("was asked to stop"), "{}", asked.out);
    gate.open();
    drained(&queue);
    stop(worker);
    let audit = redrive(&db, &["audit", "--json"]).exits_with(0).lines();
    assert_eq!(audit.len(), 1);
    assert_eq!(
        (&audit[0]["verb"], &audit[0]["reason"]),
        (&"cancel_running_jobs".into(), &"it is too slow".into())
    );
    assert_eq!(audit[0]["filter"]["ids"][0].to_string(), id);
    assert!(audit[0]["person"].is_string(), "{}", audit[0]);
}

#[test]
fn a_running_job_shows_its_progress_and_its_checkpoint() {
    let db = TestDatabase::migrated();
    let (queue, gate) = (db.queue("orders"), Gate::new());
    let worker = worker(&queue)
        .lease(Duration::from_secs(2))
        .handle({
            let gate = gate.clone();
            move |job: &Job<Order>| {
                job.progress(0.4, "resizing images");
                job.checkpoint(&17).unwrap();
                gate.pass();
                Ok(())
            }
        })
        .start()
        .unwrap();
    let id = queue.enqueue(&Order { number: 1 }).unwrap().to_string();
    gate.wait_for(1);
    let mut shown = String::new();
    wait_until("a renewal to store both", SOON, || {
        shown = redrive(&db, &["job", "show", &id]).exits_with(0).out;
        shown.contains("checkpoint")
    });
    let line = |name: &str| {
        shown
            .lines()
            .find(|line| line.trim_start().starts_with(name))
    };
    assert!(
        line("progress").is_some_and(|line| line.contains("resizing images")),
        "{shown}"
    );
    assert!(
        line("checkpoint").is_some_and(|line| line.ends_with(" 17")),
        "{shown}"
    );
    gate.open();
    stop(worker);
}
