//! Payloads in letters are kept as they came, and one that cannot be read harms no other letter.

use redrive_tests::prelude::*;

/// Payloads whose text `jsonb` would change, or that it cannot hold.
fn odd() -> Vec<String> {
    let many =
        |item: &str, times: usize| format!("[{}{item}]", format!("{item},").repeat(times - 1));
    let long = [
        // jsonb would write a gigabyte.
        many("1e9999", 108_000),
        many("-1.5E+9999", 30_000),
        many("1e-9999", 50_000),
        many("{\"n\":1e5000}", 40_000),
        "1e999999999999999999".to_owned(),
        format!("[{}]", "1".repeat(200_000)),
        many("[]", 300_000),
        format!("{}1{}", "[{\"a\":".repeat(2_500), "}]".repeat(2_500)),
        format!("{{\"1e9999\": \"{}\"}}", "1e9999 ".repeat(100_000)),
    ];
    let short = [
        r#"{ "b" : 1,"a":2,  "b":3 }"#,
        r"[1.0, 1.00, 1e2, 1E+2, -0, 0.1e-7, 100000000000000000000000000000001]",
        r#""\u0000""#,
        r#"{"\u0000":1}"#,
        r#""\ud800 \udc00""#,
        r#""\/\u0041\ud83d\ude00é""#,
        "null",
        "\t[ ]\r\n",
        r#"{"":{"":[{}]}}"#,
    ];
    [long, short.map(str::to_owned)].concat()
}

/// Stores jobs as a role with the right to insert them can, and returns their ids.
fn store(client: &mut Client, payloads: &[String]) -> Vec<i64> {
    let insert = "INSERT INTO redrive.jobs (segment, queue, kind, payload, meta.max_attempts)
                  SELECT r.segment, 'orders', 'odd', $1::text::json, 1 FROM redrive.ring r RETURNING id";
    let payloads = payloads.iter();
    payloads.map(|it| client.ask(insert, &[it])).collect()
}

/// Returns the payloads of a table, as they are stored.
fn texts(client: &mut Client, table: &str, ids: &[i64]) -> Vec<String> {
    let asked =
        format!("SELECT payload::text FROM redrive.{table} WHERE id = ANY ($1) ORDER BY id");
    client.column(&asked, &[&ids])
}

#[track_caller]
fn same(found: &[String], expected: &[String]) {
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        let start: String = expected.chars().take(60).collect();
        let lengths = (expected.len(), found.len());
        assert!(found == expected, "{start}: became other: {lengths:?}");
    }
}

#[test]
fn a_redriven_job_is_byte_for_byte_what_died() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let db = queue.database();
    let odd = odd();
    let ids = store(&mut client, &odd);
    let (tell, came) = mpsc::channel();
    let worker = worker(&queue).handle_any(move |job| {
        let payload = job.payload().get().to_owned();
        let one = (job.id().get(), job.generation(), payload);
        tell.send(one).unwrap();
        Err(Failure::reject("no"))
    });
    let worker = worker.started();
    drained(&queue);
    same(&texts(&mut client, "dead_letters", &ids), &odd);
    let filter = of_orders();
    assert_eq!(db.redrives(&filter).redriven.len(), odd.len());
    finish(&queue, worker);
    same(&texts(&mut client, "dead_letters", &ids), &odd);
    // An edit and its undo, and the archive and its return.
    let edit = Edit::set("{}").unwrap();
    assert_eq!(db.edits(&filter, &edit).edited.len(), odd.len());
    assert_eq!(db.restores(&filter, None).len(), odd.len());
    same(&texts(&mut client, "dead_letters", &ids), &odd);
    for step in [
        "SELECT redrive.discard('{}', reason => 'x')",
        "SELECT redrive.set_retention(queue => 'orders', state => 'discarded', keep => '0', action => 'archive')",
        "SELECT redrive.apply_retention()",
    ] {
        client.sql(step);
    }
    assert_eq!(db.dlq().archived(&filter).unwrap().len(), odd.len());
    let restored = "SELECT id FROM redrive.restore_archived('{}', 0, 1000, NULL, NULL)";
    assert_eq!(client.query(restored, &[]).unwrap().len(), odd.len());
    same(&texts(&mut client, "dead_letters", &ids), &odd);
    let mut came: Vec<(i64, u32, String)> = came.try_iter().collect();
    came.sort();
    assert_eq!(came.len(), 2 * odd.len());
    for (turn, (id, generation, payload)) in came.iter().enumerate() {
        assert_eq!((*id, *generation as usize), (ids[turn / 2], turn % 2));
        assert!(payload == odd[turn / 2].trim(), "job {id} came changed");
    }
}

