//! Failure groups: what is one group, numbers that are those of the rows whoever changes letters,
//! and what people say of them.

use std::collections::BTreeMap;
use std::thread;

use postgres::Client;
use redrive::{
    Act, Audit, Database, Failure, FailureGroup, GroupState, Groups, Job, JobId, LetterState,
    Letters, Queue,
};
use redrive_tests::{Order, TestDatabase, drained, letters, stop, worker};

/// A letter with this message, written as a worker's statement would; answers its group.
fn die(client: &mut Client, class: &str, message: &str) -> i64 {
    client
        .query_one(
            "INSERT INTO redrive.dead_letters (queue, kind, reason, error_class, error_message, payload, enqueued_at)
             VALUES ('orders', 'order', 'exhausted', $1, $2, '{}', now()) RETURNING group_id",
            &[&class, &message],
        )
        .expect("a letter")
        .get(0)
}

/// The only group there is.
#[track_caller]
fn the_group(db: &Database) -> FailureGroup {
    let mut groups = db.groups(&Groups::all()).unwrap();
    assert_eq!(groups.len(), 1, "{groups:?}");
    groups.remove(0)
}

/// The numbers of the groups are those of the rows.
#[track_caller]
fn are_exact(client: &mut Client) {
    let wrong = client
        .query(
            "SELECT f.id, f.open, f.redriving, f.recovered, f.discarded, f.quarantined, f.deaths
             FROM redrive.failure_groups f
             LEFT JOIN (
                 SELECT l.group_id, count(*) FILTER (WHERE l.state = 'open') AS open,
                        count(*) FILTER (WHERE l.state = 'redriving') AS redriving,
                        count(*) FILTER (WHERE l.state = 'recovered') AS recovered,
                        count(*) FILTER (WHERE l.state = 'discarded') AS discarded,
                        count(*) FILTER (WHERE l.state = 'quarantined') AS quarantined
                 FROM redrive.dead_letters l GROUP BY l.group_id
             ) c ON c.group_id = f.id
             WHERE (f.open, f.redriving, f.recovered, f.discarded, f.quarantined)
                 IS DISTINCT FROM (coalesce(c.open, 0), coalesce(c.redriving, 0),
                                   coalesce(c.recovered, 0), coalesce(c.discarded, 0),
                                   coalesce(c.quarantined, 0))
             UNION ALL
             SELECT l.group_id, 0, 0, 0, 0, 0, 0 FROM redrive.dead_letters l
             WHERE NOT EXISTS (SELECT FROM redrive.groups g WHERE g.id = l.group_id)",
            &[],
        )
        .unwrap();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn a_thousand_messages_that_differ_in_an_id_are_one_group() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .execute(
            "INSERT INTO redrive.dead_letters (queue, kind, reason, error_class, error_message, payload, enqueued_at)
             SELECT 'orders', 'order', 'exhausted', 'Timeout',
                    'order ' || n || ' of ' || gen_random_uuid() || ' at 10.0.0.' || n % 250 || ':5432 (0x' || to_hex(n * 7919)
                    || ') since ' || now() - n * interval '1 minute' || ' for ''customer ' || md5(n::text) || ''' and \"' || n || '\"',
                    '{}', now()
             FROM generate_series(1, 1000) n",
            &[],
        )
        .unwrap();
    let group = the_group(&test.open());
    assert_eq!((group.open, group.deaths), (1000, 1000));
    assert_eq!(group.title, "order ? of ? at ? (?) since ? ? for ? and ?");
    assert!(group.sample.starts_with("order 1 of "), "{}", group.sample);
    assert_eq!(group.hours.len(), 24);
    assert_eq!(group.hours[23], 1000, "the hour that runs is the last");
}

#[test]
fn what_is_the_same_failure_and_what_is_not() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    for (one, other, alike) in [
        ("user 17 not found", "user 18 not found", true),
        ("can't read 'a b'", "can't read 'c'", true),
        ("bad `x`", "bad `y z`", true),
        (
            "at 2026-11-20T10:00:00Z",
            "at 2025-01-02T03:04:05.678Z",
            true,
        ),
        ("ids 1, 2, 3", "ids 4, 5", true),
        ("addr fe80::1 port 80", "addr fe80::2 port 443", true),
        ("user not found", "order not found", false),
        ("timeout", "timeout while reading", false),
    ] {
        let same = die(&mut client, "E", one) == die(&mut client, "E", other);
        assert_eq!(same, alike, "`{one}` and `{other}`");
    }
    assert_ne!(
        die(&mut client, "E", "x"),
        die(&mut client, "F", "x"),
        "another class"
    );
}

#[test]
fn letters_of_one_statement_each_find_their_own_group() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    // More groups and details than a statement remembers, in turn; then again in another one.
    for _ in 0..2 {
        client
            .execute(
                "INSERT INTO redrive.dead_letters
                     (queue, kind, reason, error_class, error_message, error_detail, payload, enqueued_at)
                 SELECT 'orders', 'order', 'exhausted', 'E', 'failure ' || chr(97 + n % 26), 'caused by '
                        || chr(97 + n % 13) || repeat(' frame', 100), '{}', now()
                 FROM generate_series(0, 259) n",
                &[],
            )
            .unwrap();
    }
    let mixed: i64 = client
        .query_one(
            "SELECT count(*) FROM redrive.letters l JOIN redrive.groups g ON g.id = l.group_id
             WHERE g.title <> l.error_message OR l.error_detail NOT LIKE
                 'caused by ' || chr(97 + (ascii(right(l.error_message, 1)) - 97) % 13) || ' frame%'",
            &[],
        )
        .unwrap()
        .get(0);
    assert_eq!(mixed, 0);
    let groups = test.open().groups(&Groups::all()).unwrap();
    assert_eq!(groups.len(), 26);
    assert!(groups.iter().all(|group| group.open == 20));
    let details: i64 = client
        .query_one("SELECT count(*) FROM redrive.details", &[])
        .unwrap()
        .get(0);
    assert_eq!(details, 26, "one for each group, not for each letter");
}

#[test]
fn the_numbers_are_those_of_the_rows_through_a_whole_life() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let queue = test.queue("orders");
    let db = queue.database();
    let ids = letters(&queue, 40);
    are_exact(&mut client);
    db.discard(&Letters::ids(ids[..5].to_vec()), &Act::new().why("test"))
        .unwrap();
    db.redrive(&Letters::queue("orders").limit(20), &Act::new())
        .unwrap();
    are_exact(&mut client);
    client
        .execute("SELECT redrive.fold_letters()", &[])
        .unwrap();
    are_exact(&mut client);
    // Half of them recover, half die again, one of them of something else: one statement each.
    let worker = worker(&queue)
        .handle(|job: &Job<Order>| match job.payload().number {
            number if number % 2 == 0 => Ok(()),
            7 => Err(Failure::reject("something else")),
            _ => Err(Failure::reject("broken")),
        })
        .start()
        .unwrap();
    drained(&queue);
    stop(worker);
    are_exact(&mut client);
    client
        .execute(
            "DELETE FROM redrive.dead_letters WHERE state = 'recovered'",
            &[],
        )
        .unwrap();
    are_exact(&mut client);
    let groups = db.groups(&Groups::all()).unwrap();
    let deaths: u64 = groups.iter().map(|group| group.deaths).sum();
    let all: u64 = groups
        .iter()
        .map(|group| group.open + group.discarded)
        .sum();
    assert_eq!((groups.len(), deaths, all), (2, 50, 30), "{groups:#?}");
    let folded: i64 = client
        .query_one("SELECT redrive.fold_letters()", &[])
        .unwrap()
        .get(0);
    assert!(folded > 0);
    are_exact(&mut client);
    let left: i64 = client
        .query_one("SELECT count(*) FROM redrive.letter_deltas", &[])
        .unwrap()
        .get(0);
    assert_eq!(left, 0);
}

#[test]
fn the_numbers_are_those_of_the_rows_whoever_is_at_it() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let messages = ["red", "green", "blue"];
    let working = worker(&queue)
        .slots(3)
        .handle(move |job: &Job<Order>| {
            let number = usize::try_from(job.payload().number)?;
            match (number + usize::try_from(job.generation())?) % 4 {
                3 => Ok(()),
                colour => Err(Failure::reject(messages[colour])),
            }
        })
        .start()
        .unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20 {
                queue.enqueue_many(&Order::up_to(30)).unwrap();
            }
        });
        // Operators redrive, discard and fold at once, in turns that nobody orders.
        for part in 0..3 {
            let db = test.open();
            scope.spawn(move || {
                for turn in 0..40 {
                    let some = Letters::queue("orders").limit(9);
                    match (turn + part) % 4 {
                        0 => drop(db.discard(&some.limit(2), &Act::new().why("test")).unwrap()),
                        _ => drop(db.redrive(&some, &Act::new()).unwrap()),
                    }
                }
            });
        }
        let (mut folding, mut deleting, mut looking) =
            (test.client(), test.client(), test.client());
        scope.spawn(move || {
            for _ in 0..60 {
                folding
                    .execute("SELECT redrive.fold_letters()", &[])
                    .unwrap();
            }
        });
        scope.spawn(move || {
            for _ in 0..30 {
                deleting
                    .execute(
                        "DELETE FROM redrive.dead_letters WHERE ctid = ANY (ARRAY(
                             SELECT ctid FROM redrive.dead_letters WHERE state IN ('recovered', 'discarded')
                             LIMIT 3 FOR UPDATE SKIP LOCKED))",
                        &[],
                    )
                    .unwrap();
                deleting.execute("SELECT redrive.forget_groups('0')", &[]).unwrap();
            }
        });
        // Every look sees numbers and rows of one moment.
        scope.spawn(move || (0..40).for_each(|_| are_exact(&mut looking)));
    });
    drained(&queue);
    stop(working);
    let mut client = test.client();
    are_exact(&mut client);
    while client
        .query_one("SELECT redrive.fold_letters()", &[])
        .unwrap()
        .get::<_, i64>(0)
        > 0
    {}
    are_exact(&mut client);
}

#[test]
fn a_new_failure_of_many_workers_at_once_is_one_group() {
    let test = TestDatabase::migrated();
    thread::scope(|scope| {
        for number in 0..8 {
            let mut client = test.client();
            scope.spawn(move || die(&mut client, "Timeout", &format!("after {number} ms")));
        }
    });
    assert_eq!(the_group(&test.open()).open, 8);
}

#[test]
fn a_resolved_group_that_dies_again_is_a_regression() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let db = test.open();
    die(&mut client, "E", "order 1");
    let id = the_group(&db).id;
    assert!(!the_group(&db).is_regression());
    let act = Act::new().person("maria@ops").why("fixed in 1.4");
    assert!(db.mark_group(id, GroupState::Resolved, &act).unwrap());
    let resolved = the_group(&db);
    assert_eq!(
        (resolved.state, resolved.open),
        (GroupState::Resolved, 1),
        "no letter is touched"
    );
    // Folding deaths of before says nothing.
    client
        .execute("SELECT redrive.fold_letters()", &[])
        .unwrap();
    assert_eq!(the_group(&db).state, GroupState::Resolved);

    die(&mut client, "E", "order 2");
    for fold in [false, true] {
        if fold {
            client
                .execute("SELECT redrive.fold_letters()", &[])
                .unwrap();
        }
        let again = the_group(&db);
        assert_eq!(
            (again.state, again.regressions),
            (GroupState::Open, 1),
            "folded: {fold}"
        );
        assert!(again.is_regression() && again.regressed_at > again.resolved_at);
    }
    // Resolved again before the next regression is folded: it is not forgotten.
    assert!(db.mark_group(id, GroupState::Resolved, &act).unwrap());
    assert!(!the_group(&db).is_regression());
    die(&mut client, "E", "order 3");
    assert!(db.mark_group(id, GroupState::Resolved, &act).unwrap());
    client
        .execute("SELECT redrive.fold_letters()", &[])
        .unwrap();
    let group = the_group(&db);
    assert_eq!((group.state, group.regressions), (GroupState::Resolved, 2));
}

#[test]
fn an_ignored_group_stays_ignored_when_it_dies_again() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let db = test.open();
    die(&mut client, "E", "order 1");
    let id = the_group(&db).id;
    assert!(db.mark_group(id, GroupState::Ignored, &Act::new()).unwrap());
    die(&mut client, "E", "order 2");
    client
        .execute("SELECT redrive.fold_letters()", &[])
        .unwrap();
    assert_eq!(the_group(&db).state, GroupState::Ignored);
}

#[test]
fn what_people_say_of_a_group_is_kept_and_audited() {
    let test = TestDatabase::migrated();
    let db = test.open();
    die(&mut test.client(), "E", "order 1");
    let id = the_group(&db).id;
    let act = Act::new().person("maria@ops").why("on it");
    assert!(db.mark_group(id, GroupState::Acknowledged, &act).unwrap());
    assert!(db.note_group(id, Some("see the runbook"), &act).unwrap());
    assert!(db.own_group(id, Some("payments"), &act).unwrap());
    let group = db.group(id).unwrap().expect("the group");
    assert_eq!(
        (group.state, group.note.as_deref(), group.owner.as_deref()),
        (
            GroupState::Acknowledged,
            Some("see the runbook"),
            Some("payments")
        )
    );
    assert!(db.note_group(id, None, &act).unwrap());
    assert_eq!(db.group(id).unwrap().expect("the group").note, None);
    let verbs: Vec<String> = db
        .audit(&Audit::all())
        .unwrap()
        .into_iter()
        .map(|act| act.verb)
        .collect();
    assert_eq!(
        verbs,
        ["note_group", "own_group", "note_group", "acknowledge_group"]
    );
    let nobody = redrive::GroupId::new(999);
    assert!(!db.mark_group(nobody, GroupState::Open, &act).unwrap());
    assert!(!db.note_group(nobody, None, &act).unwrap());
    assert!(!db.own_group(nobody, None, &act).unwrap());
    assert!(db.group(nobody).unwrap().is_none());
    assert_eq!(
        db.audit(&Audit::all()).unwrap().len(),
        4,
        "what did not happen is not in it"
    );
}

#[test]
fn groups_are_listed_by_what_waits_and_narrowed() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let db = test.open();
    for (class, count) in [("Few", 1), ("Many", 5), ("Some", 3)] {
        for _ in 0..count {
            die(&mut client, class, "x");
        }
    }
    let classes = |which: &Groups| -> Vec<String> {
        db.groups(which)
            .unwrap()
            .into_iter()
            .map(|group| group.error_class)
            .collect()
    };
    assert_eq!(classes(&Groups::all()), ["Many", "Some", "Few"]);
    assert_eq!(classes(&Groups::all().limit(1)), ["Many"]);
    assert_eq!(classes(&Groups::all().error_class("Few")), ["Few"]);
    assert!(classes(&Groups::all().queue("other")).is_empty());
    assert!(classes(&Groups::all().kind("other")).is_empty());
    let many = db.groups(&Groups::all().error_class("Many")).unwrap()[0].id;
    db.mark_group(many, GroupState::Ignored, &Act::new())
        .unwrap();
    let seen = Groups::all().states([GroupState::Open, GroupState::Acknowledged]);
    assert_eq!(classes(&seen), ["Some", "Few"]);
    db.discard(&Letters::all().error_class("Some"), &Act::new().why("test"))
        .unwrap();
    assert_eq!(classes(&Groups::all().waiting()), ["Many", "Few"]);
}

#[test]
fn unused_groups_are_forgotten_and_no_other() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let db = test.open();
    for class in ["Gone", "Ignored", "Young", "Kept"] {
        die(&mut client, class, &format!("x\n{}", "y ".repeat(2000)));
    }
    client
        .execute(
            "DELETE FROM redrive.dead_letters WHERE error_class <> 'Kept'",
            &[],
        )
        .unwrap();
    client
        .execute("SELECT redrive.fold_letters()", &[])
        .unwrap();
    client
        .execute("UPDATE redrive.groups SET last_seen = now() - interval '9 days' WHERE error_class <> 'Young'", &[])
        .unwrap();
    let ignored = db.groups(&Groups::all().error_class("Ignored")).unwrap()[0].id;
    db.mark_group(ignored, GroupState::Ignored, &Act::new())
        .unwrap();
    let mut forget = |age: &str| -> i64 {
        client
            .query_one("SELECT redrive.forget_groups($1::text::interval)", &[&age])
            .unwrap()
            .get(0)
    };
    assert_eq!(forget("10 days"), 0);
    assert_eq!(forget("7 days"), 1);
    assert_eq!(forget("7 days"), 0);
    assert!(
        db.groups(&Groups::all().error_class("Gone"))
            .unwrap()
            .is_empty()
    );
    assert_eq!(db.groups(&Groups::all()).unwrap().len(), 3);
    let details: i64 = client
        .query_one("SELECT count(*) FROM redrive.details", &[])
        .unwrap()
        .get(0);
    assert_eq!(details, 3);
    // While somebody writes a letter, nothing is deleted.
    client
        .execute(
            "UPDATE redrive.groups SET last_seen = now() - interval '9 days'",
            &[],
        )
        .unwrap();
    let mut other = test.client();
    let mut writing = other.transaction().unwrap();
    writing
        .execute("UPDATE redrive.dead_letters SET seen = seen + 1", &[])
        .unwrap();
    let forgotten: i64 = client
        .query_one("SELECT redrive.forget_groups('1 day')", &[])
        .unwrap()
        .get(0);
    assert_eq!(forgotten, 0);
    writing.rollback().unwrap();
    let forgotten: i64 = client
        .query_one("SELECT redrive.forget_groups('1 day')", &[])
        .unwrap()
        .get(0);
    assert_eq!(forgotten, 1);
}

#[test]
fn a_redaction_is_heeded_by_the_next_statement() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let mut transaction = client.transaction().unwrap();
    let message = "card 4111111111111111";
    let write = "INSERT INTO redrive.dead_letters (queue, kind, reason, error_class, error_message, payload, enqueued_at)
                 VALUES ('orders', 'order', 'exhausted', 'E', $1, '{}', now()) RETURNING error_message";
    let kept: String = transaction.query_one(write, &[&message]).unwrap().get(0);
    assert_eq!(kept, message);
    transaction
        .execute(
            "INSERT INTO redrive.redactions (patterns) VALUES (ARRAY['[0-9]{16}'])",
            &[],
        )
        .unwrap();
    let kept: String = transaction.query_one(write, &[&message]).unwrap().get(0);
    assert_eq!(kept, "card [redacted]");
}

#[test]
fn counts_by_a_filter_are_those_of_the_letters() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let queue: Queue = test.queue("orders");
    let db = queue.database();
    letters(&queue, 30);
    die(&mut client, "Other", "x");
    client
        .execute(
            "SELECT redrive.capture('kafka', '1', 'orders', 'order', '{broken')",
            &[],
        )
        .unwrap();
    db.discard(&Letters::queue("orders").limit(3), &Act::new().why("test"))
        .unwrap();
    let mut expected = BTreeMap::new();
    for letter in db
        .letters(&Letters::all().state(LetterState::Open))
        .unwrap()
    {
        *expected.entry(letter.error_class).or_insert(0_u64) += 1;
    }
    assert_eq!(expected.values().sum::<u64>(), 29);
    for (class, count) in expected {
        let open = Letters::all().state(LetterState::Open).error_class(&class);
        let counted = db.count_letters(&open).unwrap();
        let redrivable = if class == "captured" { 0 } else { count };
        assert_eq!(
            (counted.letters, counted.redrivable),
            (count, redrivable),
            "{class}"
        );
        // The same, letter by letter: a condition that groups know nothing of.
        let one_by_one = db.count_letters(&open.from_id(JobId::new(0))).unwrap();
        assert_eq!(one_by_one, counted, "{class}");
    }
    let none = Letters::queue("other").state(LetterState::Open);
    assert_eq!(db.count_letters(&none).unwrap().letters, 0);
}
