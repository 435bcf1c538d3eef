//! Deadlines: a call returns in time even if the server accepts data and never replies.
//!
//! Every call of the library takes its connection and its deadline in the same place, so one of each
//! kind is enough. The error tells which deadline ended the call; no test reads a clock.

use std::cell::Cell;

use redrive::metrics::MetricsCollector;
use redrive::{Error, Result};
use redrive_tests::prelude::*;

/// The deadlines of the handles, short enough for a test.
const CONNECT: Duration = Duration::from_millis(800);
const USUAL: Duration = Duration::from_millis(600);
const BULK: Duration = Duration::from_millis(1200);
/// The number of concurrent calls, which mostly wait.
const AT_ONCE: usize = 16;

/// When the server becomes silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// Before there is a connection.
    Unconnected,
    /// With a connection, before the first reply.
    Connected,
    /// After this many more replies. The call may succeed, but it ends.
    Midway(i64),
}

/// The surroundings of a call.
struct Scene {
    db: Database,
    proxy: Proxy,
    when: When,
    /// Whether the preparation is over and the server is silent, or soon will be.
    begun: Cell<bool>,
}

impl Scene {
    fn hush(&self) {
        match self.when {
            When::Unconnected => self.proxy.set_mode(Mode::Silent),
            When::Connected => {
                self.connect();
                self.proxy.set_mode(Mode::Silent);
            }
            When::Midway(answers) => {
                self.connect();
                self.proxy.fall_silent_after(answers);
            }
        }
        self.begun.set(true);
    }

    /// Opens a connection. A busy machine may need several attempts within the short deadlines.
    fn connect(&self) {
        wait_until("a connection", SOON, || self.db.check_schema().is_ok());
    }

    /// A queue of its own, because another worker would claim its jobs.
    fn queue(&self, name: &str) -> Queue {
        Queue::new(&self.db, &format!("{name} {:?}", self.when)).expect("a valid name")
    }

    /// Stops a worker that runs a job when the server becomes silent.
    fn stop(&self, builder: WorkerBuilder, gate: &Gate) -> Result<()> {
        let worker = builder.start()?;
        gate.wait_for(1);
        self.hush();
        let stopped = worker.stop(Duration::from_millis(100));
        gate.open();
        stopped.map(drop)
    }
}

fn try_open(url: &str) -> Result<Database> {
    let db = Database::builder(url).connect_timeout(CONNECT);
    db.call_timeout(USUAL).bulk_timeout(BULK).open()
}

type Call = fn(&Scene) -> Result<()>;

/// Calls that begin with their first statement.
const PLAIN: &[(&str, Call)] = &[
    ("check_schema", |scene| scene.db.check_schema()),
    ("migrate", |scene| scene.db.migrate().map(drop)),
    ("enqueue", |scene| {
        let order = Order { number: 5 };
        scene.queue("orders").enqueue(&order).map(drop)
    }),
    // By COPY, in a transaction of many answers.
    ("enqueue many", |scene| {
        let orders = Order::up_to(1500);
        scene.queue("orders").enqueue_many(&orders).map(drop)
    }),
    ("enqueue chunks", |scene| {
        let mut chunks = vec![vec![new_order(5)]];
        scene.queue("orders").enqueue_chunks(|| Ok(chunks.pop()))
    }),
    ("each letter", |scene| {
        let (dlq, see) = (scene.db.dlq(), |_: &Letter| Ok::<(), Error>(()));
        dlq.for_each(&of_orders(), see).map(drop)
    }),
    ("redrive", |scene| {
        let (dlq, one) = (scene.db.dlq(), of_orders().limit(1));
        dlq.redrive(&one, &maria()).map(drop)
    }),
    ("deliver", |scene| {
        let (dlq, sink) = (scene.db.dlq(), |_: &Letter| Err(Failure::retry("no")));
        dlq.deliver(&of_orders(), &sink, &maria()).map(drop)
    }),
];

/// Calls with a preparation, which say themselves when the server becomes silent.
const STAGED: &[(&str, Call)] = &[
    ("a step of a run", |scene| {
        // A new letter for each preparation: one that missed its deadline may have sent the last one.
        let position = Uuid::new_v4().to_string();
        let failure = ForeignFailure::new("a test", position, "steps", "order", *b"{}");
        scene.db.dlq().capture(&failure)?;
        let steps = LetterFilter::new().queue("steps");
        let runs = scene.db.dlq().runs();
        let run = runs.start(&steps, &RunOptions::new(), &maria())?;
        let (_, mut driver) = run.expect("a letter to drive");
        scene.hush();
        loop {
            driver.step()?;
        }
    }),
    ("start a worker", |scene| {
        let worker = worker(&scene.queue("start")).handle(|_: &Job<Order>| Ok(()));
        scene.hush();
        worker.start().map(drop)
    }),
    ("stop a worker", |scene| {
        let (queue, gate) = (scene.queue("stop"), Gate::new());
        queue.enqueue(&Hold {})?;
        scene.stop(worker(&queue).handle(gate.handler()), &gate)
    }),
    // A handler whose transaction hangs, and its slot with it.
    ("stop a worker in a transaction", |scene| {
        let (queue, gate) = (scene.queue("transaction"), kept::<Gate>());
        queue.enqueue(&Finish {})?;
        let handler = move |_: &Job<Finish>, tx: &mut Transaction<'_>| {
            gate.pass();
            tx.batch_execute("SELECT 1").map_err(Failure::from)
        };
        scene.stop(worker(&queue).handle(handler), gate)
    }),
];

