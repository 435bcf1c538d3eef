//! Deadlines: a call returns in time even if the server accepts data and never replies.
//!
//! Every call of the library takes its connection and its deadline in the same place, so one of each
//! kind is enough. The error tells which deadline ended the call; no test reads a clock.

use std::cell::Cell;
use std::collections::VecDeque;

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
    Database::builder(url)
        .connect_timeout(CONNECT)
        .call_timeout(USUAL)
        .bulk_timeout(BULK)
        .open()
}

const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

type Call = fn(&Scene) -> Result<()>;

/// Calls that begin with their first statement, and the deadline of each.
const PLAIN: &[(&str, Duration, Call)] = &[
    ("check_schema", USUAL, |scene| scene.db.check_schema()),
    ("migrate", USUAL, |scene| scene.db.migrate().map(drop)),
    ("is_drained", USUAL, |scene| {
        scene.queue("orders").is_drained().map(drop)
    }),
    ("enqueue", USUAL, |scene| {
        let order = Order { number: 5 };
        scene.queue("orders").enqueue(&order).map(drop)
    }),
    ("enqueue with a key", USUAL, |scene| {
        let keyed = NewJob::new(&Order { number: 5 })?.unique("k");
        scene.queue("orders").enqueue_job(keyed).map(drop)
    }),
    // By COPY, in a transaction of many answers.
    ("enqueue many", USUAL, |scene| {
        let orders = Order::up_to(1500);
        scene.queue("orders").enqueue_many(&orders).map(drop)
    }),
    ("cancel", USUAL, |scene| {
        scene.db.admin().cancel(JobId::new(1 << 40)).map(drop)
    }),
    ("list letters", BULK, |scene| {
        scene.db.dlq().list(&of_orders()).map(drop)
    }),
    ("each letter", BULK, |scene| {
        let (dlq, see) = (scene.db.dlq(), |_: &Letter| Ok::<(), Error>(()));
        dlq.for_each(&of_orders(), see).map(drop)
    }),
    ("capture many", BULK, |scene| {
        let one = ForeignFailure::new("kafka", "0/1", "orders", "order", *b"{}");
        scene.db.dlq().capture_many([&one]).map(drop)
    }),
    ("redrive", BULK, |scene| {
        let (dlq, one) = (scene.db.dlq(), of_orders().limit(1));
        dlq.redrive(&one, &maria()).map(drop)
    }),
    ("edit", BULK, |scene| {
        let (dlq, edit) = (scene.db.dlq(), Edit::merge(r#"{"number": 7}"#)?);
        let edited = dlq.edit_while(&of_orders(), &edit, &maria(), |_| GO_ON);
        edited.map(drop)
    }),
    ("deliver", BULK, |scene| {
        let (dlq, sink) = (scene.db.dlq(), |_: &Letter| Err(Failure::retry("no")));
        dlq.deliver(&of_orders(), &sink, &maria()).map(drop)
    }),
    ("change jobs", BULK, |scene| {
        let (jobs, all) = (scene.db.admin().jobs(), JobFilter::new());
        jobs.change(&all, JobChange::RunNow, &maria()).map(drop)
    }),
    ("stats", BULK, |scene| {
        scene.db.admin().stats(None).map(drop)
    }),
];

/// Calls with a preparation, which say themselves when the server becomes silent.
const STAGED: &[(&str, Duration, Call)] = &[
    ("a step of a run", BULK, |scene| {
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
    ("start a worker", USUAL, |scene| {
        let worker = worker(&scene.queue("start")).handle(|_: &Job<Order>| Ok(()));
        scene.hush();
        worker.start().map(drop)
    }),
    ("drain a worker", USUAL, |scene| {
        let queue = scene.queue("drain");
        let worker = worker(&queue).handle(|_: &Job<Order>| Ok(())).start()?;
        scene.hush();
        worker.drain(Duration::from_mins(10)).map(drop)
    }),
    ("stop a worker", USUAL, |scene| {
        let (queue, gate) = (scene.queue("stop"), Gate::new());
        queue.enqueue(&Hold {})?;
        scene.stop(worker(&queue).handle(gate.handler()), &gate)
    }),
    // A handler whose transaction hangs, and its slot with it.
    ("stop a worker in a transaction", USUAL, |scene| {
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
fn play(url: &str, when: When, name: &str, limit: Duration, call: Call) -> Option<String> {
    let is_staged = STAGED.iter().any(|(staged, _, _)| *staged == name);
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
    if let When::Midway(_) = when {
        return None;
    }
    let Err(error) = answer.expect("the call was made") else {
        return Some(format!("{name}, {when:?}: all is well, it says"));
    };
    let told = format!("{error:?}");
    // The pool gives up after the time to connect.
    let longest = limit.max(USUAL).max(CONNECT);
    let is_in_time = told.contains("could not get a connection")
        || deadline(&told).is_some_and(|deadline| deadline <= longest);
    (!error.is_unavailable() || !is_in_time).then(|| format!("{name}, {when:?}: {told}"))
}

/// Returns the deadline that an error names. A call of several steps names what was left for one.
fn deadline(told: &str) -> Option<Duration> {
    let (_, named) = told.split_once("within ")?;
    let named = named.split(['"', ' ', ')', ',', ';']).next()?;
    let seconds = match named.strip_suffix("ms") {
        Some(milliseconds) => milliseconds.parse::<f64>().ok()? / 1000.0,
        None => named.strip_suffix('s')?.parse().ok()?,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

/// Makes a row of each kind, so that every call finds one.
fn furnish(queue: &Queue) {
    letters(queue, 3);
    queue.enqueue(&Order { number: 4 }).unwrap();
    let rule = RetentionRule::archive(LetterState::Recovered, Duration::from_hours(720));
    let dlq = queue.database().dlq();
    dlq.retention().set(&rule, &maria()).unwrap();
    let (runs, options) = (dlq.runs(), RunOptions::new());
    let made = runs.create(&of_orders(), &options, &maria());
    made.unwrap().expect("letters");
}

/// Runs all of these at once and fails with what they find.
fn all_at_once<T: Send>(of: impl Iterator<Item = T>, find: impl Fn(T) -> Option<String> + Sync) {
    let waiting: Mutex<VecDeque<T>> = Mutex::new(of.collect());
    let troubles = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().pop_front();
                    let Some(next) = next else { return };
                    let found = find(next);
                    troubles.lock().unwrap().extend(found);
                }
            });
        }
    });
    let troubles = troubles.into_inner().unwrap();
    assert!(troubles.is_empty(), "\n{}\n", troubles.join("\n"));
}

#[test]
fn a_call_of_each_kind_returns_within_its_deadline_when_the_server_is_silent() {
    let test = TestDatabase::migrated();
    furnish(&test.queue("orders"));
    let midway = [1, 3].map(When::Midway);
    let whens = [When::Unconnected, When::Connected, midway[0], midway[1]];
    let all = PLAIN.iter().chain(STAGED);
    let all = all.flat_map(|call| whens.map(|when| (call, when)));
    all_at_once(all, |((name, limit, call), when)| {
        play(test.url(), when, name, *limit, *call)
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
    "migrate --check",
    "enqueue orders order {}",
    "enqueue orders order --file /dev/null",
    "stats",
    "dlq",
    "dlq list",
    "dlq redrive orders --yes",
    "dlq runs watch 1 --max-wait 0s",
    "dlq runs resume 1",
    "dlq deliver orders --exec false --yes",
    "dlq export orders",
    "schedule redrive daily orders --every 1d",
    "work orders --exec true --drain",
    "prune --older-than 1d --yes",
    "repair",
];

#[test]
fn a_command_of_each_kind_exits_in_time_when_the_server_is_silent() {
    let test = TestDatabase::migrated();
    furnish(&test.queue("orders"));
    let whens = [None, Some(2), Some(4)];
    let all = COMMANDS.iter();
    let all = all.flat_map(|command| whens.map(|after| (*command, after)));
    all_at_once(all, |(command, after)| {
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
