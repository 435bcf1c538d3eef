//! Every operation selects the same letters, whatever rules merge and split their failure groups.

use redrive_tests::prelude::*;

/// Letters whose values go round in cycles of different lengths.
const LETTERS: &str = r#"
    INSERT INTO redrive.dead_letters (queue, kind, state, cause, error_class, error_message, payload, generation,
                                      discard_reason, enqueued_at)
    SELECT ('{orders,mails}'::text[])[1 + n / 4 % 2], ('{placed,paid,sent}'::text[])[1 + n % 3], l.state,
           ('{exhausted,rejected,timeout}'::text[])[1 + n / 2 % 3], ('{Timeout,Refused,Parse,""}'::text[])[1 + n % 4],
           ('{lost,late}'::text[])[1 + n / 12 % 2],
           json_build_object('amount', n / 5 % 5, 'tenant', concat('t', n / 7 % 2)), n / 7 % 3,
           CASE l.state WHEN 'discarded' THEN 'x' END, now()
    FROM generate_series(1, 60) n,
         LATERAL (SELECT ('{open,quarantined,recovered,discarded,redriving}'::text[])[1 + n % 5]) l (state)"#;

/// Merges two pairs of groups, and splits one of the merged and another one.
fn regroup(db: &Database, letters: &[Letter], pattern: &str) {
    let ids: BTreeSet<i64> = letters.iter().map(|letter| letter.group.get()).collect();
    let ids: Vec<GroupId> = ids.into_iter().map(GroupId::new).collect();
    let groups = db.dlq().groups();
    let merge = |from, into| groups.merge(from, into, &maria()).unwrap().rule;
    let rule = merge(ids[0], ids[1]);
    merge(ids[2], ids[3]);
    for group in [ids[1], ids[4]] {
        groups.split(group, pattern, &maria()).unwrap();
    }
    // The letters stay where the rule has put them.
    assert!(groups.remove_rule(rule, &maria()).unwrap());
}

/// Filters, and the letters that meet each by their own values.
fn filters(letters: &[Letter]) -> Vec<(Value, BTreeSet<i64>)> {
    let meeting = |meets: &dyn Fn(&Letter) -> bool| -> BTreeSet<i64> {
        let meeting = letters.iter().filter(|letter| meets(letter));
        meeting.map(|letter| letter.id.get()).collect()
    };
    let ids: Vec<i64> = letters.iter().step_by(3).map(|it| it.id.get()).collect();
    let groups: Vec<i64> = letters.iter().step_by(9).map(|it| it.group.get()).collect();
    let is_of = |it: &Letter| groups.contains(&it.group.get());
    let has_class = |it: &Letter, classes: [&str; 2]| classes.contains(&&*it.error_class);
    let has_state = |it: &Letter, states: [&str; 2]| states.contains(&it.state.as_str());
    vec![
        (json!({}), meeting(&|_| true)),
        (json!({"class": []}), meeting(&|_| false)),
        (
            json!({"class": ["Timeout", ""]}),
            meeting(&|it| has_class(it, ["Timeout", ""])),
        ),
        (
            json!({"kind": "paid", "queue": "mails"}),
            meeting(&|it| it.kind == "paid" && it.queue == "mails"),
        ),
        (json!({"group": groups}), meeting(&is_of)),
        (
            json!({"group": groups, "class": ["Refused", "Parse"]}),
            meeting(&|it| is_of(it) && has_class(it, ["Refused", "Parse"])),
        ),
        (
            json!({"state": ["open", "discarded"], "class": ["Parse", "Timeout"], "queue": "orders"}),
            meeting(&|it| {
                has_state(it, ["open", "discarded"])
                    && has_class(it, ["Parse", "Timeout"])
                    && it.queue == "orders"
            }),
        ),
        (
            json!({"cause": ["rejected"], "generation_from": 1}),
            meeting(&|it| it.cause == DeathCause::Rejected && it.generation >= 1),
        ),
        (
            json!({"payload": "$.amount >= 3", "kind": "sent"}),
            meeting(&|it| amount(it) >= 3 && it.kind == "sent"),
        ),
        (
            json!({"ids": ids, "state": ["open", "quarantined"]}),
            meeting(&|it| ids.contains(&it.id.get()) && has_state(it, ["open", "quarantined"])),
        ),
    ]
}

