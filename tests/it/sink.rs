//! Sinks: letters delivered at least once, each by one at a time, and their story told.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use redrive::{Act, Captured, Edit, Failure, Letter, LetterState, Letters, Sink};
use redrive_tests::{Gate, SOON, TestDatabase, letters, letters_in, ran, stats, wait_until};
use serde_json::{Value, json};

#[test]
fn what_a_sink_takes_is_recovered_and_the_rest_stays_open_and_tells_why() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 4);
    let db = queue.database();
    let sink = |letter: &Letter| match letter.id {
        id if id == ids[1] => Err(Failure::retry("the broker is away").class("BrokerError")),
        id if id == ids[2] => panic!("cannot do that"),
        _ => Ok(()),
    };
    let act = Act::new().person("maria@ops-1").why("back to the broker");
    let done = db
        .redrive_to(&Letters::queue("orders"), &sink, &act)
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
    let counted = stats(db, "orders").expect("letters");
    assert_eq!((counted.open, counted.recovered), (2, 2));
    let mut client = test.client();
    let mut event = |id: i64| -> Value {
        let last = "SELECT events -> -1 FROM redrive.dead_letters WHERE id = $1";
        client.query_one(last, &[&id]).unwrap().get(0)
    };
    let taken = event(ids[0].get());
    assert_eq!(
        (&taken["event"], &taken["by"], &taken["why"]),
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
    let audit = "SELECT count(*), sum(letters)::bigint FROM redrive.audit WHERE verb = 'deliver' AND why = 'back to the broker'";
    let row = test.client().query_one(audit, &[]).unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (2, 2));
}

#[test]
fn while_a_sink_has_a_letter_nobody_else_does() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let id = letters(&queue, 1)[0];
    let db = queue.database();
    let gate = Gate::new();
    let courier = {
        let (db, gate) = (test.open(), gate.clone());
        thread::spawn(move || {
            let sink = |_: &Letter| {
                gate.pass();
                Ok(())
            };
            db.redrive_to(&Letters::all(), &sink, &Act::new()).unwrap()
        })
    };
    gate.wait_for(1);
    let one = Letters::ids([id]);
    assert_eq!(
        db.redrive(&one, &Act::new()).unwrap().skipped,
        [(id, redrive::Skip::Locked)]
    );
    assert_eq!(db.discard(&one, &Act::new().why("test")).unwrap(), []);
    let second = |_: &Letter| -> Result<(), Failure> { panic!("it is in other hands") };
    assert_eq!(
        db.redrive_to(&one, &second, &Act::new()).unwrap().skipped,
        [id]
    );
    gate.open();
    assert_eq!(courier.join().expect("the courier").delivered, [id]);
    assert_eq!(letters_in(db, "orders", LetterState::Recovered), 1);
}

/// Notes how often it got each letter.
#[derive(Clone, Default)]
struct Noting(Arc<Mutex<HashMap<i64, u32>>>);

impl Sink for Noting {
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
        "notes"
    }
}

#[test]
fn many_at_once_send_each_letter_once() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 60);
    let noted = Noting::default();
    let couriers: Vec<_> = (0..4)
        .map(|_| {
            let (db, sink) = (test.open(), noted.clone());
            thread::spawn(move || {
                let all = Letters::queue("orders");
                db.redrive_to(&all, &sink, &Act::new())
                    .unwrap()
                    .delivered
                    .len()
            })
        })
        .collect();
    let delivered: usize = couriers
        .into_iter()
        .map(|courier| courier.join().expect("a courier"))
        .sum();
    assert_eq!(delivered, ids.len());
    let noted = noted.0.lock().expect("no panic");
    assert!(
        noted.len() == ids.len() && noted.values().all(|times| *times == 1),
        "{noted:?}"
    );
    let sink = "SELECT DISTINCT about ->> 'sink' FROM redrive.audit";
    let row = test.client().query_one(sink, &[]).unwrap();
    assert_eq!(row.get::<_, &str>(0), "notes");
}

#[test]
fn only_open_letters_within_the_filter_and_the_limit_are_sent() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 5);
    let db = queue.database();
    db.discard(&Letters::ids([ids[0]]), &Act::new().why("test"))
        .unwrap();
    let noted = Noting::default();
    let named = Letters::ids([ids[0], ids[1]]);
    let done = db.redrive_to(&named, &noted, &Act::new()).unwrap();
    assert_eq!(
        (&done.delivered[..], &done.skipped[..]),
        (&ids[1..2], &ids[..1])
    );
    let some = Letters::queue("orders").limit(2);
    let done = db.redrive_to(&some, &noted, &Act::new()).unwrap();
    assert_eq!(done.delivered, ids[2..4]);
    let nobody = Letters::queue("nobody");
    assert_eq!(
        db.redrive_to(&nobody, &noted, &Act::new()).unwrap(),
        redrive::Deliveries::default()
    );
}

/// A process that delivers, killed at the end of the test if not before.
struct Courier(Child);

