//! `redrive job list` and the commands that change waiting jobs.

use redrive_tests::prelude::*;

/// Enqueues three ready orders, two delayed ones and a mail. Returns the id of the first order.
fn six(db: &TestDatabase) -> i64 {
    let orders = db.queue("orders");
    let ids = orders.enqueue_many(&Order::up_to(3)).unwrap();
    for number in 4..=5 {
        put(&orders, new_order(number).delay(Duration::from_hours(1)));
    }
    db.run("enqueue mails mail {}");
    ids[0].get()
}

#[test]
fn a_list_takes_a_queue_conditions_and_pages() {
    let db = TestDatabase::migrated();
    let first = six(&db);
    let listed = db.run("job list orders");
    assert_eq!(listed.out.lines().count(), 6, "{}", listed.out);
    db.run("job list orders state=delayed payload.number>4 --json")
        .holds(&json!({"state": "delayed", "payload": {"number": 5}}));
    let after = first + 3;
    db.run("job list --limit 4")
        .tells(format!("--after {after}"));
    db.run("job list --limit 6").warns_not();
    let rest = db.run(format!("job list --after {after} --json"));
    assert_eq!(rest.lines().len(), 2);
    db.fails(1, "job list kind=nothing")
        .tells("no live job matches kind=nothing");
}

