//! `redrive queue`: the list of queues, pauses and resumes.

use redrive::limits::MAX_DELAY;
use redrive::{Failure, HandlerOptions, NewJob};
use redrive_tests::{Begin as _, SOON, Sql as _, TestDatabase, scalar, stop, wait_until, worker};
use serde_json::{Value, json};

use super::{letters, redrive};

#[test]
fn queues_are_listed_paused_and_resumed() {
    let db = TestDatabase::migrated();
    redrive(&db, &["queue", "list"]).exits_with(1);
    redrive(&db, &["enqueue", "mails", "mail.sent", "1"]).exits_with(0);
    redrive(&db, &["enqueue", "orders", "order.placed", "1"]).exits_with(0);
    redrive(&db, &["queue", "list", "--paused"]).exits_with(1);
    let pause = |more: &[&str]| {
        let line = [&["queue", "pause", "orders"], more].concat();
        redrive(&db, &line).exits_with(0)
    };
    let paused = pause(&["--reason", "an \u{1b}[31mupgrade"]);
    assert_eq!(paused.out, "queue orders is paused until it is resumed\n");
    assert_eq!(paused.err, "");
    let list = redrive(&db, &["queue", "list"]).exits_with(0);
    let lines: Vec<&str> = list.out.lines().collect();
    assert_eq!(lines.len(), 3, "{}", list.out);
    assert!(
        lines[1].starts_with("mails") && lines[1].contains("unserved"),
        "{}",
        lines[1]
    );
    for word in ["orders", "paused", "never", "upgrade", "@"] {
        assert!(lines[2].contains(word), "{word}: {}", lines[2]);
    }
    assert!(!list.out.contains('\u{1b}'), "{:?}", list.out);

    // A second pause replaces the end and the reason.
    let again = pause(&["--for", "30m", "--reason", "it takes longer"]);
    assert_eq!(again.out, "queue orders is paused for 30m\n");
    let at = pause(&["--until", "2030-01-02T03:04", "--reason", "stocktaking"]);
    assert_eq!(
        at.out,
        "queue orders is paused until 2030-01-02T03:04:00.000Z\n"
    );
    let list = redrive(&db, &["queue", "list", "--paused", "--json"]).exits_with(0);
    let lines = list.lines();
    assert_eq!(lines.len(), 1);
    assert_eq!(
        (
            &lines[0]["state"],
            &lines[0]["ready"],
            &lines[0]["pause"]["ends_at"],
            &lines[0]["pause"]["reason"]
        ),
        (
            &json!("paused"),
            &json!(1),
            &json!("2030-01-02T03:04:00.000Z"),
            &json!("stocktaking")
        )
    );

    // The on-call screen and the statistics show it too.
    let screen = redrive(&db, &["dlq"]).exits_with(0).out;
    assert!(
        screen.contains("Paused queues") && screen.contains("redrive queue resume orders"),
        "{screen}"
    );
    assert!(screen.contains("1 ready: stocktaking"), "{screen}");
    let stats = redrive(&db, &["stats"]).exits_with(0).out;
    assert_eq!(stats.matches("paused").count(), 1, "{stats}");
    let json = redrive(&db, &["stats", "mails", "--json"]).exits_with(0);
    assert_eq!(
        (&json.lines()[0]["state"], &json.lines()[0]["pause"]),
        (&json!("unserved"), &Value::Null)
    );

    let resumed = redrive(&db, &["queue", "resume", "orders"]).exits_with(0);
    assert_eq!(
        (&*resumed.out, &*resumed.err),
        ("queue orders is resumed\n", "")
    );
    let not = redrive(&db, &["queue", "resume", "orders"]).exits_with(1);
    assert!(
        not.err
            .contains("queue orders is not paused: redrive queue list"),
        "{}",
        not.err
    );
    let screen = redrive(&db, &["dlq"]).exits_with(0).out;
    assert!(!screen.contains("Paused queues"), "{screen}");

    let acts = "SELECT array_agg(verb ORDER BY id), bool_and(person LIKE '%@%'), array_agg(reason ORDER BY id) \
        FROM redrive.audit";
    let row = db.client().query_one(acts, &[]).unwrap();
    let (verbs, has_person): (Vec<String>, bool) = (row.get(0), row.get(1));
    assert_eq!(
        verbs,
        ["pause_queue", "pause_queue", "pause_queue", "resume_queue"]
    );
    assert!(has_person);
    let reasons: Vec<Option<String>> = row.get(2);
    assert_eq!(reasons[2].as_deref(), Some("stocktaking"));
}

