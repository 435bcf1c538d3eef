//! The archive: complete, and never a letter lost on the way.

use redrive_tests::prelude::*;

use super::make;

/// Applies a rule to 15 letters, and returns how many it took.
fn take(client: &mut impl GenericClient) -> Option<i64> {
    let nobody: Option<&str> = None;
    let values: [&(dyn ToSql + Sync); 4] = [&15_i64, &"skip", &nobody, &nobody];
    let row = client.query_one(statement("apply_retention"), &values);
    row.unwrap().get(0)
}

#[test]
fn a_crash_leaves_a_letter_in_the_table_or_in_the_archive() {
    let (test, db, mut client) = TestDatabase::with_handle();
    make(&mut client, "q", LetterState::Recovered, 10, 20);
    db.retains(&RetentionRule::archive(LetterState::Recovered, DAY));
    let places = "SELECT 100 * (SELECT count(*) FROM redrive.dead_letters) + (SELECT count(*) FROM redrive.archived_letters)";
    let mut killed = test.client();
    let mut transaction = killed.transaction().unwrap();
    assert_eq!(take(&mut transaction), Some(15));
    assert_eq!(scalar(&mut client, places), 2000, "for anybody else");
    // Meanwhile the other processes find no due letters.
    assert_eq!(take(&mut client), None);
    let pid: i32 = transaction.ask("SELECT pg_backend_pid()", &[]);
    client.change("SELECT pg_terminate_backend($1, 60000)", &[&pid]);
    drop(transaction);
    assert_eq!(scalar(&mut client, places), 2000);
    assert_eq!(db.tidies_up(), 20);
    assert_eq!(scalar(&mut client, places), 20);
}

#[test]
fn a_letter_with_the_id_of_an_archived_one_holds_up_no_other() {
    let (_test, db, mut client) = TestDatabase::with_handle();
    db.retains(&RetentionRule::archive(LetterState::Recovered, DAY));
    make(&mut client, "q", LetterState::Recovered, 10, 2);
    assert_eq!(db.tidies_up(), 2);
    // As after a logical restore.
    client.sql("SELECT setval('redrive.job_id', 1, false)");
    make(&mut client, "q", LetterState::Recovered, 10, 3);
    assert_eq!(db.tidies_up(), 1);
    assert_eq!(client.count("dead_letters"), 2);
}

#[test]
fn a_locked_letter_is_left_for_the_next_pass() {
    let (test, db, mut client) = TestDatabase::with_handle();
    make(&mut client, "q", LetterState::Discarded, 10, 5);
    db.retains(&RetentionRule::delete(LetterState::Discarded, DAY));
    let mut holder = test.client();
    let mut transaction = holder.transaction().unwrap();
    let hold = "SELECT id FROM redrive.dead_letters ORDER BY id LIMIT 1 FOR UPDATE";
    let held = scalar(&mut transaction, hold);
    assert_eq!(db.tidies_up(), 4, "it does not wait");
    assert_eq!(db.prunes(Duration::ZERO), 0);
    drop(transaction);
    assert!(db.dlq().get(JobId::new(held)).unwrap().is_some());
    assert_eq!(db.tidies_up(), 1);
}
