//! `redrive queue limit`, `unlimit` and `limits`.

use redrive_tests::TestDatabase;
use serde_json::json;

use super::redrive;

#[test]
fn rate_limits_are_set_listed_and_removed() {
    let db = TestDatabase::migrated();
    redrive(&db, &["queue", "limits"]).exits_with(1);
    redrive(&db, &["enqueue", "mails", "mail.sent", "1"]).exits_with(0);
    let limit = |more: &[&str]| {
        let line = [
            &[
                "queue",
                "limit",
                "mails",
                "--reason",
                "the \u{1b}[31mprovider",
            ],
            more,
        ]
        .concat();
        redrive(&db, &line)
    };
    let set = limit(&["--rate", "100/s"]).exits_with(0);
    assert_eq!(
        set.out,
        "queue mails is limited to 100 starts per 1s, with a burst of 100\n"
    );
    assert_eq!(set.err, "");
    let set = limit(&["--rate", "5/m", "--burst", "1", "--kind", "news"]).exits_with(0);
    assert_eq!(
        set.out,
        "kind news in queue mails is limited to 5 starts per 1m, with a burst of 1\n"
    );
    let list = redrive(&db, &["queue", "limits", "mails"]).exits_with(0);
    let lines: Vec<&str> = list.out.lines().collect();
    assert_eq!(lines.len(), 3, "{}", list.out);
    for (line, words) in [(1, ["(all)", "100", "1s"]), (2, ["news", "5", "1m"])] {
        for word in words {
            assert!(lines[line].contains(word), "{word}: {}", lines[line]);
        }
    }
    assert!(!list.out.contains('\u{1b}'), "{:?}", list.out);
    let list = redrive(&db, &["queue", "limits", "--json"]).exits_with(0);
    let lines = list.lines();
    assert_eq!(
        (
            &lines[1]["kind"],
            &lines[1]["period_ms"],
            &lines[1]["tokens"]
        ),
        (&json!("news"), &json!(60000), &json!(1))
    );
    let removed = redrive(&db, &["queue", "unlimit", "mails", "--kind", "news"]).exits_with(0);
    assert_eq!(
        removed.out,
        "kind news in queue mails has no rate limit any more\n"
    );
    let none = redrive(&db, &["queue", "unlimit", "mails", "--kind", "news"]).exits_with(1);
    assert!(
        none.err.contains("has no rate limit: redrive queue limits"),
        "{}",
        none.err
    );
}

#[test]
fn a_limit_of_an_unknown_queue_is_set_with_a_warning_and_a_wrong_rate_is_refused() {
    let db = TestDatabase::migrated();
    redrive(&db, &["enqueue", "mails", "mail.sent", "1"]).exits_with(0);
    let set = redrive(
        &db,
        &["queue", "limit", "mail", "--rate", "1/h", "--reason", "x"],
    )
    .exits_with(0);
    assert!(
        set.err.contains("redrive queue unlimit mail"),
        "{}",
        set.err
    );
    for (rate, expected) in [
        ("fast", "at character 5: expected `/` and a time"),
        ("5/never", "at character 3: expected a time"),
        ("0/s", "0 starts; it must allow 1 to 1000000"),
        ("1/90d", "from 1 ms to 31 days"),
    ] {
        let line = ["queue", "limit", "mails", "--rate", rate, "--reason", "x"];
        let refused = redrive(&db, &line).exits_with(2);
        assert!(refused.err.contains(expected), "{rate}: {}", refused.err);
    }
    redrive(&db, &["queue", "limits", "mails"]).exits_with(1);
}

#[test]
fn a_limit_of_each_group_is_set_beside_that_of_the_queue() {
    let db = TestDatabase::migrated();
    redrive(&db, &["enqueue", "mails", "mail.sent", "1"]).exits_with(0);
    let limit = ["queue", "limit", "mails", "--rate", "4/h", "--reason", "x"];
    redrive(&db, &limit).exits_with(0);
    let each = [&limit[..], &["--each-group"]].concat();
    let set = redrive(&db, &each).exits_with(0);
    assert_eq!(
        set.out,
        "each group of queue mails is limited to 4 starts per 1h, with a burst of 4\n"
    );
    let list = redrive(&db, &["queue", "limits", "mails"]).exits_with(0);
    let lines: Vec<&str> = list.out.lines().collect();
    assert!(lines[1].contains("(all)"), "{}", list.out);
    assert!(lines[2].contains("(each group)"), "{}", list.out);
    let list = redrive(&db, &["queue", "limits", "--json"]).exits_with(0);
    assert_eq!(list.lines()[1]["each_group"], json!(true));
    let both = [&each[..], &["--kind", "news"]].concat();
    let refused = redrive(&db, &both).exits_with(2);
    assert!(refused.err.contains("--each-group"), "{}", refused.err);
    let removed = redrive(&db, &["queue", "unlimit", "mails", "--each-group"]).exits_with(0);
    assert_eq!(
        removed.out,
        "each group of queue mails has no rate limit any more\n"
    );
    redrive(&db, &["queue", "unlimit", "mails", "--each-group"]).exits_with(1);
    redrive(&db, &["queue", "unlimit", "mails"]).exits_with(0);
}
