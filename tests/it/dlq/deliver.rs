//! Delivery to sinks: at least once, and one process at a time per letter.

mod command;

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use redrive::dlq::{Letter, LetterFilter, LetterState, Sink};
use redrive::{Failure, Operator};
use redrive_tests::{Gate, SOON, Sql, TestDatabase, letters, letters_in, stats, wait_until};
use serde_json::{Value, json};

#[test]
fn letters_a_sink_accepts_recover_and_the_others_stay_open_with_the_error() {
    let (test, queue) = TestDatabase::with_orders();
    let ids = letters(&queue, 4);
    let db = queue.database();
    let sink = |letter: &Letter| match letter.id {
        id if id == ids[1] => Err(Failure::retry("the broker is away").class("BrokerError")),
        id if id == ids[2] => panic!("cannot do that"),
        _ => Ok(()),
    };
    let operator = Operator::new("maria@ops-1").reason("back to the broker");
    let done = db
        .dlq()
        .deliver(&LetterFilter::new().queue("orders"), &sink, &operator)
        .unwrap();
    assert_eq!(done.delivered, [ids[0], ids[3]]);
    assert_eq!(done.skipped, []);
    let [away, panicked] = &done.failed[..] else {
        panic!("two failed: {:?}", done.failed)
    };
    assert_eq!(
        (away.id, &*away.error_class, &*away.error_message),
        (ids[1], "BrokerError", "the broker is away")
    );
    assert!(panicked.id == ids[2] && panicked.error_message.contains("cannot do that"));

    assert_eq!(letters_in(db, "orders", LetterState::Recovered), 2);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 2);
    let totals = stats(db, "orders").expect("letters");
    assert_eq!((totals.open, totals.recovered), (2, 2));
    let mut client = test.client();
    let mut event = |id: i64| -> Value {
        let last = "SELECT events -> -1 FROM redrive.dead_letters WHERE id = $1";
        client.query_one(last, &[&id]).unwrap().get(0)
    };
    let taken = event(ids[0].get());
    assert_eq!(
        (&taken["event"], &taken["by"], &taken["reason"]),
        (
            &json!("delivered"),
            &json!("maria@ops-1"),
            &json!("back to the broker")
        )
    );
    let failed = event(ids[1].get());
    assert_eq!(
        (
            &failed["event"],
            &failed["error_class"],
            &failed["error_message"]
        ),
        (
            &json!("not delivered"),
            &json!("BrokerError"),
            &json!("the broker is away")
        )
    );
    let audit = "SELECT count(*), sum(letters)::bigint FROM redrive.audit WHERE verb = 'deliver' AND reason = 'back to the broker'";
    let row = test.client().query_one(audit, &[]).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (2, 2));
}

#[test]
fn a_letter_in_delivery_is_locked_for_everyone_else() {
    let (test, queue) = TestDatabase::with_orders();
    let id = letters(&queue, 1)[0];
    let db = queue.database();
    let gate = Gate::new();
    let sender = {
        let (db, gate) = (test.open(), gate.clone());
        thread::spawn(move || {
            let sink = |_: &Letter| {
                gate.pass();
                Ok(())
            };
            db.dlq()
                .deliver(&LetterFilter::new(), &sink, &Operator::default())
                .unwrap()
        })
    };
    gate.wait_for(1);
    let one = LetterFilter::new().ids([id]);
    assert_eq!(
        db.dlq()
            .redrive(&one, &Operator::default())
            .unwrap()
            .skipped,
        [(id, redrive::dlq::Skip::Locked)]
    );
    assert_eq!(
        db.dlq()
            .discard(&one, &Operator::default().reason("test"))
            .unwrap(),
        []
    );
    let second = |_: &Letter| -> Result<(), Failure> { panic!("it is locked") };
    assert_eq!(
        db.dlq()
            .deliver(&one, &second, &Operator::default())
            .unwrap()
            .skipped,
        [id]
    );
    gate.open();
    assert_eq!(sender.join().expect("the sender").delivered, [id]);
    assert_eq!(letters_in(db, "orders", LetterState::Recovered), 1);
}

/// Counts how often it received each letter.
#[derive(Clone, Default)]
struct CountingSink(Arc<Mutex<HashMap<i64, u32>>>);

impl Sink for CountingSink {
    fn send(&self, letter: &Letter) -> Result<(), Failure> {
        *self
            .0
            .lock()
            .expect("no panic")
            .entry(letter.id.get())
            .or_default() += 1;
        Ok(())
    }

    fn name(&self) -> &'static str {
        "counts"
    }
}

#[test]
fn concurrent_deliveries_send_each_letter_once() {
    let (test, queue) = TestDatabase::with_orders();
    let ids = letters(&queue, 60);
    let counted = CountingSink::default();
    let senders: Vec<_> = (0..4)
        .map(|_| {
            let (db, sink) = (test.open(), counted.clone());
            thread::spawn(move || {
                let all = LetterFilter::new().queue("orders");
                db.dlq()
                    .deliver(&all, &sink, &Operator::default())
                    .unwrap()
                    .delivered
                    .len()
            })
        })
        .collect();
    let delivered: usize = senders
        .into_iter()
        .map(|sender| sender.join().expect("a sender"))
        .sum();
    assert_eq!(delivered, ids.len());
    let counted = counted.0.lock().expect("no panic");
    assert!(
        counted.len() == ids.len() && counted.values().all(|times| *times == 1),
        "{counted:?}"
    );
    let sink = "SELECT DISTINCT about ->> 'sink' FROM redrive.audit";
    let row = test.client().query_one(sink, &[]).unwrap();
    assert_eq!(row.get::<_, &str>(0), "counts");
}

/// A delivering process, killed at the end of the test at the latest.
struct Delivery(Child);

impl Drop for Delivery {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_process_killed_in_delivery_leaves_the_letter_open() {
    let (test, queue) = TestDatabase::with_orders();
    let ids = letters(&queue, 2);
    let db = queue.database();
    let mut client = test.client();
    client.sql("CREATE TABLE public.begun (job bigint)");
    let mut sender = Delivery(
        Command::new(env!("CARGO_BIN_EXE_test_delivery"))
            .arg(test.url())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("start the delivery"),
    );
    wait_until("the sink to have a letter", SOON, || {
        let begun = "SELECT count(*) FROM public.begun";
        client.query_one(begun, &[]).unwrap().get::<_, i64>(0) == 1
    });
    let counted = CountingSink::default();
    let first = LetterFilter::new().ids([ids[0]]);
    assert_eq!(
        db.dlq()
            .deliver(&first, &counted, &Operator::default())
            .unwrap()
            .skipped,
        [ids[0]]
    );
    sender.0.kill().expect("kill the delivery");
    sender.0.wait().expect("wait for its end");
    // The server notices and releases the letter.
    wait_until("the letter to be sent again", SOON, || {
        !db.dlq()
            .deliver(&first, &counted, &Operator::default())
            .unwrap()
            .delivered
            .is_empty()
    });
    assert_eq!(
        counted.0.lock().expect("no panic").get(&ids[0].get()),
        Some(&1)
    );
    let letter = db.dlq().get(ids[1]).unwrap().expect("the other");
    assert_eq!(letter.state, LetterState::Open);
    let audit = "SELECT count(*) FROM redrive.audit WHERE verb = 'deliver'";
    assert_eq!(client.query_one(audit, &[]).unwrap().get::<_, i64>(0), 1);
}
