//! A program that has the commands of `redrive` and its own handlers.

use redrive_tests::prelude::*;

#[expect(dead_code, reason = "the test does not call its main")]
#[path = "../../../crates/redrive-cli/examples/own_verbs.rs"]
mod own_verbs;

/// Runs a command line of a program.
#[track_caller]
fn types(program: &Program, test: &TestDatabase, code: u8, line: &str) -> Ran {
    let words = words(line);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    ran_by(program, test, &words).exits_with(code)
}

#[test]
fn the_commands_use_the_handlers_validators_and_sinks_of_the_program() {
    let test = TestDatabase::migrated();
    let shop = own_verbs::program();
    let run = |code, line| types(&shop, &test, code, line);
    run(0, r#"enqueue billing invoice '{"order": 7, "cents": -1}'"#);
    run(0, r#"enqueue billing invoice '{"order": 8, "cents": 1}'"#);
    run(0, "work billing --drain --json").holds(&json!({"done": 1, "dead": 1}));
    let db = test.open();
    let letter = db.listed(&LetterFilter::new().queue("billing")).remove(0);
    assert_eq!(letter.cause, DeathCause::Rejected);
    assert_eq!(&*letter.error_class, "BadInvoice");
    assert_eq!(letter.version.as_deref(), Some("1.4.2"));

    run(1, "dlq validate billing")
        .shows("0 would pass, 1 fails")
        .shows("order 7 costs -1 cents");
    run(0, r#"dlq edit billing --merge '{"cents": 1}' --yes"#);
    run(0, "dlq validate billing");
    run(2, "dlq deliver billing --sink tax --yes").tells("expected one of accounting");
    run(0, "dlq deliver billing --sink accounting --yes");
    assert_eq!(letters_in(&db, "billing", LetterState::Recovered), 1);
    let sink = "SELECT about ->> 'sink' FROM redrive.audit WHERE verb = 'deliver'";
    assert_eq!(test.client().ask::<String>(sink, &[]), "accounting");

    let file = TempFile::of("{");
    let capture = format!("dlq capture s 1 billing invoice {file}");
    run(0, &capture);
    run(1, "dlq redrive billing").shows("`shop-dlq dlq edit` replaces them");
    let line = run(1, "dlq redrive billing --json").json();
    let include = line["skipped"][0]["include"].as_str();
    assert_eq!(include, Some("`shop-dlq dlq edit` replaces them"));
    // The words of others stay as they are.
    let told = "redrive dlq list";
    let pause = format!("queue pause billing --reason '{told}'");
    run(0, &pause);
    run(0, "dlq")
        .shows(told)
        .shows("shop-dlq queue resume billing");
    run(0, "--help").shows("Usage: shop-dlq");
    run(0, "--version").prints("shop-dlq 1.4.2\n");
}

#[test]
fn a_program_can_work_on_some_kinds_or_run_a_command_instead() {
    let (test, queue) = TestDatabase::with_orders();
    let program = Program::new("shop")
        .handle(|_: &Job<Order>| Err(Failure::reject("of the handler")))
        .handle(|_: &Job<Finish>| Ok(()));
    queue.enqueue(&Order { number: 1 }).unwrap();
    let message = || queue.listed(&of_orders())[0].error_message.clone();
    let command = "work orders --drain --exec 'echo of the command >&2; exit 65'";
    types(&program, &test, 0, command);
    assert_eq!(message(), "of the command");
    queue.redrives(&LetterFilter::new());
    types(&program, &test, 0, "work orders --drain --kind order");
    assert_eq!(message(), "of the handler");
}

#[test]
fn one_set_of_handlers_serves_several_workers() {
    let test = TestDatabase::migrated();
    let handlers = Handlers::new()
        .handle(|_: &Job<Order>| Ok(()))
        .handle(|_: &Job<Finish>, tx: &mut Transaction<'_>| Ok(tx.batch_execute("SELECT 1")?));
    assert_eq!(handlers.kinds().collect::<Vec<_>>(), ["finish", "order"]);
    for name in ["a", "b"] {
        let queue = test.queue(name);
        queue.enqueue_many(&Order::up_to(20)).unwrap();
        queue.enqueue(&Finish {}).unwrap();
        let worker = worker(&queue).handlers(&handlers).started();
        assert_eq!(finish(&queue, worker).stats.dead, 0);
    }
    let twice = handlers.handle(|_: &Job<Order>| Ok(()));
    let refused = worker(&test.queue("a")).handlers(&twice).start();
    assert!(refused.expect_err("two of a kind").is_invalid());
}

/// What handlers share.
struct App {
    prefix: &'static str,
    seen: Mutex<Vec<String>>,
}

impl App {
    fn see(&self, number: i64) {
        let mut seen = self.seen.lock().expect("no panic");
        seen.push(format!("{}{number}", self.prefix));
    }
}

fn plain(app: &App, job: &Job<Order>) -> Result<(), Failure> {
    job.check_cancelled()?;
    app.see(job.payload().number);
    Ok(())
}

#[test]
fn handlers_of_every_kind_share_a_state() {
    let (_test, queue) = TestDatabase::with_orders();
    for (kind, number) in [("a", 2), ("b", 3)] {
        let payload = format!("{{\"number\": {number}}}");
        put(&queue, NewJob::raw(kind, &payload).unwrap());
    }
    queue.enqueue(&Order { number: 1 }).unwrap();
    let app = Arc::new(App {
        prefix: "order ",
        seen: Mutex::default(),
    });
    let handlers = Handlers::with(Arc::clone(&app))
        .handle(|app: &Arc<App>, job: &Job<Order>| plain(app, job))
        .handle(|app: &Arc<App>, job: &Job<OfA>, _: &mut Transaction<'_>| {
            app.see(job.payload().number);
            Ok(())
        })
        .handle_batch(
            BatchOptions::new(2),
            |app: &Arc<App>, batch: &Batch<OfB>| {
                batch.iter().for_each(|job| app.see(job.payload().number));
                Ok(())
            },
        );
    assert_eq!(handlers.kinds().collect::<Vec<_>>(), ["a", "b", "order"]);
    let worker = worker(&queue).handlers(&handlers).started();
    finish(&queue, worker);
    let mut seen = app.seen.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen, ["order 1", "order 2", "order 3"]);
}

#[derive(Serialize, Deserialize)]
struct OfA {
    number: i64,
}

impl Payload for OfA {
    const KIND: &'static str = "a";
}

#[derive(Serialize, Deserialize)]
struct OfB {
    number: i64,
}

impl Payload for OfB {
    const KIND: &'static str = "b";
}

#[test]
fn a_worker_of_kinds_without_a_handler_does_not_start() {
    let (_test, queue) = TestDatabase::with_orders();
    let handlers = Handlers::new().handle(|_: &Job<Order>| Ok(()));
    let some = handlers.only(&["order", "invoice"]);
    assert_eq!(some.kinds().collect::<Vec<_>>(), ["order"]);
    let refused = worker(&queue).handlers(&some).start();
    let error = refused.map(drop).expect_err("a kind without a handler");
    has(&error, "no handler of kind `invoice`");
}
