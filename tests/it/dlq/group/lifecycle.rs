//! States, notes and the end of groups.

use redrive::Operator;
use redrive::admin::AuditFilter;
use redrive::dlq::{GroupFilter, GroupState, LetterFilter};
use redrive_tests::{Sql, TestDatabase, scalar};

use super::{die, the_group};

#[test]
fn a_resolved_group_that_dies_again_is_a_regression() {
    let (test, mut client) = TestDatabase::with_client();
    let db = test.open();
    die(&mut client, "E", "order 1");
    let id = the_group(&db).id;
    assert!(!the_group(&db).is_regression());
    let operator = Operator::new("maria@ops").reason("fixed in 1.4");
    assert!(
        db.dlq()
            .groups()
            .set_state(id, GroupState::Resolved, &operator)
            .unwrap()
    );
    let resolved = the_group(&db);
    assert_eq!(
        (resolved.state, resolved.open),
        (GroupState::Resolved, 1),
        "no letter is touched"
    );
    // Folding earlier deaths is not a regression.
    client.sql("SELECT redrive.fold_letters()");
    assert_eq!(the_group(&db).state, GroupState::Resolved);

    die(&mut client, "E", "order 2");
    for fold in [false, true] {
        if fold {
            client.sql("SELECT redrive.fold_letters()");
        }
        let again = the_group(&db);
        assert_eq!(
            (again.state, again.regressions),
            (GroupState::Open, 1),
            "folded: {fold}"
        );
        assert!(again.is_regression() && again.regressed_at > again.resolved_at);
    }
    // Resolved again before the regression is folded: the regression still counts.
    assert!(
        db.dlq()
            .groups()
            .set_state(id, GroupState::Resolved, &operator)
            .unwrap()
    );
    assert!(!the_group(&db).is_regression());
    die(&mut client, "E", "order 3");
    assert!(
        db.dlq()
            .groups()
            .set_state(id, GroupState::Resolved, &operator)
            .unwrap()
    );
    client.sql("SELECT redrive.fold_letters()");
    let group = the_group(&db);
    assert_eq!((group.state, group.regressions), (GroupState::Resolved, 2));
}

#[test]
fn an_ignored_group_stays_ignored_when_it_dies_again() {
    let (test, mut client) = TestDatabase::with_client();
    let db = test.open();
    die(&mut client, "E", "order 1");
    let id = the_group(&db).id;
    assert!(
        db.dlq()
            .groups()
            .set_state(id, GroupState::Ignored, &Operator::default())
            .unwrap()
    );
    die(&mut client, "E", "order 2");
    client.sql("SELECT redrive.fold_letters()");
    assert_eq!(the_group(&db).state, GroupState::Ignored);
}

#[test]
fn group_notes_states_and_assignments_are_stored_and_audited() {
    let (test, db) = TestDatabase::opened();
    die(&mut test.client(), "E", "order 1");
    let id = the_group(&db).id;
    let operator = Operator::new("maria@ops").reason("on it");
    assert!(
        db.dlq()
            .groups()
            .set_state(id, GroupState::Acknowledged, &operator)
            .unwrap()
    );
    assert!(
        db.dlq()
            .groups()
            .set_note(id, Some("see the runbook"), &operator)
            .unwrap()
    );
    assert!(
        db.dlq()
            .groups()
            .assign(id, Some("payments"), &operator)
            .unwrap()
    );
    let group = db.dlq().groups().get(id).unwrap().expect("the group");
    assert_eq!(
        (group.state, group.note.as_deref(), group.owner.as_deref()),
        (
            GroupState::Acknowledged,
            Some("see the runbook"),
            Some("payments")
        )
    );
    assert!(db.dlq().groups().set_note(id, None, &operator).unwrap());
    assert_eq!(
        db.dlq().groups().get(id).unwrap().expect("the group").note,
        None
    );
    let verbs: Vec<String> = db
        .admin()
        .audit(&AuditFilter::new())
        .unwrap()
        .into_iter()
        .map(|entry| entry.verb)
        .collect();
    assert_eq!(
        verbs,
        [
            "note_group",
            "assign_group",
            "note_group",
            "acknowledge_group"
        ]
    );
    let nobody = redrive::dlq::GroupId::new(999);
    assert!(
        !db.dlq()
            .groups()
            .set_state(nobody, GroupState::Open, &operator)
            .unwrap()
    );
    assert!(!db.dlq().groups().set_note(nobody, None, &operator).unwrap());
    assert!(!db.dlq().groups().assign(nobody, None, &operator).unwrap());
    assert!(db.dlq().groups().get(nobody).unwrap().is_none());
    assert_eq!(
        db.admin().audit(&AuditFilter::new()).unwrap().len(),
        4,
        "what did not happen is not in it"
    );
}