#[test]
fn the_state_of_a_queue_names_what_keeps_its_jobs_waiting() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    let state = || {
        let shown = redrive(&db, &["stats", "orders", "--json"]).exits_with(0);
        let listed = redrive(&db, &["queue", "list", "--json"]).exits_with(0);
        assert_eq!(shown.lines()[0]["state"], listed.lines()[0]["state"]);
        shown.lines()[0]["state"].as_str().unwrap().to_owned()
    };
    let job = NewJob::raw("order", "{}").unwrap();
    queue.enqueue_job(job.clone().delay(MAX_DELAY)).unwrap();
    assert_eq!(state(), "unserved");
    let options = HandlerOptions::new().dependency("gateway");
    let worker = worker(&queue)
        .handle_kind_with("order", options, |_| Err(Failure::outage("down")))
        .handle_kind("mail", |_| Ok(()))
        .started();
    assert_eq!(state(), "running");
    // The outages open the breaker, which learns the kinds that it holds.
    queue.enqueue_jobs(&vec![job; 5]).unwrap();
    wait_until("the breaker to open", SOON, || {
        let open = "SELECT count(*) FROM redrive.breakers WHERE state = 'open'";
        scalar(&mut db.client(), open) == 1
    });
    let mut client = db.client();
    client.sql("UPDATE redrive.breakers SET probe_at = 'infinity'");
    queue
        .enqueue_job(NewJob::raw("order", "{}").unwrap())
        .unwrap();
    wait_until("all kinds to be held", SOON, || state() == "breaker");
    let open = ["breaker", "open", "queue:orders", "--reason", "x"];
    redrive(&db, &open).exits_with(0);
    assert_eq!(state(), "breaker");
    stop(worker);
    redrive(&db, &["queue", "pause", "orders", "--reason", "x"]).exits_with(0);
    assert_eq!(state(), "paused");
}

#[test]
fn a_pause_that_ended_is_not_listed() {
    let db = TestDatabase::migrated();
    redrive(&db, &["enqueue", "orders", "order.placed", "1"]).exits_with(0);
    redrive(
        &db,
        &["queue", "pause", "orders", "--for", "1h", "--reason", "x"],
    )
    .exits_with(0);
    let aged = "UPDATE redrive.queue_pauses SET ends_at = clock_timestamp()";
    db.client().batch_execute(aged).unwrap();
    redrive(&db, &["queue", "list", "--paused"]).exits_with(1);
    let list = redrive(&db, &["queue", "list"]).exits_with(0).out;
    assert!(
        list.contains("unserved") && !list.contains("paused"),
        "{list}"
    );
    redrive(&db, &["queue", "resume", "orders"]).exits_with(1);
}

#[test]
fn a_pause_of_an_unknown_queue_warns() {
    let db = TestDatabase::migrated();
    redrive(&db, &["enqueue", "orders", "order.placed", "1"]).exits_with(0);
    let unknown = redrive(&db, &["queue", "pause", "order", "--reason", "x"]).exits_with(0);
    assert!(
        unknown.err.contains("warning: there is no queue `order`")
            && unknown.err.contains("redrive queue resume order"),
        "{}",
        unknown.err
    );
    // It stays visible, although it has neither jobs nor letters.
    let list = redrive(&db, &["queue", "list", "--paused"])
        .exits_with(0)
        .out;
    assert_eq!(list.lines().count(), 2, "{list}");
    redrive(&db, &["stats", "order"]).exits_with(0);
}

