//! The begin of groups, their states and notes, and their end.

use redrive_tests::prelude::*;

use super::{die, the_group};

#[test]
fn a_resolved_group_that_dies_again_is_a_regression() {
    let (_test, db, mut client) = TestDatabase::with_handle();
    die(&mut client, "E", "order 1");
    let id = the_group(&db).id;
    assert!(!the_group(&db).is_regression);
    db.marks(id, GroupState::Resolved);
    let resolved = the_group(&db);
    assert_eq!(resolved.state, GroupState::Resolved, "no letter is touched");
    assert_eq!(resolved.open, 1, "no letter is touched");
    // Folding earlier deaths is not a regression.
    client.sql("SELECT redrive.fold_letters()");
    assert_eq!(the_group(&db).state, GroupState::Resolved);

    die(&mut client, "E", "order 2");
    let note = "SELECT redrive.change_group(id, note => 'again') FROM redrive.groups";
    for step in ["SELECT", note, "SELECT redrive.fold_letters()"] {
        client.sql(step);
        let again = the_group(&db);
        assert_eq!(again.state, GroupState::Open, "{step}");
        assert!(again.is_regression && Some(again.last_seen) > again.resolved_at);
    }
    for (state, is_regression) in [
        (GroupState::Acknowledged, true),
        (GroupState::Open, true),
        (GroupState::Resolved, false),
        (GroupState::Open, false),
    ] {
        db.marks(id, state);
        let group = the_group(&db);
        assert_eq!((group.state, group.is_regression), (state, is_regression));
    }
    // Open again, it was not resolved.
    die(&mut client, "E", "order 3");
    assert!(!the_group(&db).is_regression);
    // An ignored group stays ignored.
    db.marks(id, GroupState::Ignored);
    die(&mut client, "E", "order 4");
    client.sql("SELECT redrive.fold_letters()");
    assert_eq!(the_group(&db).state, GroupState::Ignored);
}

#[test]
fn groups_are_sorted_by_open_letters_and_can_be_filtered() {
    let (_test, db, mut client) = TestDatabase::with_handle();
    for (class, count) in [("Few", 1), ("Many", 5), ("Some", 3)] {
        for _ in 0..count {
            die(&mut client, class, "x");
        }
    }
    let classes = |filter: &GroupFilter| -> Vec<String> {
        let groups = db.groups(filter).into_iter();
        groups.map(|group| group.error_class).collect()
    };
    assert_eq!(classes(&GroupFilter::new()), ["Many", "Some", "Few"]);
    assert_eq!(classes(&GroupFilter::new().limit(1)), ["Many"]);
    assert!(classes(&GroupFilter::new().queue("other")).is_empty());
    let many = db.groups(&GroupFilter::new())[0].id;
    db.marks(many, GroupState::Ignored);
    let seen = GroupFilter::new().states([GroupState::Open, GroupState::Acknowledged]);
    assert_eq!(classes(&seen), ["Some", "Few"]);
    db.discards(&LetterFilter::new().error_class("Some"));
    assert_eq!(classes(&GroupFilter::new().waiting()), ["Many", "Few"]);
}

#[test]
fn only_unused_groups_are_deleted() {
    let (test, db, mut client) = TestDatabase::with_handle();
    for class in ["Gone", "Ignored", "Young", "Kept"] {
        die(&mut client, class, &format!("x\n{}", "y ".repeat(2000)));
    }
    client.sql("DELETE FROM redrive.dead_letters WHERE error_class <> 'Kept'");
    client.sql("SELECT redrive.fold_letters()");
    client.sql("UPDATE redrive.groups SET last_seen = now() - interval '9 days' WHERE error_class <> 'Young'");
    let groups = db.groups(&GroupFilter::new()).into_iter();
    let mut ignored = groups.filter(|group| group.error_class == "Ignored");
    db.marks(ignored.next().expect("a group").id, GroupState::Ignored);
    let mut server = test.client();
    let mut forget = |age: &str| -> i64 {
        server.ask("SELECT redrive.prune_groups($1::text::interval)", &[&age])
    };
    assert_eq!(forget("10 days"), 0);
    assert_eq!(forget("7 days"), 1);
    assert_eq!(forget("7 days"), 0);
    let left = db.groups(&GroupFilter::new());
    assert_eq!(left.len(), 3);
    assert!(left.iter().all(|group| group.error_class != "Gone"));
    assert_eq!(client.count("details"), 3);
    // While a session writes a letter, no group is deleted.
    client.sql("UPDATE redrive.groups SET last_seen = now() - interval '9 days'");
    let mut writing = test.begins("UPDATE redrive.dead_letters SET seen = seen + 1");
    assert_eq!(forget("1 day"), 0);
    writing.sql("ROLLBACK");
    assert_eq!(forget("1 day"), 1);
}
