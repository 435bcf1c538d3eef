//! Every operation selects the same letters, whatever rules merge and split their failure groups.

use fastrand::Rng;
use redrive_tests::prelude::*;

const QUEUES: [&str; 2] = ["orders", "mails"];
const KINDS: [&str; 3] = ["placed", "paid", "sent"];
const CLASSES: [&str; 4] = ["Timeout", "Refused", "Parse", ""];
const STATES: [&str; 5] = ["open", "quarantined", "recovered", "discarded", "redriving"];
const CAUSES: [&str; 3] = ["exhausted", "rejected", "timeout"];

/// Adds letters with few different values, so that random conditions select some of them.
fn die(client: &mut Client, random: &mut Rng, count: usize) {
    for _ in 0..count {
        let state = random.choice(STATES).unwrap();
        client.change("INSERT INTO redrive.dead_letters (queue, kind, state, cause, error_class, error_message, payload,
                                                   generation, discard_reason, enqueued_at)
                 VALUES ($1::text, $2::text, $3, $4, $5, $6, $7::text::json, $8,
                         CASE $3 WHEN 'discarded' THEN 'x' END, now())", &[
                    random.choice(&QUEUES).unwrap(),
                    random.choice(&KINDS).unwrap(),
                    &state,
                    random.choice(&CAUSES).unwrap(),
                    random.choice(&CLASSES).unwrap(),
                    random.choice(&["lost", "late", "both lost and late"]).unwrap(),
                    &format!("{{\"amount\": {}, \"tenant\": \"t{}\"}}", random.u8(0..5), random.u8(0..2)),
                    &random.i32(0..3),
                ]);
    }
}

/// Merges two groups, or splits one.
fn rule(test: &TestDatabase, random: &mut Rng, letters: &[Letter]) {
    let group = |random: &mut Rng| random.choice(letters).expect("letters").group;
    let db = test.open();
    let dlq = db.dlq();
    let (one, other) = (group(random), group(random));
    let by = match random.u8(0..6) {
        0..=2 => None,
        3 => Some(SplitBy::Class),
        4 => Some(SplitBy::Kind),
        _ => Some(SplitBy::Payload("tenant".to_owned())),
    };
    let done = match &by {
        None => dlq.groups().merge(one, other, &Operator::default()),
        Some(by) => dlq.groups().split(one, by, &Operator::default()),
    };
    match done {
        // The letters stay where the rule has put them.
        Ok(done) if random.bool() => {
            let removed = dlq.groups().remove_rule(done.rule, &maria());
            assert!(removed.unwrap());
        }
        Ok(_) => {}
        // The same group, or the same rule again.
        Err(error) => assert!(error.is_invalid(), "{error:?}"),
    }
}