impl Drop for Courier {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[test]
fn a_courier_that_is_killed_leaves_the_letter_open() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 2);
    let db = queue.database();
    let mut client = test.client();
    client
        .batch_execute("CREATE TABLE public.begun (job bigint)")
        .unwrap();
    let mut courier = Courier(
        Command::new(env!("CARGO_BIN_EXE_courier"))
            .arg(test.url())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("start the courier"),
    );
    wait_until("the sink to have a letter", SOON, || {
        let begun = "SELECT count(*) FROM public.begun";
        client.query_one(begun, &[]).unwrap().get::<_, i64>(0) == 1
    });
    let noted = Noting::default();
    let first = Letters::ids([ids[0]]);
    assert_eq!(
        db.redrive_to(&first, &noted, &Act::new()).unwrap().skipped,
        [ids[0]]
    );
    courier.0.kill().expect("kill the courier");
    courier.0.wait().expect("wait for its end");
    // The server notices, and lets go of the letter.
    wait_until("the letter to be sent again", SOON, || {
        !db.redrive_to(&first, &noted, &Act::new())
            .unwrap()
            .delivered
            .is_empty()
    });
    assert_eq!(
        noted.0.lock().expect("no panic").get(&ids[0].get()),
        Some(&1)
    );
    let letter = db.letter(ids[1]).unwrap().expect("the other");
    assert_eq!(letter.state, LetterState::Open);
    let audit = "SELECT count(*) FROM redrive.audit WHERE verb = 'deliver'";
    assert_eq!(client.query_one(audit, &[]).unwrap().get::<_, i64>(0), 1);
}

#[test]
fn a_command_gets_the_bytes_as_they_came() {
    let test = TestDatabase::migrated();
    let db = test.open();
    let bytes: Vec<u8> = (0..=255).collect();
    let event = Captured::new(
        "kafka:orders",
        "3/1842",
        "orders",
        "order.placed",
        &bytes[..],
    )
    .header("trace", "abc")
    .error("ParseError", "no text");
    let redrive::Capture::New(id) = db.capture(&event).unwrap() else {
        panic!("not new")
    };
    let file = std::env::temp_dir().join(format!("{}.bytes", test.name()));
    let path = file.to_str().expect("a path in UTF-8");
    let command = format!(
        "test \"$REDRIVE_SOURCE $REDRIVE_POSITION $REDRIVE_KIND $REDRIVE_ERROR_CLASS\" = \
         'kafka:orders 3/1842 order.placed ParseError' && echo \"$REDRIVE_HEADERS\" | grep -q abc && cat > {path}"
    );
    let id_text = id.to_string();
    ran(
        &test,
        &["dlq", "deliver", "--id", &id_text, "--exec", &command],
    )
    .exits_with(0);
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    let letter = db.letter(id).unwrap().unwrap();
    assert_eq!(
        (letter.state, letter.raw),
        (LetterState::Recovered, Some(bytes))
    );

    // After an edit it is the payload that goes, on a line.
    let event = Captured::new(
        "kafka:orders",
        "3/1843",
        "orders",
        "order.placed",
        &b"{"[..],
    );
    let redrive::Capture::New(id) = db.capture(&event).unwrap() else {
        panic!("not new")
    };
    let set = Edit::set(r#"{"a": 1}"#).unwrap();
    db.edit(&Letters::ids([id]), &set, &Act::new()).unwrap();
    let command = format!("cat > {path}");
    ran(
        &test,
        &[
            "dlq",
            "deliver",
            "--id",
            &id.to_string(),
            "--exec",
            &command,
        ],
    )
    .exits_with(0);
    assert_eq!(std::fs::read(&file).unwrap(), b"{\"a\": 1}\n");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn delivering_a_queue_takes_a_yes_and_tells_what_failed() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 3);
    let command = "grep -q '\"number\": [12]}' || { echo 'too many' >&2; exit 7; }";
    let deliver = ["dlq", "deliver", "orders", "--exec", command];
    let dry = ran(&test, &deliver).exits_with(0);
    assert!(
        dry.out.contains("3 open letters would be delivered") && dry.out.contains("--yes"),
        "{}",
        dry.out
    );
    assert_eq!(letters_in(queue.database(), "orders", LetterState::Open), 3);
    let told = ran(&test, &[&deliver[..], &["--yes"]].concat()).exits_with(1);
    assert_eq!(told.out, "2 letters delivered\n");
    assert!(
        told.err.contains(&format!(
            "letter {} is not delivered: exit 7: too many",
            ids[2]
        )),
        "{}",
        told.err
    );
    let lines = ran(&test, &[&deliver[..], &["--yes", "--json"]].concat())
        .exits_with(1)
        .lines();
    assert_eq!(
        lines,
        [
            json!({ "id": ids[2].get(), "outcome": "failed", "error_class": "exit 7", "error_message": "too many" })
        ]
    );
    let slow = [
        "dlq",
        "deliver",
        "orders",
        "--exec",
        "sleep 300",
        "--deadline",
        "200ms",
        "--yes",
    ];
    let told = ran(&test, &slow).exits_with(1);
    assert!(
        told.err.contains("timeout: the command was ended"),
        "{}",
        told.err
    );
    ran(
        &test,
        &["dlq", "deliver", "orders", "--sink", "nowhere", "--yes"],
    )
    .exits_with(2);
    ran(&test, &["dlq", "deliver", "orders"]).exits_with(2);
    ran(
        &test,
        &["dlq", "deliver", "nobody", "--exec", "true", "--yes"],
    )
    .exits_with(1);
}
