//! `redrive queue limit`, `unlimit` and `limits`.

use redrive_tests::prelude::*;

#[test]
fn rate_limits_are_set_listed_and_removed() {
    let db = TestDatabase::migrated();
    db.fails(1, "queue limits");
    db.run("enqueue mails mail.sent 1");
    db.run("queue limit mail --rate 1/h --reason x")
        .tells("redrive queue unlimit mail");
    db.run("queue limit --rate 1/h --kind=-k --reason x -- -q")
        .tells("redrive queue unlimit --kind=-k -- -q");
    db.fails(1, "queue limits mails");
    let limit = "queue limit mails --reason 'the \u{1b}[31mprovider'";
    for (options, set) in [
        (
            "--rate 100/s",
            "queue mails is limited to 100 starts per 1s, with a burst of 100\n",
        ),
        (
            "--rate 5/m --burst 1 --kind news",
            "kind news in queue mails is limited to 5 starts per 1m, with a burst of 1\n",
        ),
        (
            "--rate 4/h --each-group",
            "each group of queue mails is limited to 4 starts per 1h, with a burst of 4\n",
        ),
    ] {
        db.run(format!("{limit} {options}")).prints(set).warns_not();
    }
    let list = db.run("queue limits mails");
    for words in [
        ["(all)", "100", "1s"],
        ["news", "5", "1m"],
        ["(each group)", "4", "1h"],
    ] {
        let mut lines = list.out.lines();
        let is_shown = lines.any(|line| words.iter().all(|word| line.contains(word)));
        assert!(is_shown, "{words:?}: {}", list.out);
    }
    list.hides("\u{1b}");
    for (options, whose) in [
        ("--kind news", "kind news in queue mails"),
        ("--each-group", "each group of queue mails"),
    ] {
        let unlimit = format!("queue unlimit mails {options}");
        db.run(&unlimit)
            .prints(format!("{whose} has no rate limit any more\n"));
        db.fails(1, &unlimit)
            .tells("has no rate limit: redrive queue limits");
    }
    let all = json!({"kind": null, "each_group": false, "burst": 100, "tokens": 100});
    holds(&db.run("queue limits mails --json").json(), &all);
}