#[test]
fn an_impossible_pause_is_an_error() {
    let db = TestDatabase::migrated();
    for (arguments, why) in [
        (&["--for", "0s"][..], "must be positive"),
        (&["--for", "3651d"], "at most 3650 days"),
        (&["--until", "2020-01-01"], "in the past"),
        (&["--until", "2100-01-01"], "at most 3650 days"),
        (&["--until", "tomorrow"], "expected a time such as"),
        (
            &["--for", "1h", "--until", "2030-01-01"],
            "cannot be used with",
        ),
    ] {
        let line = [&["queue", "pause", "orders", "--reason", "x"], arguments].concat();
        let refused = redrive(&db, &line).exits_with(2);
        let err = refused.err.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(err.contains(why), "{arguments:?}: {err}");
    }
    redrive(&db, &["queue", "pause", "", "--reason", "x"]).exits_with(2);
    redrive(&db, &["queue", "pause", "orders"]).exits_with(2);
    redrive(&db, &["queue", "list"]).exits_with(1);
}

#[test]
fn a_resume_warns_of_an_open_breaker() {
    let db = TestDatabase::migrated();
    redrive(&db, &["enqueue", "orders", "order.placed", "1"]).exits_with(0);
    redrive(&db, &["queue", "pause", "orders", "--reason", "x"]).exits_with(0);
    redrive(&db, &["breaker", "open", "queue:orders"]).exits_with(0);
    let resumed = redrive(&db, &["queue", "resume", "orders"]).exits_with(0);
    assert!(
        resumed.err.contains("redrive breaker close queue:orders"),
        "{}",
        resumed.err
    );
}

#[test]
fn a_redrive_into_a_paused_queue_warns_and_the_run_names_the_pause() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    let ids = letters(&db, &queue, 3);
    redrive(&db, &["queue", "pause", "orders", "--reason", "upgrade"]).exits_with(0);
    // The pause is named even if the breaker is open too.
    redrive(&db, &["breaker", "open", "queue:orders"]).exits_with(0);
    let preview = redrive(&db, &["dlq", "redrive", "orders", "--json"]).exits_with(0);
    for part in [
        "warning: queue `orders` is paused for",
        "3 letters would wait until it is resumed: redrive queue resume orders",
    ] {
        assert!(preview.err.contains(part), "{part}: {}", preview.err);
    }
    let gated = &preview.lines()[0]["gated"];
    assert_eq!(gated.as_array().map(Vec::len), Some(1));
    assert_eq!(
        (
            &gated[0]["breaker"],
            &gated[0]["paused"],
            &gated[0]["letters"]
        ),
        (&Value::Null, &json!(true), &json!(3))
    );
    redrive(
        &db,
        &["dlq", "redrive", "--id", &ids[0].to_string(), "--yes"],
    )
    .exits_with(0);
    let canary = [
        "dlq", "redrive", "orders", "--canary", "1", "--detach", "--yes", "--json",
    ];
    let created = redrive(&db, &canary).exits_with(0);
    let run = created.lines()[0]["id"].to_string();
    let open = db.open();
    let id = redrive::dlq::runs::RunId::new(run.parse().expect("the id of a run"));
    let mut driver = open.dlq().runs().drive(id).unwrap().expect("a run");
    driver.step().unwrap();
    let show = || {
        redrive(&db, &["dlq", "runs", "show", &run])
            .exits_with(0)
            .out
    };
    let shown = show();
    for line in [
        "waiting for      queue `orders`, paused for ",
        ": 1 job; redrive queue resume orders",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    redrive(&db, &["queue", "resume", "orders"]).exits_with(0);
    assert!(show().contains("breaker queue:orders"), "{}", show());
}
