//! Bad input: a clear error at once, and no job is lost.

use std::error::Error;
use std::fmt;

use redrive::limits::WORKER_CONNECTIONS;
use redrive_tests::prelude::*;

#[test]
fn every_table_accepts_each_name_that_the_library_accepts() {
    let (_test, db) = TestDatabase::opened();
    let wide = "é".repeat(100);
    let good = ["q", "a b", "größe", "日本語", "a'b\"c\\d", "{}", "$1"];
    // Blanks and controls of Unicode.
    let odd = [
        "\u{a0}q",
        "\u{2003}q",
        "q\u{200b}",
        "\u{85}q",
        "q\u{9f}",
        "\u{feff}q",
        "\u{202e}q",
        "q\u{ad}",
    ];
    for &name in good.iter().chain([&&*wide]).chain(&odd) {
        let queue = match Queue::new(&db, name) {
            Err(_) if odd.contains(&name) => continue,
            queue => queue.unwrap_or_else(|error| panic!("{name:?}: {error:?}")),
        };
        put(&queue, NewJob::raw(name, "{}").unwrap());
        let worker = worker(&queue).handle_any(|_| Err(Failure::reject("no")));
        finish(&queue, worker.started());
        assert_eq!(in_state(&queue, LetterState::Open), 1, "{name:?}");
    }
}

/// An error that panics whatever is done with it.
#[derive(Debug)]
struct Nasty;

impl Drop for Nasty {
    fn drop(&mut self) {
        panic!("in Drop");
    }
}

impl fmt::Display for Nasty {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("in Display");
    }
}

impl Error for Nasty {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        panic!("in source");
    }
}

/// Returns the letter of a job whose handler fails with this.
fn letter_of(
    test: &TestDatabase,
    fail: impl Fn() -> Result<(), Failure> + Send + Sync + 'static,
) -> Letter {
    let queue = test.queue("orders");
    let id: JobId = put(&queue, new_order(1).max_attempts(2));
    let worker = worker(&queue)
        .handle(move |_: &Job<Order>| fail())
        // No handler returns one, so the rule looks at every cause.
        .options(HandlerOptions::new().reject_on::<fmt::Error>())
        .started();
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.dead, counts.retried, counts.lost), (1, 1, 0));
    queue.letter(id)
}

#[test]
fn no_error_text_can_make_a_settle_fail() {
    let test = TestDatabase::migrated();
    let nul = letter_of(&test, || {
        Err(Failure::retry("a\0b").class("c\0d").detail("e\0f"))
    });
    assert_eq!(&*nul.error_message, "a\u{fffd}b");
    assert_eq!(&*nul.error_class, "c\u{fffd}d");
    assert_eq!(nul.error_detail.as_deref(), Some("e\u{fffd}f"));
    assert_eq!(nul.history[0].error_message.as_deref(), Some("a\u{fffd}b"));

    let huge = letter_of(&test, || {
        let (xs, es) = ("x".repeat(25_000_000), "é".repeat(12_500_000));
        let failure = Failure::retry(format!("head{xs}\0é{es}tail"));
        let failure = failure.class("head\0tail".repeat(1000));
        Err(failure.detail(format!("head{}tail", "é".repeat(40_000))))
    });
    let detail = huge.error_detail.as_ref().expect("a detail");
    for text in [&huge.error_message, &huge.error_class, detail] {
        assert!(text.len() <= 65536, "{} bytes", text.len());
        assert!(text.starts_with("head") && text.ends_with("tail"));
        has(text, "[... cut ...]");
    }

    let silent = letter_of(&test, || Err(Failure::from(Nasty)));
    assert_eq!(silent.error_message, "an error whose Display panics");

    let odd = letter_of(&test, || {
        Err(Failure::retry("\u{feff}\u{202e}\u{1b}[2J\r\n\u{ffff}").class(""))
    });
    assert_eq!(odd.error_message, "\u{feff}\u{202e}\u{1b}[2J\r\n\u{ffff}");

    let panicked = letter_of(&test, || panic!("a\0b{}", "x".repeat(1_000_000)));
    assert_eq!(panicked.error_class, "panic");
    assert!(panicked.error_message.contains("a\u{fffd}b"));
}

