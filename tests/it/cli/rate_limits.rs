//! `redrive queue limit`, `unlimit` and `limits`.

use redrive_tests::prelude::*;

#[test]
fn rate_limits_are_set_listed_and_removed() {
    let db = TestDatabase::migrated();
    db.fails(1, "queue limits");
    db.run("enqueue mails mail.sent 1");
    let limit = "queue limit mails --reason 'the \u{1b}[31mprovider'";
    db.run(format!("{limit} --rate 100/s"))
        .prints("queue mails is limited to 100 starts per 1s, with a burst of 100\n")
        .warns_not();
    db.run(format!("{limit} --rate 5/m --burst 1 --kind news"))
        .prints("kind news in queue mails is limited to 5 starts per 1m, with a burst of 1\n");
    let list = db.run("queue limits mails");
    let lines: Vec<&str> = list.out.lines().collect();
    assert_eq!(lines.len(), 3, "{}", list.out);
    for (line, words) in [(1, ["(all)", "100", "1s"]), (2, ["news", "5", "1m"])] {
        for word in words {
            has(lines[line], word);
        }
    }
    list.hides("\u{1b}");
    let all = json!({"kind": null, "burst": 100, "tokens": 100});
    holds(&db.run("queue limits --json").lines()[0], &all);
    let news = json!({"kind": "news", "period_ms": 60000, "tokens": 1});
    holds(&db.run("queue limits --json").lines()[1], &news);
    db.run("queue unlimit mails --kind news")
        .prints("kind news in queue mails has no rate limit any more\n");
    db.fails(1, "queue unlimit mails --kind news")
        .tells("has no rate limit: redrive queue limits");
}

#[test]
fn a_limit_of_an_unknown_queue_is_set_with_a_warning() {
    let db = TestDatabase::migrated();
    db.run("enqueue mails mail.sent 1");
    db.run("queue limit mail --rate 1/h --reason x")
        .tells("redrive queue unlimit mail");
    db.fails(1, "queue limits mails");
}

#[test]
fn a_limit_of_each_group_is_set_beside_that_of_the_queue() {
    let db = TestDatabase::migrated();
    db.run("enqueue mails mail.sent 1");
    let limit = "queue limit mails --rate 4/h --reason x";
    db.run(limit);
    db.run(format!("{limit} --each-group"))
        .prints("each group of queue mails is limited to 4 starts per 1h, with a burst of 4\n");
    let list = db.run("queue limits mails");
    let lines: Vec<&str> = list.out.lines().collect();
    assert!(lines[1].contains("(all)"), "{}", list.out);
    assert!(lines[2].contains("(each group)"), "{}", list.out);
    let list = db.run("queue limits --json");
    assert_eq!(list.lines()[1]["each_group"], json!(true));
    db.run("queue unlimit mails --each-group")
        .prints("each group of queue mails has no rate limit any more\n");
    db.fails(1, "queue unlimit mails --each-group");
    db.run("queue unlimit mails");
}
