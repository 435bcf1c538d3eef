//! A program that has the commands of `redrive` and its own handlers.

use std::sync::{Arc, Mutex};

use redrive::dlq::{DeathCause, LetterFilter, LetterState};
use redrive::{Batch, BatchOptions, Failure, Handlers, Job, NewJob, Operator, Payload};
use redrive_cli::Program;
use redrive_tests::{Begin, Order, TestDatabase, drained, letters_in, ran, ran_by, stop, worker};
use serde::{Deserialize, Serialize};

#[expect(dead_code, reason = "the test does not call its main")]
#[path = "../../../crates/redrive-cli/examples/own_verbs.rs"]
mod own_verbs;

#[test]
fn the_commands_use_the_handlers_validators_and_sinks_of_the_program() {
    let test = TestDatabase::migrated();
    let shop = own_verbs::program();
    let run = |arguments: &[&str]| ran_by(&shop, &test, arguments);
    run(&[
        "enqueue",
        "billing",
        "invoice",
        r#"{"order": 7, "cents": -1}"#,
    ])
    .exits_with(0);
    run(&[
        "enqueue",
        "billing",
        "invoice",
        r#"{"order": 8, "cents": 1}"#,
    ])
    .exits_with(0);
    let worked = run(&["work", "billing", "--drain", "--json"]).exits_with(0);
    assert_eq!(
        (&worked.lines()[0]["done"], &worked.lines()[0]["dead"]),
        (&1.into(), &1.into())
    );
    let db = test.open();
    let letter = db
        .dlq()
        .list(&LetterFilter::new().queue("billing"))
        .unwrap()
        .remove(0);
    assert_eq!(
        (
            letter.cause,
            &*letter.error_class,
            letter.version.as_deref()
        ),
        (DeathCause::Rejected, "BadInvoice", Some("1.4.2"))
    );

    let output = run(&["dlq", "validate", "billing"]).exits_with(1);
    assert!(
        output.out.contains("0 would pass, 1 fails")
            && output.out.contains("order 7 costs -1 cents"),
        "{}",
        output.out
    );
    run(&[
        "dlq",
        "edit",
        "billing",
        "--merge",
        r#"{"cents": 1}"#,
        "--yes",
    ])
    .exits_with(0);
    run(&["dlq", "validate", "billing"]).exits_with(0);
    let unknown = run(&["dlq", "deliver", "billing", "--sink", "tax", "--yes"]).exits_with(2);
    assert!(
        unknown.err.contains("expected one of accounting"),
        "{}",
        unknown.err
    );
    run(&["dlq", "deliver", "billing", "--sink", "accounting", "--yes"]).exits_with(0);
    assert_eq!(letters_in(&db, "billing", LetterState::Recovered), 1);
    let sink = "SELECT about ->> 'sink' FROM redrive.audit WHERE verb = 'deliver'";
    let row = test.client().query_one(sink, &[]).unwrap();
    assert_eq!(row.get::<_, &str>(0), "accounting");

    let help = run(&["--help"]).exits_with(0);
    assert!(help.out.contains("Usage: shop-dlq"), "{}", help.out);
    assert_eq!(run(&["--version"]).exits_with(0).out, "shop-dlq 1.4.2\n");
}

#[test]
fn the_redrive_program_has_no_handlers() {
    let test = TestDatabase::migrated();
    let output = ran(&test, &["work", "billing", "--drain"]).exits_with(2);
    assert!(output.err.contains("--exec COMMAND"), "{}", output.err);
}

#[test]
fn a_program_can_work_on_some_kinds_or_run_a_command_instead() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let program = Program::new("shop")
        .handle(|_: &Job<Order>| Err(Failure::reject("the handler's")))
        .handle(|_: &Job<redrive_tests::Finish>| Ok(()));
    let run = |arguments: &[&str]| ran_by(&program, &test, arguments).exits_with(0);
    queue.enqueue(&Order { number: 1 }).unwrap();
    run(&[
        "work",
        "orders",
        "--drain",
        "--exec",
        "echo \"the command's\" >&2; exit 65",
    ]);
    let db = queue.database();
    let message = || {
        db.dlq().list(&LetterFilter::new().queue("orders")).unwrap()[0]
            .error_message
            .clone()
    };
    assert_eq!(message(), "the command's");
    db.dlq()
        .redrive(&LetterFilter::new(), &Operator::default())
        .unwrap();
    run(&["work", "orders", "--drain", "--kind", "order"]);
    assert_eq!(message(), "the handler's");
}

#[test]
fn one_set_of_handlers_serves_several_workers() {
    let test = TestDatabase::migrated();
    let handlers = Handlers::new()
        .handle(|_: &Job<Order>| Ok(()))
        .handle_in_transaction(
            |_: &Job<redrive_tests::Finish>, tx: &mut postgres::Transaction<'_>| {
                tx.batch_execute("SELECT 1")?;
                Ok(())
            },
        );
    assert_eq!(handlers.kinds().collect::<Vec<_>>(), ["finish", "order"]);
    for name in ["a", "b"] {
        let queue = test.queue(name);
        queue.enqueue_many(&Order::up_to(20)).unwrap();
        queue.enqueue(&redrive_tests::Finish {}).unwrap();
        let worker = worker(&queue).handlers(&handlers).start().unwrap();
        drained(&queue);
        assert_eq!(stop(worker).stats.dead, 0);
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
        queue
            .enqueue_job(NewJob::raw(kind, &payload).unwrap())
            .unwrap();
    }
    queue.enqueue(&Order { number: 1 }).unwrap();
    let app = Arc::new(App {
        prefix: "order ",
        seen: Mutex::default(),
    });
    let handlers = Handlers::with(Arc::clone(&app))
        .handle(|app: &Arc<App>, job: &Job<Order>| plain(app, job))
        .handle_in_transaction(
            |app: &Arc<App>, job: &Job<OfA>, _: &mut postgres::Transaction<'_>| {
                app.see(job.payload().number);
                Ok(())
            },
        )
        .handle_batch(
            BatchOptions::new(2),
            |app: &Arc<App>, batch: &Batch<OfB>| {
                batch.iter().for_each(|job| app.see(job.payload().number));
                Ok(())
            },
        );
    assert_eq!(handlers.kinds().collect::<Vec<_>>(), ["a", "b", "order"]);
    let worker = worker(&queue).handlers(&handlers).started();
    drained(&queue);
    stop(worker);
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
    assert!(
        error.to_string().contains("no handler of kind `invoice`"),
        "{error}"
    );
}