/// Returns a filter, and the letters that meet it by their own values.
fn filter(random: &mut Rng, letters: &[Letter]) -> (Value, BTreeSet<i64>) {
    let mut filter = json!({});
    let mut chosen: Vec<&Letter> = letters.iter().collect();
    let several = |random: &mut Rng, of: &[&'static str]| -> Vec<&'static str> {
        let count = random.usize(0..3);
        (0..count).map(|_| *random.choice(of).unwrap()).collect()
    };
    if random.u8(0..3) > 0 {
        let classes = several(random, &CLASSES);
        chosen.retain(|letter| classes.contains(&&*letter.error_class));
        filter["class"] = json!(classes);
    }
    if random.u8(0..3) == 0 {
        let kind = *random.choice(&KINDS).unwrap();
        chosen.retain(|letter| letter.kind == kind);
        filter["kind"] = json!(kind);
    }
    if random.u8(0..3) == 0 {
        let queue = *random.choice(&QUEUES).unwrap();
        chosen.retain(|letter| letter.queue == queue);
        filter["queue"] = json!(queue);
    }
    if random.u8(0..3) == 0 {
        let count = random.usize(1..4);
        let groups = (0..count).map(|_| random.choice(letters).unwrap().group.get());
        let groups: Vec<i64> = groups.collect();
        chosen.retain(|letter| groups.contains(&letter.group.get()));
        filter["group"] = json!(groups);
    }
    if random.u8(0..3) == 0 {
        let states = several(random, &STATES);
        chosen.retain(|letter| states.contains(&letter.state.as_str()));
        filter["state"] = json!(states);
    }
    if random.u8(0..5) == 0 {
        let causes = several(random, &CAUSES);
        chosen.retain(|letter| causes.contains(&letter.cause.as_str()));
        filter["cause"] = json!(causes);
    }
    if random.u8(0..5) == 0 {
        let least = random.u32(0..3);
        chosen.retain(|letter| letter.generation >= least);
        filter["generation_from"] = json!(least);
    }
    if random.u8(0..5) == 0 {
        let least = random.i64(0..5);
        chosen.retain(|letter| amount(letter) >= least);
        filter["payload"] = json!(format!("$.amount >= {least}"));
    }
    if random.u8(0..8) == 0 {
        let count = random.usize(0..30);
        let ids = (0..count).map(|_| random.choice(letters).unwrap().id.get());
        let ids: Vec<i64> = ids.collect();
        chosen.retain(|letter| ids.contains(&letter.id.get()));
        filter["ids"] = json!(ids);
    }
    (
        filter,
        chosen.iter().map(|letter| letter.id.get()).collect(),
    )
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
    let (test, mut client) = TestDatabase::with_client();
    let (db, mut random) = (test.open(), Rng::with_seed(20));
    let all = || db.listed(&LetterFilter::new().limit(1000));
    let mut selected = 0;
    for _ in 0..6 {
        die(&mut client, &mut random, 40);
        let letters = all();
        for _ in 0..3 {
            rule(&test, &mut random, &letters);
        }
        // A redrive may change the queue, but not the group.
        let moved = "UPDATE redrive.dead_letters SET queue = 'mails' WHERE id = ANY ($1)";
        let some = letters.iter().step_by(7).map(|letter| letter.id.get());
        client.change(moved, &[&some.collect::<Vec<_>>()]);
        let letters = all();
        for _ in 0..15 {
            let (filter, expected) = filter(&mut random, &letters);
            selected += usize::from(!expected.is_empty() && expected.len() < letters.len());
            let of = |states: &[&str]| -> BTreeSet<i64> {
                let in_states = letters
                    .iter()
                    .filter(|it| states.contains(&it.state.as_str()));
                let ids = in_states.map(|letter| letter.id.get());
                ids.filter(|id| expected.contains(id)).collect()
            };
            let mut transaction = client.transaction().unwrap();
            for (operation, expected) in [
                ("SELECT id FROM redrive.list_letters($1, NULL, 1000)", expected.clone()),
                ("SELECT * FROM redrive.page_letters($1, 0, 1000)", expected.clone()),
                ("SELECT id FROM redrive.page_editable($1, 0, 1000)", of(&["open", "quarantined"])),
                ("SELECT id FROM redrive.preview_redrive($1)", of(&["open"])),
                ("SELECT id FROM redrive.preview_redrive($1, true)", of(&["open", "quarantined"])),
                (
                    "SELECT id FROM redrive.redrive_letters($1, 'infinity', 1000, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
                                                            false, NULL)",
                    of(&["open"]),
                ),
                ("SELECT id FROM redrive.discard_letters($1, 'infinity', 1000, NULL, 'x')", of(&["open", "quarantined"])),
                ("SELECT id FROM redrive.discard_letters($1, 'infinity', 1000, NULL, 'x', NULL, true)", of(&["discarded"])),
            ] {
                let mut attempt = transaction.transaction().unwrap();
                assert_eq!(ids(&mut attempt, operation, &filter), expected, "{operation} {filter}");
                attempt.rollback().unwrap();
            }
            transaction.change("SELECT redrive.create_run($1)", &[&filter]);
            let members = "SELECT letter_id FROM redrive.run_letters WHERE $1::jsonb IS NOT NULL";
            let sent = ids(&mut transaction, members, &filter);
            assert_eq!(sent, of(&["open"]), "a run of {filter}");
            for (operation, expected) in [
                (
                    "SELECT letters FROM redrive.count_letters($1)",
                    expected.len(),
                ),
                (
                    "SELECT redrivable FROM redrive.count_letters($1)",
                    of(&["open"]).len(),
                ),
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
    assert!(selected > 20, "{selected} filters select some letters");
    let moved = "dead_letters l JOIN redrive.groups g ON g.id = l.group_id
                 WHERE g.error_class <> l.error_class OR g.kind <> l.kind OR g.queue <> l.queue";
    assert!(client.count(moved) > 20, "rules moved letters");
}