/// Makes a call while the server becomes silent, and returns what is wrong with its answer.
fn play(url: &str, when: When, is_staged: bool, (name, call): (&str, Call)) -> Option<String> {
    let mut answer = None;
    // On a busy machine, the preparation may miss the short deadlines before the server is silent.
    wait_until("the preparation of a call", SOON, || {
        let proxy = Proxy::to(url);
        let Ok(db) = try_open(proxy.url()) else {
            return false;
        };
        let begun = Cell::new(false);
        let scene = Scene {
            db,
            proxy,
            when,
            begun,
        };
        if !is_staged {
            scene.hush();
        }
        let answered = call(&scene);
        answer = scene.begun.get().then_some(answered);
        answer.is_some()
    });
    let is_told = |error: &Error| {
        let told = format!("{error:?}");
        // The pool gives up after the time to connect.
        let is_in_time = told.contains("could not get a connection") || names_deadline(&told);
        error.is_unavailable() && is_in_time
    };
    match (when, answer.expect("the call was made")) {
        (When::Midway(_), _) => None,
        (_, Err(error)) if is_told(&error) => None,
        (_, answer) => Some(format!("{name}, {when:?}: {answer:?}")),
    }
}

/// Whether an error names a deadline of the handles, or what a call of several steps had left for one: no default is as
/// short.
fn names_deadline(told: &str) -> bool {
    let Some((_, named)) = told.split_once("within ") else {
        return false;
    };
    let end = named.find(|c: char| !c.is_alphanumeric() && c != '.');
    let named = &named[..end.unwrap_or(named.len())];
    let seconds = named.strip_suffix('s').map(str::parse::<f64>);
    match seconds {
        Some(Ok(seconds)) => seconds <= BULK.as_secs_f64(),
        _ => named.ends_with("ms") || named.ends_with("µs"),
    }
}

/// Makes a row of each kind, so that every call finds one.
fn furnish(queue: &Queue) {
    letters(queue, 3);
    queue.enqueue(&Order { number: 4 }).unwrap();
    let runs = queue.database().dlq().runs();
    let made = runs.create(&of_orders(), &RunOptions::new(), &maria());
    made.unwrap().expect("letters");
}

/// Plays many cases at once, and fails with what they find.
fn all_at_once<T: Copy + Send>(cases: &[T], find: impl Fn(T) -> Option<String> + Sync) {
    let chunks = cases.chunks(AT_ONCE);
    let found = chunks.flat_map(|some| at_once(some.len(), |at| some[at], &find));
    let troubles: Vec<String> = found.flatten().collect();
    assert!(troubles.is_empty(), "\n{}\n", troubles.join("\n"));
}

#[test]
fn a_call_of_each_kind_returns_within_its_deadline_when_the_server_is_silent() {
    let test = TestDatabase::migrated();
    furnish(&test.queue("orders"));
    let midway = [1, 3].map(When::Midway);
    let whens = [When::Unconnected, When::Connected, midway[0], midway[1]];
    let plain = PLAIN.iter().map(|call| (*call, false));
    let all = plain.chain(STAGED.iter().map(|call| (*call, true)));
    let all = all.flat_map(|call| whens.map(|when| (call, when)));
    let all: Vec<_> = all.collect();
    all_at_once(&all, |((call, is_staged), when)| {
        play(test.url(), when, is_staged, call)
    });
}

#[test]
fn opening_and_collecting_return_within_their_deadlines_when_the_server_is_silent() {
    let test = TestDatabase::migrated();
    let proxy = Proxy::to(test.url());
    let db = redrive::connect(proxy.url()).unwrap();
    proxy.set_mode(Mode::Silent);
    let error = try_open(proxy.url()).expect_err("the server is silent");
    assert!(error.is_unavailable(), "{error:?}");
    // It returns no error: it reports that the database is down.
    let collector = MetricsCollector::new(&db).deadline(USUAL);
    let families = prometheus::core::Collector::collect(&collector);
    let up = families.iter().find(|family| family.name() == "redrive_up");
    let up = up.expect("it reports whether the database is up");
    assert!(up.get_metric()[0].get_gauge().get_value() < 0.5);
}

/// One command of each kind: a call, a list, batches, a file, and those that wait for something.
const COMMANDS: &[&str] = &[
    "migrate",
    "enqueue orders order {}",
    "enqueue orders order --file /dev/null",
    "dlq",
    "dlq redrive orders --yes",
    "dlq runs watch 1 --max-wait 0s",
    "dlq deliver orders --exec false --yes",
    "dlq export orders",
    "work orders --exec true --drain",
    "repair",
];

#[test]
fn a_command_of_each_kind_exits_in_time_when_the_server_is_silent() {
    let test = TestDatabase::migrated();
    furnish(&test.queue("orders"));
    let whens = [None, Some(2), Some(4)];
    let all = COMMANDS.iter();
    let all = all.flat_map(|command| whens.map(|after| (*command, after)));
    all_at_once(&all.collect::<Vec<_>>(), |(command, after)| {
        let proxy = Proxy::to(test.url());
        match after {
            None => proxy.set_mode(Mode::Silent),
            Some(answers) => proxy.fall_silent_after(answers),
        }
        let url = format!("{}?connect_timeout=1", proxy.url());
        let globals = ["--database-url", &url, "--no-wait", "--timeout", "400ms"];
        let words: Vec<&str> = command.split(' ').collect();
        let ran = ran_alone(&[&globals[..], &words].concat());
        let is_told = ran.code == ExitCode::from(2) && ran.err.contains("within ");
        // With some answers it may succeed, but it ends.
        (after.is_none() && !is_told)
            .then(|| format!("{command}: {:?} {} {}", ran.code, ran.out, ran.err))
    });
}
