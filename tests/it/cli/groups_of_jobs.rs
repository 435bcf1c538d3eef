//! `redrive queue groups`: policies, held groups and their release.

use redrive::{Failure, Job, Queue};
use redrive_tests::{Order, SOON, TestDatabase, drained, stop, wait_until, worker};
use serde_json::json;

use super::redrive;

#[test]
fn a_policy_is_set_and_shown() {
    let db = TestDatabase::migrated();
    let shown = |expected: &str| {
        let ran = redrive(&db, &["queue", "groups", "show", "orders"]).exits_with(0);
        assert_eq!(ran.out, format!("queue orders: {expected}\n"));
    };
    shown("groups are metadata");
    let set = |policy: &[&str]| {
        let line = [
            &["queue", "groups", "set", "orders", "--reason", "x"],
            policy,
        ]
        .concat();
        redrive(&db, &line)
    };
    set(&["ordered"]).exits_with(0);
    shown("one job of a group runs at a time; after a death the next one runs");
    set(&["ordered", "--on-death", "hold"]).exits_with(0);
    shown("one job of a group runs at a time; a letter holds its group");
    set(&["fair"]).exits_with(0);
    shown("groups take turns");
    let limit = set(&["limit=3", "--json"]).exits_with(0);
    assert_eq!(
        limit.lines(),
        [json!({"queue": "orders", "policy": "limit", "limit": 3, "on_death": "continue"})]
    );
    shown("at most 3 jobs of a group run at a time");
    for (policy, expected) in [
        (&["limit=0"][..], "must be 1 to 1000"),
        (
            &["limit"],
            "at character 1: expected ordered, limit=N, fair or none",
        ),
        (&["limit=x"], "at character 7: expected a number of jobs"),
        (
            &["fair", "--on-death", "hold"],
            "only an ordered group can be held",
        ),
    ] {
        let refused = set(policy).exits_with(2);
        assert!(
            refused.err.contains(expected),
            "{policy:?}: {}",
            refused.err
        );
    }
    shown("at most 3 jobs of a group run at a time");
}

#[test]
fn a_held_group_is_listed_and_released() {
    let db = TestDatabase::migrated();
    let set = "queue groups set orders ordered --on-death hold --reason x";
    redrive(&db, &set.split(' ').collect::<Vec<_>>()).exits_with(0);
    for number in 1..=3 {
        let payload = format!("{{\"number\": {number}}}");
        let line = [
            "enqueue",
            "orders",
            "order",
            &payload,
            "--group",
            "customer:42",
        ];
        redrive(&db, &line).exits_with(0);
    }
    let queue: Queue = db.queue("orders");
    let worker = worker(&queue)
        .handle(|job: &Job<Order>| match job.payload().number {
            1 => Err(Failure::reject("the first step is impossible")),
            _ => Ok(()),
        })
        .start()
        .unwrap();
    wait_until("the group to be held", SOON, || {
        let held = redrive(&db, &["queue", "groups", "held", "orders"]);
        held.out.lines().count() == 2
    });
    let held = redrive(&db, &["queue", "groups", "held", "orders", "--json"]).exits_with(0);
    let line = &held.lines()[0];
    assert_eq!(
        (&line["group"], &line["waiting"]),
        (&json!("customer:42"), &json!(2))
    );
    let letter = line["letter"].to_string();
    let screen = redrive(&db, &["dlq"]).exits_with(0).out;
    assert!(screen.contains("Held groups"), "{screen}");
    let brief = "orders: 1 group held, 2 jobs waiting; customer:42 for ";
    assert!(screen.contains(brief), "{screen}");
    assert!(
        screen.contains("redrive queue groups held orders"),
        "{screen}"
    );
    let screen = redrive(&db, &["dlq", "--json"]).exits_with(0);
    let held = &screen.lines()[0]["held_groups"][0];
    assert_eq!(
        (&held["groups"], &held["oldest_letter"], &held["waiting"]),
        (&json!(1), &line["letter"], &json!(2))
    );
    let shown = redrive(&db, &["dlq", "show", &letter]).exits_with(0).out;
    let holds: Vec<&str> = shown
        .lines()
        .filter(|line| line.contains("holds"))
        .collect();
    assert!(
        holds.len() == 1
            && holds[0].starts_with("  holds       group customer:42 for ")
            && holds[0].ends_with(": 2 jobs wait behind it"),
        "{shown}"
    );
    let shown_json = |letter: &str| {
        let shown = redrive(&db, &["dlq", "show", letter, "--json"]).exits_with(0);
        shown.lines()[0]["holds"].clone()
    };
    let expected = json!({"held_at": line["held_at"], "waiting": 2, "diverted": 0});
    assert_eq!(shown_json(&letter), expected);
    assert!(shown.contains("  job group   customer:42\n"), "{shown}");
    let of_group = ["job", "list", "job_group=customer:42"];
    let jobs = redrive(&db, &of_group).exits_with(0).out;
    let behind = format!("customer:42 (held by letter {letter})");
    assert_eq!(jobs.matches(&behind).count(), 2, "{jobs}");
    let jobs = redrive(&db, &[&of_group[..], &["--json"]].concat()).exits_with(0);
    let job = &jobs.lines()[0];
    assert_eq!(
        (&job["group_key"], &job["held_by"]),
        (&json!("customer:42"), &line["letter"])
    );
    let shown = redrive(&db, &["job", "show", &job["id"].to_string()]).exits_with(0);
    let group = format!("  job group   customer:42, held by letter {letter}, 2 jobs wait\n");
    assert!(shown.out.contains(&group), "{}", shown.out);
    redrive(&db, &["job", "list", "job_group=customer:4"]).exits_with(1);
    redrive(&db, &["dlq", "list", "job_group=customer:42"]).exits_with(0);
    redrive(&db, &["dlq", "list", "job_group=customer:4"]).exits_with(1);
    let release = "queue groups release orders customer:42 --reason seen";
    let release: Vec<&str> = release.split(' ').collect();
    let released = redrive(&db, &release).exits_with(0);
    let expected = format!(
        "group customer:42 continues without letter {}, which stays open\n",
        line["letter"]
    );
    assert_eq!(released.out, expected);
    drained(&queue);
    assert_eq!(stop(worker).stats.done, 2);
    assert!(shown_json(&letter).is_null());
    redrive(&db, &release).exits_with(1);
    redrive(&db, &["queue", "groups", "held", "orders"]).exits_with(1);
}

#[test]
fn a_drain_ends_when_only_jobs_behind_a_letter_are_left() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    let hold = [
        "queue",
        "groups",
        "set",
        "orders",
        "ordered",
        "--on-death",
        "hold",
        "--reason",
        "x",
    ];
    redrive(&db, &hold).exits_with(0);
    for _ in 0..3 {
        let job = [
            "enqueue",
            "orders",
            "k",
            "1",
            "--group",
            "g",
            "--max-attempts",
            "1",
        ];
        redrive(&db, &job).exits_with(0);
    }
    let drain = ["work", "orders", "--exec", "exit 1", "--drain"];
    let ended = redrive(&db, &drain).exits_with(0);
    assert!(
        ended
            .err
            .contains("left 2 jobs behind letters that hold their groups"),
        "{}",
        ended.err
    );
    let json = [&drain[..], &["--json"]].concat();
    let line = &redrive(&db, &json).exits_with(0).lines()[0];
    assert_eq!(line["left"], 2);
    assert_eq!(
        line["left_because"],
        json!(["2 jobs behind letters that hold their groups; see `redrive queue groups held`"])
    );
    assert!(!queue.is_drained().unwrap());
}