#[test]
fn a_capture_of_json_is_redriven_as_its_bytes() {
    let (test, db) = TestDatabase::opened();
    let odd = odd();
    let capture = |(at, raw): (usize, &String)| {
        let event = ForeignFailure::new("s", at.to_string(), "orders", "odd", raw.as_bytes());
        db.captures_new(&event).get()
    };
    let ids: Vec<i64> = odd.iter().enumerate().map(capture).collect();
    db.redrives(&LetterFilter::new());
    same(&texts(&mut test.client(), "jobs", &ids), &odd);
}

#[test]
fn letters_that_cannot_be_read_harm_no_others() {
    let (test, queue, mut client) = TestDatabase::with_session();
    let db = queue.database();
    // The oldest are the odd ones: a run, a policy and an export begin with them.
    let odd = odd();
    store(&mut client, &odd);
    queue.enqueue_many(&Order::up_to(5)).unwrap();
    let worker = worker(&queue).handle_any(|_| Err(Failure::reject("no")));
    let worker = worker.started();
    drained(&queue);
    let open = || LetterFilter::new().state(LetterState::Open).limit(1000);
    let total = odd.len() + 5;
    let listed: Vec<Letter> = db.listed(&open());
    assert_eq!(listed.len(), total);
    assert!(listed.iter().all(|letter| letter.payload.is_some()));

    let third: LetterFilter = "payload.number=3".parse().unwrap();
    let found = db.listed(&third);
    assert_eq!(found.len(), 1);
    assert_eq!(db.dlq().count(&third).unwrap(), 1);
    let by_number =
        "SELECT sum(letters)::bigint FROM redrive.count_letters_by('{}', 'payload', '$.number')";
    let counted = scalar(&mut client, by_number);
    assert_eq!(counted.unsigned_abs(), total as u64);
    // The text of a number with ten thousand digits, a hundred thousand times, is read by no one.
    let by_first = "SELECT count(*) FROM redrive.count_letters_by('{}', 'payload')";
    assert!(scalar(&mut client, by_first) > 5);

    let exported = test.run("dlq export orders");
    assert_eq!(exported.out.lines().count(), total);
    for letter in listed.iter().step_by(4) {
        test.run(format!("dlq show {}", letter.id));
    }
    test.run("dlq list orders --json");

    let validators = Validators::new().check(|_: &Order| Ok::<(), String>(()));
    let validation = db.dlq().validate(&open(), &validators).unwrap();
    assert_eq!(validation.passed, 5);
    assert_eq!(validation.unchecked, odd.len() as u64);
    let merge = Edit::merge(r#"{"fixed": true}"#).unwrap();
    let edited = db.edits(&open(), &merge);
    let refused: u64 = edited.refused.iter().map(|error| error.letters).sum();
    assert!(edited.edited.len() >= 5 && refused >= 6, "{edited:?}");
    let answered = edited.edited.len() as u64 + refused + edited.unchanged;
    assert_eq!(answered, total as u64);
    let away = |_: &Letter| Err(Failure::retry("away"));
    let delivered = db.dlq().deliver(&open(), &away, &maria()).unwrap();
    assert_eq!(delivered.failed.len(), total);

    client.sql("SELECT redrive.set_policy('p', '{\"queue\": \"orders\"}', '1 hour', batch => 5)");
    let letters: i64 = client.ask("SELECT letters FROM redrive.trigger_schedule('p')", &[]);
    assert_eq!(letters, 5);
    db.drives(&open(), &RunOptions::new().unthrottled());
    finish(&queue, worker);
    assert_eq!(db.listed(&open()).len(), total);
    let ended = db.listed(&LetterFilter::new().limit(1000));
    assert!(ended.iter().all(|letter| letter.generation > 0));
}