fn amount(letter: &Letter) -> i64 {
    let payload: Value = serde_json::from_str(content(letter).expect("JSON")).unwrap();
    payload["amount"].as_i64().expect("a number")
}

/// The ids that an operation returns.
fn ids(transaction: &mut Transaction<'_>, operation: &str, filter: &Value) -> BTreeSet<i64> {
    let rows: Vec<i64> = transaction.column(operation, &[filter]);
    let ids: BTreeSet<i64> = rows.iter().copied().collect();
    let is_once = ids.len() == rows.len();
    assert!(is_once, "{operation} {filter}: a letter twice");
    ids
}

#[test]
fn every_operation_selects_the_letters_that_meet_the_filter_themselves() {
    let (_test, db, mut client) = TestDatabase::with_handle();
    let all = || db.listed(&LetterFilter::new().limit(1000));
    for pattern in ["late", "."] {
        client.sql(LETTERS);
        let letters = all();
        regroup(&db, &letters, pattern);
        // A redrive may change the queue, but not the group.
        let moved = "UPDATE redrive.dead_letters SET queue = 'mails' WHERE id = ANY ($1)";
        let some = letters.iter().step_by(7).map(|letter| letter.id.get());
        client.change(moved, &[&some.collect::<Vec<_>>()]);
        let letters = all();
        for (filter, expected) in filters(&letters) {
            let of = |states: &[&str]| -> BTreeSet<i64> {
                let in_states = letters
                    .iter()
                    .filter(|it| states.contains(&it.state.as_str()));
                let ids = in_states.map(|letter| letter.id.get());
                ids.filter(|id| expected.contains(id)).collect()
            };
            let mut transaction = client.transaction().unwrap();
            for (operation, expected) in [
                (
                    "SELECT id FROM redrive.list_letters($1, NULL, 1000)",
                    expected.clone(),
                ),
                (
                    "SELECT * FROM redrive.page_letters($1, 0, 1000)",
                    expected.clone(),
                ),
                ("SELECT id FROM redrive.preview_redrive($1)", of(&["open"])),
                (
                    "SELECT id FROM redrive.preview_redrive($1, true)",
                    of(&["open", "quarantined"]),
                ),
                (
                    "SELECT id FROM redrive.redrive_letters($1, 1000, NULL, NULL, NULL, NULL, NULL, false, NULL)
                     WHERE result NOT IN ('gone', 'not_open', 'quarantined')",
                    of(&["open"]),
                ),
                (
                    "SELECT id FROM redrive.discard_letters($1, 1000, NULL, 'x')",
                    of(&["open", "quarantined"]),
                ),
                (
                    "SELECT id FROM redrive.discard_letters($1, 1000, NULL, 'x', NULL, true)",
                    of(&["discarded"]),
                ),
            ] {
                let mut attempt = transaction.transaction().unwrap();
                assert_eq!(
                    ids(&mut attempt, operation, &filter),
                    expected,
                    "{operation} {filter}"
                );
                attempt.rollback().unwrap();
            }
            transaction.change("SELECT redrive.create_run($1)", &[&filter]);
            let members = "SELECT letter_id FROM redrive.run_letters WHERE $1::jsonb IS NOT NULL";
            let sent = ids(&mut transaction, members, &filter);
            assert_eq!(sent, of(&["open"]), "a run of {filter}");
            for (operation, expected) in [
                ("SELECT redrive.count_letters($1)", expected.len()),
                (
                    "SELECT coalesce(sum(letters), 0)::bigint FROM redrive.count_letters_by($1, 'class')",
                    expected.len(),
                ),
                (
                    "SELECT coalesce(sum(letters), 0)::bigint FROM redrive.blocked_letters($1)",
                    of(&["open"]).len(),
                ),
            ] {
                let counted: i64 = transaction.ask(operation, &[&filter]);
                let counted = counted.unsigned_abs();
                assert_eq!(counted, expected as u64, "{operation} {filter}");
            }
            transaction.rollback().unwrap();
        }
        groups_add_up(&db);
    }
    let moved = "dead_letters l JOIN redrive.groups g ON g.id = l.group_id
                 WHERE g.error_class <> l.error_class OR g.kind <> l.kind OR g.queue <> l.queue";
    assert!(client.count(moved) > 5, "rules moved letters");
}
