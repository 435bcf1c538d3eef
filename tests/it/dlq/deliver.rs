//! Delivery to sinks: at least once, and one process at a time per letter.

mod command;

use redrive_tests::prelude::*;

use super::program;

/// Delivers letters to a sink.
fn delivers(db: &Database, filter: &LetterFilter, sink: &impl Sink) -> Deliveries {
    db.dlq().deliver(filter, sink, &maria()).unwrap()
}

#[test]
fn letters_a_sink_accepts_recover_and_the_others_stay_open_with_the_error() {
    let (test, queue, ids) = TestDatabase::with_letters(4);
    let db = queue.database();
    let sink = |letter: &Letter| match letter.id {
        id if id == ids[1] => Err(Failure::retry("the broker is away").class("BrokerError")),
        id if id == ids[2] => panic!("cannot do that"),
        _ => Ok(()),
    };
    let done = delivers(db, &of_orders(), &sink);
    assert_eq!(done.delivered, [ids[0], ids[3]]);
    assert_eq!(done.skipped, []);
    let [away, panicked] = &done.failed[..] else {
        panic!("two failed: {:?}", done.failed)
    };
    assert_eq!((away.id, &*away.error_class), (ids[1], "BrokerError"));
    assert_eq!(&*away.error_message, "the broker is away");
    assert!(panicked.id == ids[2] && panicked.error_message.contains("cannot do that"));

    let totals = stats(db, "orders").expect("letters");
    assert_eq!((totals.open, totals.recovered), (2, 2));
    let event = |id: JobId| db.letter(id).events.pop().expect("an event");
    let (taken, failed) = (event(ids[0]), event(ids[1]));
    let words = (&*taken.event, &taken.about["reason"]);
    assert_eq!(words, ("delivered", &json!("INC-7")));
    let words = (&*failed.event, &failed.about["error_class"]);
    assert_eq!(words, ("not delivered", &json!("BrokerError")));
    let audit = "SELECT count(*), sum(letters)::bigint FROM redrive.audit WHERE verb = 'deliver' AND reason = 'INC-7'";
    assert_eq!(test.client().row::<(i64, i64)>(audit, &[]), (2, 2));
}

#[test]
fn a_process_killed_in_delivery_holds_its_letter_until_then_and_leaves_it_open() {
    let (test, queue, ids) = TestDatabase::with_letters(2);
    let db = queue.database();
    // The command of the sink runs until the file is gone.
    let (begun, file) = (TempFile::of(""), TempFile::of(""));
    let sink = format!("echo 1 > {begun}; while test -e {file}; do sleep 0.05; done");
    let line = ["dlq", "deliver", "orders", "--yes", "--exec", &sink];
    let mut sender = Process::start(program(&test).args(line));
    wait_until("the sink to have a letter", SOON, || {
        !begun.bytes().is_empty()
    });
    let sent = AtomicU32::new(0);
    let counted = |_: &Letter| -> Result<(), Failure> {
        sent.fetch_add(1, Ordering::SeqCst);
        Ok(())
    };
    let first = only(ids[0]);
    assert_eq!(delivers(db, &first, &counted).skipped, [ids[0]]);
    assert_eq!(db.redrives(&first).skipped, [(ids[0], Skip::Locked)]);
    assert_eq!(db.discards(&first), []);
    sender.kill();
    // The server notices and releases the letter.
    wait_until("the letter to be sent again", SOON, || {
        !delivers(db, &first, &counted).delivered.is_empty()
    });
    assert_eq!(sent.into_inner(), 1);
    assert_eq!(db.letter(ids[1]).state, LetterState::Open);
    assert_eq!(test.count("audit WHERE verb = 'deliver'"), 1);
}
