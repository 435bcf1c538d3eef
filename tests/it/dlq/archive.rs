//! Restoring and deleting archived letters, and the archive's filter.

use redrive_tests::prelude::*;

fn ids(ids: &[JobId]) -> LetterFilter {
    LetterFilter::new().ids(ids.iter().copied())
}

/// Archives every letter that is not redriving.
pub(super) fn archive_all(db: &Database) -> u64 {
    for state in LetterState::ALL {
        if state != LetterState::Redriving {
            db.retains(&RetentionRule::archive(state, Duration::ZERO));
        }
    }
    let archived = db.tidies_up();
    let retention = db.dlq().retention();
    for state in LetterState::ALL {
        if state != LetterState::Redriving {
            retention.remove(None, state, &maria()).unwrap();
        }
    }
    archived
}

/// Redrives a letter, whose job dies again with this error class.
pub(super) fn redrive_in_vain(queue: &Queue, id: JobId, class: &'static str) {
    let redriven = queue.database().dlq().redrive(&ids(&[id]), &maria());
    assert_eq!(redriven.unwrap().redriven, [id]);
    work_off(queue, move |_: &Job<Order>| {
        Err(Failure::reject("still broken").class(class))
    });
}

/// A letter without what a restore changes: its state, its events and its last change.
fn story(letter: &Letter) -> String {
    let mut kept = letter.clone();
    (kept.state, kept.events, kept.audit) = (LetterState::Open, Vec::new(), None);
    kept.changed_at = kept.died_at;
    format!("{kept:#?}")
}

#[test]
fn a_restored_letter_is_open_with_its_whole_story() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let job = new_order(1).unique("one");
    let id = put(&queue, job);
    work_off(&queue, |_: &Job<Order>| {
        Err(Failure::reject("broken").detail("at the till\n".repeat(100)))
    });
    redrive_in_vain(&queue, id, "Other");
    redrive_in_vain(&queue, id, "Other");
    let set = Edit::set(r#"{"number": 1, "mended": null}"#).unwrap();
    db.dlq().edit(&ids(&[id]), &set, &maria()).unwrap();
    let before = db.letter(id);
    let deaths = (before.generation, before.alike, before.failed_redrives);
    assert_eq!(deaths, (2, 1, 2));
    let versions = db.dlq().versions(id).unwrap();
    let groups = db.groups(&GroupFilter::new());

    assert_eq!(archive_all(db), 1);
    assert!(db.dlq().get(id).unwrap().is_none());
    let archived = db.dlq().archived_letter(id).unwrap().expect("archived");
    assert_eq!(archived.history, before.history);
    assert_eq!(db.dlq().versions(id).unwrap().len(), versions.len());

    let restored = db.dlq().restore(&ids(&[id]), &maria()).unwrap();
    assert_eq!((&*restored.letters, restored.left.len()), (&[id][..], 0));
    let after = db.letter(id);
    assert_eq!(after.state, LetterState::Open);
    assert_eq!(story(&after), story(&before));
    assert_eq!(after.audit, restored.audit);
    let last = after.events.last().expect("an event");
    let event = (&*last.event, &last.about["reason"]);
    assert_eq!(event, ("restored", &"INC-7".into()));
    let kept = db.dlq().versions(id).unwrap();
    assert_eq!(format!("{kept:?}"), format!("{versions:?}"));
    assert!(db.dlq().archived_letter(id).unwrap().is_none());
    // The deaths were counted when they happened.
    let again = db.groups(&GroupFilter::new());
    let count = |group: &FailureGroup| (group.id, group.deaths, group.open);
    assert!(again.iter().map(count).eq(groups.iter().map(count)));
    no_drift(db);
    // It is counted as another like death.
    redrive_in_vain(&queue, id, "Other");
    assert_eq!((db.letter(id).generation, db.letter(id).alike), (3, 2));
    // Its versions go with the archived letter.
    assert_eq!(archive_all(db), 1);
    db.dlq().delete_archived(&ids(&[id]), &maria()).unwrap();
    assert_eq!(test.count("letter_versions"), 0);
}

