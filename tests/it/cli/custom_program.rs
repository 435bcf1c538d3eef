//! A program that has the commands of `redrive` and its own handlers.

use redrive_tests::prelude::*;

#[expect(dead_code, reason = "the test does not call its main")]
#[path = "../../../crates/redrive-cli/examples/own_verbs.rs"]
mod own_verbs;

/// Runs a command line of a program.
#[track_caller]
fn types(program: &Program, test: &TestDatabase, code: u8, line: &str) -> Ran {
    ran_by(program, test, &words(line)).exits_with(code)
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
    let handlers = Handlers::new()
        .handle(|_: &Job<Order>| Err(Failure::reject("of the handler")))
        .handle(|_: &Job<Finish>| Ok(()));
    let program = Program::new("shop").handlers(handlers);
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
fn handlers_of_every_kind_share_a_state() {
    type App = Arc<Mutex<Vec<String>>>;
    let (_test, queue) = TestDatabase::with_orders();
    queue.enqueue(&Order { number: 1 }).unwrap();
    queue.enqueue(&Finish {}).unwrap();
    queue.enqueue(&Hold {}).unwrap();
    let app = App::default();
    let see = |app: &App, kind: &str| app.lock().expect("no panic").push(kind.to_owned());
    let handlers = Handlers::with(Arc::clone(&app))
        .handle(move |app: &App, job: &Job<Order>| {
            see(app, job.kind());
            Ok(())
        })
        .handle(
            move |app: &App, job: &Job<Finish>, _: &mut Transaction<'_>| {
                see(app, job.kind());
                Ok(())
            },
        )
        .handle_batch(
            BatchOptions::new(2),
            move |app: &App, batch: &Batch<Hold>| {
                batch.jobs().iter().for_each(|job| see(app, job.kind()));
                Ok(())
            },
        );
    let kinds = ["finish", "hold", "order"];
    assert_eq!(handlers.kinds().collect::<Vec<_>>(), kinds);
    let worker = worker(&queue).handlers(&handlers).started();
    finish(&queue, worker);
    let mut seen = app.lock().unwrap().clone();
    seen.sort();
    assert_eq!(seen, kinds);
}
