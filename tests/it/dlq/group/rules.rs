//! Groups that operators merge and split, and the rules that future failures follow.

use redrive_tests::prelude::*;

use super::die;

fn group(db: &Database, id: i64) -> FailureGroup {
    let found = db.dlq().groups().get(GroupId::new(id)).unwrap();
    found.expect("a group")
}

/// Merges a group into another.
fn merge(db: &Database, from: i64, into: i64) -> Regrouped {
    let (from, into) = (GroupId::new(from), GroupId::new(into));
    db.dlq().groups().merge(from, into, &maria()).unwrap()
}

/// Splits a group, and returns the number of letters that moved.
fn split(db: &Database, group: i64, pattern: &str) -> u64 {
    let groups = db.dlq().groups();
    let split = groups.split(GroupId::new(group), pattern, &maria());
    split.unwrap().moved
}

#[test]
fn a_merged_group_and_its_future_failures_are_in_the_other() {
    let (_test, db, mut client) = TestDatabase::with_handle();
    let [from, into] = ["card declined", "no such customer"].map(|message| {
        let group = die(&mut client, "E", message);
        die(&mut client, "E", message);
        group
    });
    assert_ne!(from, into);
    client.sql("UPDATE redrive.dead_letters SET state = 'recovered' WHERE id IN (SELECT min(id) FROM redrive.dead_letters);
             DELETE FROM redrive.dead_letters WHERE id IN (SELECT min(id) FROM redrive.dead_letters)");
    let groups = db.dlq().groups();
    let done = merge(&db, from, into);
    assert_eq!((done.moved, done.locked), (1, 0));
    let (emptied, merged) = (group(&db, from), group(&db, into));
    assert_eq!((emptied.open, emptied.deaths), (0, 0));
    assert_eq!(merged.open, 3, "with that of a deleted letter");
    assert_eq!(merged.deaths, 4, "with that of a deleted letter");
    assert_eq!(merged.hours.iter().sum::<u64>(), 3);
    assert_eq!(emptied.hours.iter().sum::<u64>(), 1, "of a deleted letter");
    groups_add_up(&db);
    assert_eq!(die(&mut client, "E", "card declined"), into);
    let found = db.listed(&LetterFilter::new().group(GroupId::new(into)));
    assert_eq!(found.len(), 4);
    let rules = groups.rules().unwrap();
    assert_eq!(rules.len(), 1);
    assert_eq!(rules[0].into, Some(GroupId::new(into)));
    assert_eq!(rules[0].person.as_deref(), Some("maria@ops-1"));
    assert!(groups.remove_rule(done.rule, &maria()).unwrap());
    assert!(!groups.remove_rule(done.rule, &maria()).unwrap());
    let again = die(&mut client, "E", "card declined");
    assert_eq!(again, from, "without the rule");
    let acts = "SELECT count(*) FROM redrive.audit WHERE person = 'maria@ops-1'
                AND verb IN ('merge_group', 'remove_group_rule') AND reason = 'INC-7'";
    assert_eq!(scalar(&mut client, acts), 2);
    client.sql("SELECT redrive.fold_letters()");
    groups_add_up(&db);
    no_drift(&db);
}

#[test]
fn of_two_merges_at_the_same_time_that_would_be_a_circle_one_is_refused() {
    let (test, db, mut client) = TestDatabase::with_handle();
    let [one, other] =
        ["card declined", "no such customer"].map(|message| die(&mut client, "E", message));
    let mut first = client.transaction().unwrap();
    let merges = format!("SELECT redrive.add_group_rule({one}, {other}, NULL)");
    first.sql(&merges);
    let [into, from] = [one, other].map(GroupId::new);
    let back = || db.dlq().groups().merge(from, into, &maria());
    let refused = held_up(&test, back, || first.commit().unwrap());
    has(format!("{:#}", refused.unwrap_err()), "is merged into it");
}

#[test]
fn a_group_is_split_by_a_pattern_of_the_message() {
    let (_test, db, mut client) = TestDatabase::with_handle();
    let all = die(&mut client, "E", "shard 11 is down");
    assert_eq!(die(&mut client, "E", "shard 27 is down"), all);
    let pattern = "shard 2[0-9]";
    let groups = db.dlq().groups();
    let would_move = groups.preview_split(GroupId::new(all), pattern).unwrap();
    assert_eq!(would_move, 1);
    assert_eq!(group(&db, all).open, 2, "a preview changes nothing");
    assert_eq!(split(&db, all, pattern), 1);
    let split = die(&mut client, "E", "shard 28 is down");
    assert_ne!(split, all);
    assert_eq!(die(&mut client, "E", "shard 12 is down"), all);
    let (rest, part) = (group(&db, all), group(&db, split));
    assert_eq!((rest.open, rest.deaths), (2, 2));
    assert_eq!((part.open, part.deaths), (2, 2));
    assert_eq!(part.title, "shard ? is down [error shard 2[0-9]]");
    assert_eq!(part.newest, "shard 28 is down");
    // A redaction that changes the title of the group leads no failure to another part.
    let redact = "SELECT redrive.add_redaction(NULL, NULL, '{}', ARRAY['shard [?]']); SELECT redrive.redact_groups()";
    client.sql(redact);
    assert_eq!(group(&db, all).title, "[redacted] is down");
    assert_eq!(die(&mut client, "E", "shard 29 is down"), split);
    client.sql("SELECT redrive.remove_redaction(1)");
    // A part that is merged back takes its later failures along.
    assert_eq!(merge(&db, split, all).moved, 3);
    assert_eq!(die(&mut client, "E", "shard 25 is down"), all);
    groups_add_up(&db);
}

#[test]
fn a_part_of_a_part_is_split_again() {
    let (_test, db, mut client) = TestDatabase::with_handle();
    let mut last = die(&mut client, "E", "shard 29 is down");
    for pattern in ["shard", "shard 2", "shard 29"] {
        assert_eq!(split(&db, last, pattern), 1);
        let part = scalar(&mut client, "SELECT group_id FROM redrive.dead_letters");
        assert_ne!(part, last);
        last = part;
    }
    assert_eq!(die(&mut client, "E", "shard 29 is down"), last);
}

#[test]
fn letters_in_every_state_move_in_batches() {
    let (_test, db, mut client) = TestDatabase::with_handle();
    let messages = ["card declined", "no such customer"];
    let [from, into] = messages.map(|message| die(&mut client, "E", message));
    client.sql("INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, enqueued_at, died_at)
             SELECT 'orders', 'order', 'exhausted', 'E', 'card declined', '{}', now(), now() - n % 50 * interval '1 hour'
             FROM generate_series(1, 3200) n;
             UPDATE redrive.dead_letters SET discard_reason = CASE WHEN id % 5 = 0 THEN 'x' END,
                 state = CASE id % 5 WHEN 0 THEN 'discarded' WHEN 1 THEN 'open' WHEN 2 THEN 'quarantined'
                         WHEN 3 THEN 'recovered' ELSE 'redriving' END
             WHERE id > 100");
    let done = merge(&db, from, into);
    assert_eq!((done.moved, done.locked), (3201, 0));
    let none = "SELECT is_last AND moved = 0 FROM redrive.regroup_letters($1, 0, NULL)";
    let is_over: bool = client.ask(none, &[&done.rule.get()]);
    assert!(is_over, "a loop over batches of no letters ends");
    let merged = group(&db, into);
    assert_eq!(merged.deaths, 3202);
    let ended = merged.recovered + merged.discarded;
    let all = merged.open + merged.quarantined + merged.redriving + ended;
    assert_eq!(all, 3202);
    assert_eq!(group(&db, from).deaths, 0);
    groups_add_up(&db);
    client.sql("SELECT redrive.fold_letters()");
    assert_eq!(group(&db, into).deaths, 3202);
    assert_eq!(group(&db, from).deaths, 0);
}

#[test]
fn a_merged_letter_keeps_its_stack_trace_when_its_group_is_pruned() {
    let (_test, db, mut client) = TestDatabase::with_handle();
    let trace = "at frame\n".repeat(100);
    let (id, from): (i64, i64) = client.row("INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, error_detail, payload, enqueued_at)
             VALUES ('orders', 'order', 'exhausted', 'E', 'card declined', $1, '{}', now()) RETURNING id, group_id",
            &[&trace]);
    let into = die(&mut client, "E", "no such customer");
    let groups = db.dlq().groups();
    let done = merge(&db, from, into);
    let mut prune = || scalar(&mut client, "SELECT redrive.prune_groups('0')");
    assert_eq!(prune(), 0, "the rule keeps the group");
    groups.remove_rule(done.rule, &maria()).unwrap();
    assert_eq!(prune(), 1);
    let letter = db.letter(JobId::new(id));
    assert_eq!(letter.error_detail.as_deref(), Some(&*trace));
    assert_eq!(letter.state, LetterState::Open);
}

#[test]
fn rules_that_make_no_sense_are_rejected() {
    let (_test, db, mut client) = TestDatabase::with_handle();
    let [a, b, c] = ["card declined", "no such customer", "gateway down"]
        .map(|m| GroupId::new(die(&mut client, "E", m)));
    let groups = db.dlq().groups();
    let merge = |from, into| groups.merge(from, into, &maria());
    merge(a, b).unwrap();
    merge(b, c).unwrap();
    for (from, into) in [(a, a), (c, a), (a, GroupId::new(999))] {
        let error = merge(from, into).unwrap_err();
        assert!(error.is_invalid(), "{from} into {into}: {error}");
    }
    for pattern in ["(", r"(a*)*\1", "a\0", &"x".repeat(2000)] {
        let error = groups.split(c, pattern, &maria()).unwrap_err();
        assert!(error.is_invalid(), "{pattern}: {error}");
    }
    // They are merged into the same group already.
    assert_eq!(merge(b, a).unwrap().moved, 0);
    assert_eq!(merge(a, c).unwrap().moved, 0);
    assert_eq!(groups.rules().unwrap().len(), 2);
    let group = die(&mut client, "E", "card declined");
    assert_eq!(group, c.get(), "both rules");
    let all = groups.list(&GroupFilter::new().waiting()).unwrap();
    assert_eq!(all.len(), 1, "{all:?}");
}