/// As after a restore of a dump, while the sequence of ids lags behind.
#[test]
fn a_letter_with_the_id_of_an_archived_one_keeps_its_own_versions() {
    let (test, queue, made) = TestDatabase::with_letters(1);
    let edit = |number: u32| {
        let set = Edit::set(&format!(r#"{{"number": {number}}}"#)).unwrap();
        queue.edits(&ids(&made), &set);
    };
    edit(2);
    assert_eq!(archive_all(queue.database()), 1);
    let mut client = test.client();
    let lag = "SELECT setval('redrive.job_id', $1, false)";
    client.change(lag, &[&made[0].get()]);
    let event = |body: &str| ForeignFailure::new("kafka", "1", "orders", "order", body);
    assert_eq!(queue.captures(&event(r#"{"number": 3}"#)), made[0]);
    edit(4);
    queue.discards(&ids(&made));
    assert_eq!(queue.captures(&event(r#"{"number": 5}"#)), made[0]);
    let kept = "SELECT payload ->> 'number' FROM redrive.letter_versions ORDER BY version";
    assert_eq!(client.column::<String>(kept, &[]), ["1", "3", "4"]);
}

#[test]
fn a_closed_letter_is_open_after_a_restore_and_a_quarantined_one_quarantined() {
    let (test, queue, made) = TestDatabase::with_letters(3);
    let db = queue.database();
    let mut client = test.client();
    let quarantine = "UPDATE redrive.dead_letters SET state = 'quarantined' WHERE id <> $1";
    client.change(quarantine, &[&made[0].get()]);
    db.dlq().discard(&ids(&made[..2]), &maria()).unwrap();
    archive_all(db);
    let restored = db.dlq().restore(&LetterFilter::new(), &maria());
    assert_eq!(restored.unwrap().letters, made);
    let states: Vec<_> = made.iter().map(|id| db.letter(*id).state).collect();
    let quarantined = LetterState::Quarantined;
    assert_eq!(states, [LetterState::Open, quarantined, quarantined]);
    assert!(db.letter(made[0]).discard_reason.is_none());
    // An open letter is as young as its restore: a rule for old letters leaves it.
    client.sql("UPDATE redrive.dead_letters SET died_at = died_at - interval '1 year'");
    let rule = RetentionRule::archive(LetterState::Open, DAY);
    db.retains(&rule);
    assert_eq!(db.tidies_up(), 0);
}

#[test]
fn a_letter_whose_place_is_taken_stays_in_the_archive() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let by_id = letters(&queue, 1)[0];
    let failure = ForeignFailure::new("kafka", "1", "orders", "order", *b"{}");
    let captured = db.captures(&failure);
    assert_eq!(archive_all(db), 2);
    db.captures_new(&failure);
    test.client()
        .change("INSERT INTO redrive.dead_letters (id, queue, kind, cause, error_class, error_message, payload, enqueued_at) \
             VALUES ($1, 'orders', 'order', 'rejected', 'c', 'm', '{}', now())", &[&by_id.get()]);
    test.sql("DELETE FROM redrive.groups WHERE error_class = 'Rejected'");
    let restored = db.dlq().restore(&LetterFilter::new(), &maria()).unwrap();
    assert_eq!((restored.letters.len(), restored.audit), (0, None));
    assert_eq!(test.count("groups WHERE error_class = 'Rejected'"), 0);
    assert_eq!(restored.left, [by_id, captured]);
    assert_eq!(db.dlq().count_archived(&LetterFilter::new()).unwrap(), 2);
    test.fails(1, "dlq archive restore orders --yes")
        .shows("0 letters restored")
        .tells("has its id or its position");
}

#[test]
fn a_deletion_names_the_letters_that_it_leaves_out() {
    let (test, queue, made) = TestDatabase::with_letters(2);
    archive_all(queue.database());
    let (first, second) = (made[0], made[1]);
    let delete = |which: &str| format!("dlq archive delete {which} --yes");
    test.fails(1, delete(&format!("{first} 999999")))
        .prints("1 letter deleted\n")
        .tells("letter 999999 was not deleted: it is not in the archive");
    let skipped = json!([{"reason": "gone", "letters": 1, "ids": [999_999]}]);
    test.fails(1, delete("999999 --json"))
        .holds(&json!({"letters": 0, "dry_run": false, "skipped": skipped}));
    test.run(delete(&second.to_string()));
}

#[test]
fn a_deletion_names_a_letter_that_is_restored_in_between() {
    let (test, queue) = TestDatabase::with_orders();
    let id = letters(&queue, 1)[0];
    archive_all(queue.database());
    let mut restore = test.begins("SELECT redrive.restore_archived('{}', 0, 1, NULL, NULL)");
    let delete = || test.fails(1, format!("dlq archive delete {id} --yes"));
    held_up(&test, delete, || restore.sql("COMMIT"))
        .prints("0 letters deleted\n")
        .tells(format!("letter {id} was not deleted: it was restored"));
}

#[test]
fn a_page_of_archived_letters_ends_after_a_few_megabytes() {
    let (test, queue, made) = TestDatabase::with_letters(2);
    let dlq = queue.database().dlq();
    archive_all(queue.database());
    test.sql(
        "UPDATE redrive.archived_letters SET raw = (
             SELECT string_agg(sha256(n::text::bytea), '') FROM generate_series(1, 200000) n)",
    );
    let delete_next = |_: &Letter| dlq.delete_archived(&ids(&made[1..]), &maria()).map(drop);
    let visited = dlq.for_each_archived(&LetterFilter::new(), delete_next);
    assert_eq!(visited.unwrap(), 1, "the next page was read too early");
}

#[test]
fn the_filter_of_letters_selects_in_the_archive() {
    let (test, queue, made) = TestDatabase::with_letters(3);
    let db = queue.database();
    let mail = ForeignFailure::new("kafka", "1", "mails", "mail", *b"null");
    db.captures(&mail);
    archive_all(db);
    let found = |filter: &str| -> u64 {
        let filter: LetterFilter = filter.parse().unwrap();
        let listed = db.dlq().archived(&filter).unwrap().len() as u64;
        let counted = db.dlq().count_archived(&filter).unwrap();
        assert_eq!(counted, listed, "{filter}");
        listed
    };
    for (filter, letters) in [
        ("", 4),
        ("queue=mails", 1),
        ("class=Rejected", 3),
        ("class=Rejected,captured", 4),
        ("kind=order payload.number=2", 1),
        ("payload.number>1", 2),
        ("state=open", 4),
        ("cause=captured", 1),
        ("source=kafka", 1),
        ("age>1h", 0),
        ("message~BROKEN", 3),
    ] {
        assert_eq!(found(filter), letters, "{filter}");
    }
    assert_eq!(found(&format!("id={}", made[1])), 1);

    // Their groups stay, with the deaths.
    let prune = "SELECT redrive.prune_groups('0')";
    assert_eq!(scalar(&mut test.client(), prune), 0);
    let class = LetterFilter::new().error_class("Rejected");
    assert_eq!(db.dlq().restore(&class, &maria()).unwrap().letters, made);
    let groups = db.groups(&GroupFilter::new().waiting());
    assert_eq!((groups.len(), groups[0].deaths, groups[0].open), (1, 3, 3));
}