#[test]
fn bulk_commands_need_yes_to_change_what_matches() {
    let db = TestDatabase::migrated();
    six(&db);
    for (command, would, left_out) in [
        ("job cancel orders", "5 would be cancelled", ""),
        ("job priority 7 orders", "5 would be given the priority", ""),
        (
            "job run-now orders",
            "2 would be made ready",
            "3 jobs left out: they are ready already",
        ),
        (
            "job priority 0 orders",
            "0 would be given the priority",
            "5 jobs left out: they have priority 0 already",
        ),
    ] {
        let code = u8::from(would.starts_with('0'));
        let dry = db.fails(code, command);
        dry.shows(format!("5 live jobs match; {would}"))
            .shows(left_out);
        if code == 0 {
            dry.shows("Nothing was changed. To act, add --yes.\n");
        }
    }
    db.run(r#"job edit orders --limit 2 --merge '{"currency": "EUR"}'"#)
        .shows("5 live jobs match; 2 would be edited")
        .shows("To act, add --yes.");
    let skipped = json!([{"include": null, "jobs": 3, "reason": "ready"}]);
    let counts = json!({"dry_run": true, "jobs": 2, "matching": 5, "skipped": skipped});
    db.run("job run-now orders --json").holds(&counts);
    assert_eq!(db.client().count("audit"), 0);

    // With it, they change what matches.
    db.run(r#"job edit orders payload.number<=4 --merge '{"currency": "EUR"}' --yes"#)
        .prints("4 jobs edited\n");
    db.run("job priority -5 orders payload.currency=EUR --yes")
        .prints("4 jobs given the priority\n");
    db.run("job run-now orders priority=-5 --yes")
        .prints("1 job made ready\n  3 jobs left out: they are ready already\n\n");
    let line = db
        .run("job cancel orders state=ready --limit 3 --reason 'test orders' --yes --json")
        .json();
    holds(&line, &json!({"action": "cancel", "jobs": 3}));
    assert_eq!(db.run("job list --json").lines().len(), 3);
    let audit = json!({"id": line["audit"], "reason": "test orders"});
    db.run("audit --json").holds(&audit);
    // Delayed and ready jobs are two batches of one operation.
    let table = db.run("audit").out;
    assert_eq!(table.lines().count(), 5, "a line per command: {table}");
}

#[test]
fn jobs_given_by_id_change_at_once() {
    let db = TestDatabase::migrated();
    let first = six(&db);
    let (a, b, delayed) = (first, first + 1, first + 3);
    db.run(format!("job priority 9 {a} {b}")).prints(format!(
        "job {a} now has priority 9\njob {b} now has priority 9\n"
    ));
    db.run(format!("job run-now {delayed}"))
        .prints(format!("job {delayed} is ready now\n"));
    db.run(format!(r#"job edit {a} --set '{{"number": 100}}'"#));
    db.run(format!("job show {a} --json"))
        .holds(&json!({"payload": {"number": 100}}));
    let cancelled = db.fails(1, format!("job cancel {b} 999999"));
    assert_eq!(cancelled.out.lines().count(), 1, "{}", cancelled.out);
    cancelled.tells("job 999999 was not cancelled: it does not exist");
}

/// Every command that changes jobs given by id explains alike why it did not change one.
#[test]
fn a_job_that_cannot_change_says_why() {
    let (db, queue) = TestDatabase::with_orders();
    let done = queue.enqueue(&Order { number: 1 }).unwrap();
    db.run("work orders --exec true --drain --keep-done 1h");
    let kept = db.run("job list orders state=done --json");
    kept.holds(&json!({"id": done.get(), "state": "done", "payload": null}));
    db.run(format!("job show {done}"))
        .shows(": done ")
        .hides("Payload");
    let dead = queue.enqueue(&Order { number: 2 }).unwrap();
    db.run(format!("job cancel {dead}"));
    let live = queue.enqueue(&Order { number: 3 }).unwrap();
    for (command, options) in [
        ("cancel", ""),
        ("priority 5", ""),
        ("run-now", ""),
        ("edit", " --set 7"),
    ] {
        for (id, why) in [
            (done.to_string(), "is done already"),
            (dead.to_string(), "its letter is open: redrive dlq show"),
            ("999999".to_owned(), "does not exist"),
        ] {
            db.fails(1, format!("job {command} {id}{options}"))
                .tells(why);
        }
    }
    db.fails(1, "job show 999999");
    let _holder = db.begins("SELECT FROM redrive.jobs FOR UPDATE");
    for command in ["priority 8", "edit --set 8"] {
        db.fails(1, format!("job {command} {live}"))
            .tells("another");
    }
}

#[test]
fn a_running_job_can_be_cancelled_and_not_edited() {
    let (db, queue) = TestDatabase::with_orders();
    let (gate, worker, id) = running(&queue);
    let other = db.run("enqueue mails mail {}").out;
    // A dry run counts what the act would do with it.
    db.run(format!("job cancel {id} --dry-run"))
        .shows("1 live job matches; 1 would be cancelled.")
        .shows("To act, leave out --dry-run.\n");
    db.fails(1, format!("job run-now {id} --dry-run"))
        .shows("0 would be made ready");
    db.fails(1, format!("job edit {id} {} --set 7", other.trim()))
        .shows("1 job edited")
        .tells(format!("job {id} was not edited: a worker runs it"));
    gate.open();
    stop(worker);
}

#[test]
fn a_job_that_was_running_a_moment_ago_is_changed() {
    let db = TestDatabase::migrated();
    let first = six(&db);
    // Only the second look finds it.
    let create = "CREATE SEQUENCE public.looks;
                  ALTER FUNCTION redrive.take_waiting(jsonb, jsonb, jsonb, bigint) RENAME TO take_waiting_jobs;
                  CREATE FUNCTION redrive.take_waiting(jsonb, jsonb, jsonb, bigint) RETURNS SETOF redrive.job
                  LANGUAGE plpgsql AS $$ BEGIN
                      IF nextval('public.looks') > 1 THEN
                          RETURN QUERY SELECT t.* FROM redrive.take_waiting_jobs($1, $2, $3, $4) t;
                      END IF;
                  END $$";
    db.client().sql(create);
    db.run(format!("job priority 7 {first}"))
        .prints(format!("job {first} now has priority 7\n"));
}

#[test]
fn a_signal_ends_the_cancellation_of_running_jobs() {
    let (db, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let worker = worker(&queue).slots(2).runs(gate.handler());
    let ids = queue.enqueue_many(&[Hold {}; 2]).unwrap();
    gate.wait_for(2);
    // A cancellation waits for whoever ends the lease.
    let mut holder = db.begins("SELECT FROM redrive.leases FOR UPDATE");
    let ids = ids.iter().map(ToString::to_string);
    let command = Process::start(
        Command::new(env!("CARGO_BIN_EXE_test_cli"))
            .args(["job", "cancel"])
            .args(ids)
            .env("DATABASE_URL", db.url()),
    );
    blocked(&mut db.client(), 1);
    command.signal("INT");
    holder.sql("ROLLBACK");
    let ran = command.exits_with(1);
    ran.tells("stopped: 1 of 2 jobs cancelled");
    assert_eq!(ran.out.lines().count(), 1);
    gate.open();
    stop(worker);
}