#[test]
fn a_missing_schema_is_a_clear_error_everywhere() {
    let test = TestDatabase::empty();
    let queue = test.queue("orders");
    let db = queue.database();
    let (order, all) = (Order { number: 1 }, LetterFilter::new());
    let operator = Operator::default().reason("why");
    let foreign = ForeignFailure::new("s", "p", "q", "k", b"".as_slice());
    let start = worker(&queue).handle(|_: &Job<Order>| Ok(())).start();
    let many = queue.enqueue_many(&Order::up_to(2000));
    let within = queue.enqueue_in(&mut test.client(), &order);
    let answers = [
        ("enqueue", queue.enqueue(&order).map(drop)),
        ("enqueue many", many.map(drop)),
        ("enqueue in", within.map(drop)),
        ("start", start.map(drop)),
        ("is drained", queue.is_drained().map(drop)),
        ("letters", db.dlq().list(&all).map(drop)),
        ("redrive", db.dlq().redrive(&all, &operator).map(drop)),
        ("discard", db.dlq().discard(&all, &operator).map(drop)),
        ("prune", db.dlq().prune(Duration::ZERO, &operator).map(drop)),
        ("stats", db.admin().stats(None).map(drop)),
        ("job", db.admin().job(JobId::new(1)).map(drop)),
        (
            "cancel",
            db.admin().jobs().cancel(JobId::new(1), &maria()).map(drop),
        ),
        ("capture", db.dlq().capture(&foreign).map(drop)),
        ("check", db.check_schema()),
    ];
    for (what, answer) in answers {
        let error = answer.expect_err(what);
        assert!(error.is_migration_required(), "{what}: {error:?}");
        has(format!("{what}: {error}"), "redrive migrate");
    }
}

#[test]
fn a_misconfigured_worker_does_not_start() {
    let (test, queue) = TestDatabase::with_orders();
    let one = || worker(&queue).handle(|_: &Job<Order>| Ok(()));
    let batch = |options| worker(&queue).handle_batch(options, |_: &Batch<Order>| Ok(()));
    for connections in [0, 10_001, u32::MAX] {
        let refused = Database::builder(test.url()).connections(connections);
        assert!(refused.open().is_err_and(|error| error.is_invalid()));
    }
    let few = Database::builder(test.url()).connections(WORKER_CONNECTIONS - 1);
    let few = Queue::new(&few.open().unwrap(), "orders").unwrap();
    let few = worker(&few).handle(|_: &Job<Order>| Ok(()));
    let (plain, with) = (HandlerOptions::new, |options| one().options(options));
    let any = |options| worker(&queue).handle_any(|_| Ok(())).options(options);
    let needs = |name: &str| with(plain().dependency(name));
    let ruled = |name: &str| with(plain().outage_on::<fmt::Error>(name));
    let twice = one().handle_any(|_| Ok(())).handle_any(|_| Ok(()));
    let long = BatchOptions::new(9).linger(Duration::from_secs(61));
    let both = batch(BatchOptions::new(9)).handle(|_: &Job<Order>| Ok(()));
    let orders = Handlers::new().handle(|_: &Job<Order>| Ok(()));
    let unknown = worker(&queue).handlers(&orders.only(&["order", "invoice"]));
    for (bad, why) in [
        (worker(&queue), "no handler"),
        (ruled("queue:orders"), "`queue:` is reserved"),
        (ruled("a\tb"), "dependency name"),
        (needs(""), "dependency name `` is empty"),
        (needs("queue:orders"), "`queue:` is reserved"),
        (one().breaker_threshold(0), "breaker threshold of 0"),
        (one().breaker_threshold(1001), "breaker threshold of 1001"),
        (one().flood_guard(0, SOON), "flood guard of 0;"),
        (one().flood_guard(1, Duration::ZERO), "guard of 0ns"),
        (one().handle(|_: &Job<Order>| Ok(())), "two handlers"),
        (twice, "handle_any was called twice"),
        (one().version("a\0b"), "control characters"),
        (one().slots(0), "slots of 0;"),
        (one().slots(10_001), "slots of 10001;"),
        (
            any(plain().dependency("gateway")),
            "a dependency to the handler of any kind",
        ),
        (worker(&queue).options(plain()), "options follow no handler"),
        (with(plain()).options(plain()), "options follow no handler"),
        (batch(BatchOptions::new(0)), "`order` of 0;"),
        (batch(BatchOptions::new(1001)), "`order` of 1001;"),
        (batch(long), "linger of kind `order` of 61s"),
        (both, "kind `order` has two handlers"),
        (unknown, "no handler of kind `invoice`"),
        (
            one().keep_done(Duration::ZERO),
            "time to keep finished jobs of 0ns",
        ),
        (
            with(plain().keep_done(31 * DAY)),
            "time to keep finished jobs of 2678400s",
        ),
        (one().lease(Duration::from_secs(1)), "lease of 1s"),
        (one().lease(Duration::MAX), "lease of"),
        (one().poll_interval(Duration::ZERO), "poll interval of 0ns"),
        (one().deadline(Duration::ZERO), "deadline of 0ns"),
        (few, "4 connections"),
    ] {
        let error = bad.start().expect_err(why);
        assert!(error.is_invalid(), "{why}: {error:?}");
        has(&error, why);
    }
    assert_eq!(test.client().count("workers"), 0, "nothing was begun");
    stop(one().started());
}