#[test]
fn groups_are_sorted_by_open_letters_and_can_be_filtered() {
    let (test, mut client) = TestDatabase::with_client();
    let db = test.open();
    for (class, count) in [("Few", 1), ("Many", 5), ("Some", 3)] {
        for _ in 0..count {
            die(&mut client, class, "x");
        }
    }
    let classes = |filter: &GroupFilter| -> Vec<String> {
        db.dlq()
            .groups()
            .list(filter)
            .unwrap()
            .into_iter()
            .map(|group| group.error_class)
            .collect()
    };
    assert_eq!(classes(&GroupFilter::new()), ["Many", "Some", "Few"]);
    assert_eq!(classes(&GroupFilter::new().limit(1)), ["Many"]);
    assert_eq!(classes(&GroupFilter::new().error_class("Few")), ["Few"]);
    assert!(classes(&GroupFilter::new().queue("other")).is_empty());
    assert!(classes(&GroupFilter::new().kind("other")).is_empty());
    let many = db
        .dlq()
        .groups()
        .list(&GroupFilter::new().error_class("Many"))
        .unwrap()[0]
        .id;
    db.dlq()
        .groups()
        .set_state(many, GroupState::Ignored, &Operator::default())
        .unwrap();
    let seen = GroupFilter::new().states([GroupState::Open, GroupState::Acknowledged]);
    assert_eq!(classes(&seen), ["Some", "Few"]);
    db.dlq()
        .discard(
            &LetterFilter::new().error_class("Some"),
            &Operator::default().reason("test"),
        )
        .unwrap();
    assert_eq!(classes(&GroupFilter::new().waiting()), ["Many", "Few"]);
}

#[test]
fn only_unused_groups_are_deleted() {
    let (test, mut client) = TestDatabase::with_client();
    let db = test.open();
    for class in ["Gone", "Ignored", "Young", "Kept"] {
        die(&mut client, class, &format!("x\n{}", "y ".repeat(2000)));
    }
    client.sql("DELETE FROM redrive.dead_letters WHERE error_class <> 'Kept'");
    client.sql("SELECT redrive.fold_letters()");
    client.sql("UPDATE redrive.groups SET last_seen = now() - interval '9 days' WHERE error_class <> 'Young'");
    let ignored = db
        .dlq()
        .groups()
        .list(&GroupFilter::new().error_class("Ignored"))
        .unwrap()[0]
        .id;
    db.dlq()
        .groups()
        .set_state(ignored, GroupState::Ignored, &Operator::default())
        .unwrap();
    let mut forget = |age: &str| -> i64 {
        client
            .query_one("SELECT redrive.prune_groups($1::text::interval)", &[&age])
            .unwrap()
            .get(0)
    };
    assert_eq!(forget("10 days"), 0);
    assert_eq!(forget("7 days"), 1);
    assert_eq!(forget("7 days"), 0);
    assert!(
        db.dlq()
            .groups()
            .list(&GroupFilter::new().error_class("Gone"))
            .unwrap()
            .is_empty()
    );
    assert_eq!(
        db.dlq().groups().list(&GroupFilter::new()).unwrap().len(),
        3
    );
    let details = scalar(&mut client, "SELECT count(*) FROM redrive.details");
    assert_eq!(details, 3);
    // While a session writes a letter, no group is deleted.
    client.sql("UPDATE redrive.groups SET last_seen = now() - interval '9 days'");
    let mut other = test.client();
    let mut writing = other.transaction().unwrap();
    writing.sql("UPDATE redrive.dead_letters SET seen = seen + 1");
    let forgotten = scalar(&mut client, "SELECT redrive.prune_groups('1 day')");
    assert_eq!(forgotten, 0);
    writing.rollback().unwrap();
    let forgotten = scalar(&mut client, "SELECT redrive.prune_groups('1 day')");
    assert_eq!(forgotten, 1);
}
