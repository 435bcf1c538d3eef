//! The commands on policies.

use redrive::dlq::PolicyMode;
use redrive_tests::{TestDatabase, letters};
use uuid::Uuid;

use super::{output_of, status, tick};

#[test]
fn a_policy_for_every_letter_needs_a_confirmation() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 3);
    let policies = || queue.database().dlq().policies().list().unwrap().len();
    let refused = [
        &["set", "p", "--every", "6h"][..],
        &["set", "p", "--yes"],
        &["set", "p", "orders", "--all", "--yes"],
    ];
    for arguments in refused {
        output_of(&test, 2, arguments);
    }
    let dry = output_of(&test, 0, &["set", "p", "--all", "--every", "6h"]);
    assert!(
        dry.contains("letters of every queue every 6h; its first tick redrives 3 letters"),
        "{dry}"
    );
    assert_eq!(policies(), 0);
    output_of(&test, 0, &["set", "p", "--all", "--yes"]);
    assert_eq!(policies(), 1);
    // A condition is enough.
    output_of(&test, 0, &["set", "slow", "class=Timeout"]);
    assert_eq!(policies(), 2);
}

#[test]
fn policies_can_be_set_listed_paused_and_removed_on_the_command_line() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 3);
    let mut client = test.client();
    output_of(&test, 1, &["list"]);
    let set = [
        "set",
        "events",
        "orders",
        "--every",
        "6h",
        "--batch",
        "2",
        "--generations",
        "240",
        "--growth",
        "1.5",
        "--reason",
        "the partner sleeps",
    ];
    let said = output_of(&test, 0, &set);
    let estimate =
        "redrives up to 2 letters every 6h; the 3 letters that wait now take 2 ticks, about 6h";
    assert!(said.contains(estimate), "{said}");
    assert_eq!(
        tick(&mut client, Uuid::new_v4()),
        Some(("events".to_owned(), 2))
    );
    let list = output_of(&test, 0, &["list"]);
    assert!(
        list.lines().all(|line| line.chars().count() <= 80),
        "{list}"
    );
    for word in [
        "events",
        "active",
        "6h",
        "240",
        "5h 59m",
        "2, ",
        "queue=orders",
    ] {
        assert!(list.contains(word), "`{word}` in {list}");
    }
    output_of(&test, 0, &["pause", "events"]);
    let json: serde_json::Value =
        serde_json::from_str(&output_of(&test, 0, &["list", "--json"])).unwrap();
    assert_eq!(
        (
            &json["mode"],
            &json["sent"],
            &json["filter"]["queue"],
            &json["every_ms"]
        ),
        (
            &"paused".into(),
            &2.into(),
            &"orders".into(),
            &21_600_000.into()
        )
    );
    output_of(&test, 0, &["resume", "events", "--dry-run"]);
    assert_eq!(status(queue.database(), "events").mode, PolicyMode::DryRun);
    for refused in [
        ["set", "p", "orders", "--hours=9-9"],
        ["set", "p", "orders", "--every=0s"],
        ["set", "p", "orders", "--growth=0.1"],
    ] {
        output_of(&test, 2, &refused);
    }
    output_of(&test, 0, &["remove", "events"]);
    output_of(&test, 1, &["remove", "events"]);
    output_of(&test, 1, &["pause", "events"]);
    let person: String = client
        .query_one(
            "SELECT person FROM redrive.audit WHERE reason = 'the partner sleeps'",
            &[],
        )
        .unwrap()
        .get(0);
    assert!(person.contains('@'), "{person}");
}
