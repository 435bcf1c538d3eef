//! `redrive queue groups`: policies, held groups and their release.

use redrive_tests::prelude::*;

const HOLD: &str = "queue groups set orders ordered --on-death hold --reason x";

#[test]
fn a_policy_is_set_and_shown() {
    let db = TestDatabase::migrated();
    db.run("queue groups set orders --reason x fair")
        .tells("if the name is wrong: redrive queue groups set --reason TEXT orders none");
    for (policy, shown) in [
        ("none", "groups are metadata"),
        (
            "ordered",
            "one job of a group runs at a time; after a death the next one runs",
        ),
        (
            "ordered --on-death hold",
            "one job of a group runs at a time; a letter holds its group",
        ),
        (
            "ordered --on-death divert",
            "one job of a group runs at a time; jobs behind a letter become letters",
        ),
        ("fair", "groups take turns"),
        ("limit=3", "at most 3 jobs of a group run at a time"),
    ] {
        db.run(format!("queue groups set orders --reason x {policy}"));
        db.run("queue groups show orders")
            .prints(format!("queue orders: {shown}\n"));
    }
}

#[test]
fn a_held_group_is_listed_and_released() {
    let db = TestDatabase::migrated();
    db.run(HOLD);
    let queue = db.queue("orders");
    for number in 1..=3 {
        put(&queue, new_order(number).group("customer:42"));
    }
    let worker = worker(&queue)
        .handle(|job: &Job<Order>| match job.payload().number {
            1 => Err(Failure::reject("the first step is impossible")),
            _ => Ok(()),
        })
        .started();
    wait_until("the group to be held", SOON, || {
        db.client().count("group_slots WHERE held_at IS NOT NULL") == 1
    });
    let held = db.run("queue groups held orders --json").json();
    holds(&held, &json!({"group_key": "customer:42", "waiting": 2}));
    let letter = &held["letter"];
    db.run("dlq")
        .shows("Held groups")
        .shows("orders: 1 group held, 2 jobs waiting; customer:42 for ")
        .shows("redrive queue groups held orders");
    db.run(format!("dlq show {letter}"))
        .shows("  holds       group customer:42 for ")
        .shows(": 2 waiting jobs behind it, 0 letters diverted\n")
        .shows("  job group   customer:42\n");
    let jobs = db.run("job list job_group=customer:42").out;
    let behind = format!("customer:42 (held by letter {letter})");
    assert_eq!(jobs.matches(&behind).count(), 2, "{jobs}");
    let job = db.run("job list job_group=customer:42 --json").json();
    db.run(format!("job show {}", job["id"])).shows(format!(
        "  job group   customer:42, held by letter {letter}, 2 waiting jobs\n"
    ));
    db.fails(1, "job list job_group=customer:4");
    db.run("dlq list job_group=customer:42");
    db.fails(1, "dlq list job_group=customer:4");
    let release = "queue groups release orders customer:42 --reason seen";
    let left = format!("group customer:42 continues without letter {letter}, which stays open\n");
    db.run(release).prints(left);
    assert_eq!(finish(&queue, worker).stats.done, 2);
    db.fails(1, release);
    db.fails(1, "queue groups held orders");
}

#[test]
fn a_drain_ends_when_only_jobs_behind_a_letter_are_left() {
    let (db, queue) = TestDatabase::with_orders();
    db.run(HOLD);
    for _ in 0..3 {
        db.run("enqueue orders k 1 --group g --max-attempts 1");
    }
    let drain = "work orders --exec 'exit 1' --drain";
    db.run(drain)
        .tells("left 2 jobs behind letters that hold their groups");
    let why = "2 jobs behind letters that hold their groups; see `redrive queue groups held QUEUE`";
    db.run(format!("{drain} --json"))
        .holds(&json!({"left": 2, "left_because": [why]}));
    assert!(!queue.is_drained().unwrap());
}
