//! Leaks: a thousand faults leave no more threads, descriptors or connections.
//!
//! Each handle and the worker have their own proxy. The process of the test is measured after a warm-up, and again
//! after all faults.

use redrive_tests::prelude::*;

/// The concurrent handles.
const HANDLES: usize = 16;
/// The faults of each handle in the warm-up, and after it.
const WARM_UP: usize = 8;
const FAULTS: usize = 63;
/// The deadline of a connection and of a call.
const DEADLINE: Duration = Duration::from_millis(250);
/// The silent connections that a handle may leave before they break.
const MOST_SILENT: usize = 4;

/// The increase allowed for any number of faults: a worker may have one connection more at the
/// second measurement, with its threads and descriptors in the proxy.
const THREADS: i64 = 8;
const DESCRIPTORS: i64 = 24;
const CONNECTIONS: i64 = 3;

/// A handle behind a proxy, with a single connection.
struct Handle {
    proxy: Proxy,
    queue: Queue,
    /// Kills the backends of the handle without the proxy.
    killer: Client,
    name: String,
    dice: fastrand::Rng,
}

impl Handle {
    fn open(test: &TestDatabase, number: usize) -> Handle {
        let proxy = Proxy::to(test.url());
        let name = format!("leaks-{number}");
        let url = format!("{}?application_name={name}", proxy.url());
        let db = eventually("a handle", || impatient(&url).connections(1).open());
        Handle {
            proxy,
            queue: Queue::new(&db, "orders").unwrap(),
            killer: test.client(),
            name,
            dice: fastrand::Rng::with_seed(number as u64),
        }
    }

    /// Meets a fault during a call, and recovers.
    fn meet(&mut self, fault: usize) {
        match fault % 6 {
            0 => _ = self.proxy.cut(),
            1 => self.proxy.lose_answers(self.dice.usize(1..4)),
            2 => self.proxy.set_mode(Mode::Refuse),
            3 => self.proxy.set_mode(Mode::Silent),
            4 => self.proxy.fall_silent_after(self.dice.i64(1..4)),
            _ => {
                let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1";
                self.killer.change(end, &[&self.name]);
            }
        }
        self.call();
        self.proxy.mend();
        // A hanging connection breaks in the end.
        if self.proxy.connections() > MOST_SILENT {
            self.proxy.cut();
        }
        self.until_it_works();
    }

    /// Makes a call and returns whether it succeeded. A failure must be the expected one.
    fn call(&mut self) -> bool {
        let called = match self.dice.u8(..4) {
            0 => self.queue.enqueue(&Order { number: 1 }).map(drop),
            1 => self.queue.enqueue_many(&Order::up_to(5)).map(drop),
            2 => self.queue.is_drained().map(drop),
            _ => {
                let dlq = self.queue.database().dlq();
                dlq.list(&LetterFilter::new()).map(drop)
            }
        };
        if let Err(error) = &called {
            assert!(error.is_unavailable(), "{error:?}");
        }
        called.is_ok()
    }

    fn until_it_works(&mut self) {
        wait_until("a call to succeed", SOON, || self.call());
    }
}

fn impatient(url: &str) -> DatabaseBuilder {
    let builder = Database::builder(url).connect_timeout(DEADLINE);
    builder.call_timeout(DEADLINE).bulk_timeout(DEADLINE)
}

/// Starts a worker with one connection more than the minimum.
fn start_worker(proxy: &Proxy) -> Worker {
    let db = eventually("the worker's pool", || {
        impatient(proxy.url()).connections(6).open()
    });
    let queue = Queue::new(&db, "orders").unwrap();
    eventually("the worker", || {
        lively(&queue).handle(|_: &Job<Order>| Ok(())).start()
    })
}

/// Each handle meets this many faults, of each kind in turn, and the worker loses its connections as often.
fn suffer(handles: &mut [Handle], faults: usize, worker: &Proxy) {
    thread::scope(|scope| {
        for (number, handle) in handles.iter_mut().enumerate() {
            scope.spawn(move || {
                for fault in 0..faults {
                    handle.meet(number + fault);
                    if number == 0 {
                        worker.cut();
                    }
                }
            });
        }
    });
}

/// Releases hanging connections, and returns the threads, the descriptors and the connections of the idle process.
fn settled(test: &TestDatabase, handles: &mut [Handle]) -> [i64; 3] {
    for handle in handles {
        handle.proxy.mend();
        handle.proxy.cut();
        handle.until_it_works();
    }
    let entries = |folder: &str| i64::try_from(fs::read_dir(folder).unwrap().count()).unwrap();
    let threads = || entries("/proc/self/task");
    let (mut last, mut same) = (0, 0);
    wait_until("the threads to come to rest", SOON, || {
        let now = threads();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same > 300
    });
    let asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                 AND pid <> pg_backend_pid()";
    let connections = scalar(&mut test.client(), asked);
    [threads(), entries("/proc/self/fd"), connections]
}

#[test]
fn a_thousand_faults_leak_no_threads_or_connections() {
    let test = TestDatabase::migrated();
    let handles = (0..HANDLES).map(|number| Handle::open(&test, number));
    let mut handles: Vec<Handle> = handles.collect();
    let proxy = Proxy::to(test.url());
    let worker = start_worker(&proxy);
    suffer(&mut handles, WARM_UP, &proxy);
    let before = settled(&test, &mut handles);
    suffer(&mut handles, FAULTS, &proxy);
    let after = settled(&test, &mut handles);
    let most = [THREADS, DESCRIPTORS, CONNECTIONS];
    for ((before, after), more) in before.into_iter().zip(after).zip(most) {
        assert!(after <= before + more, "{before} became {after}");
    }
    let done = worker.stats().done;
    test.queue("orders").enqueue(&Order { number: 1 }).unwrap();
    counted(&worker, "the worker to continue", |it| it.done > done);
    stop(worker);
}
