//! A program that survives hundreds of faults, for a test that looks for leaks:
//! `fault_loop URL FAULTS`.
//!
//! Each handle and the worker have their own proxy. After a warm-up and again after all faults, the
//! program prints the resources it holds as a line of JSON.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a panic here fails the test that started it, and stdout is the result"
)]

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use postgres::{Client, NoTls};
use redrive::dlq::LetterFilter;
use redrive::{Database, Job, Queue, Worker};
use redrive_tests::{Mode, Order, Proxy, SOON, Sql as _, eventually, wait_until, worker};
use serde_json::json;

/// The number of concurrent handles.
const HANDLES: usize = 16;
/// The faults of each handle in the warm-up.
const WARM_UP: usize = 8;
/// The deadline of a connection and of a call.
const CONNECT: Duration = Duration::from_millis(250);
const CALL: Duration = Duration::from_millis(250);
/// The silent connections that a handle may leave before they break.
const MOST_SILENT: usize = 4;

/// The faults of a handle.
const FAULTS: [&str; 6] = [
    "cut",
    "cut-midway",
    "refused",
    "silent",
    "silent-midway",
    "killed",
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().expect("the URL of the database");
    let faults = arguments.next().and_then(|faults| faults.parse().ok());
    let faults: usize = faults.expect("how many faults");
    let handles = (0..HANDLES).map(|number| Handle::open(&url, number));
    let mut handles: Vec<Handle> = handles.collect();
    let proxy = Proxy::to(&url);
    let worker = start_worker(&proxy);
    let mut met = BTreeMap::new();
    suffer(&mut handles, WARM_UP, &worker, &proxy);
    let before = settled(&mut handles, &url);
    for handle in &mut handles {
        handle.met.clear();
    }
    let cuts = suffer(&mut handles, faults.div_ceil(HANDLES), &worker, &proxy);
    let after = settled(&mut handles, &url);
    for handle in &handles {
        for (fault, times) in &handle.met {
            *met.entry(*fault).or_insert(0) += times;
        }
    }
    let done = worker.stats().done;
    let queue = &handles[0].queue;
    wait_until("an enqueue to succeed", SOON, || {
        queue.enqueue(&Order { number: 1 }).is_ok()
    });
    wait_until("the worker to continue", SOON, || {
        worker.stats().done > done
    });
    let counts = json!({ "faults": met, "worker_cuts": cuts, "before": before, "after": after });
    println!("{counts}");
}

/// A worker with one connection more than the minimum.
fn start_worker(proxy: &Proxy) -> Worker {
    let db = eventually("the worker's pool", || {
        Database::builder(proxy.url())
            .connections(6)
            .connect_timeout(CONNECT)
            .call_timeout(CALL)
            .open()
    });
    eventually("the worker", || {
        worker(&Queue::new(&db, "orders").expect("a valid name"))
            .lease(Duration::from_secs(2))
            .handle(|_: &Job<Order>| Ok(()))
            .start()
    })
}

/// Runs this many faults on each handle, and cuts the worker off whenever it made progress. Returns
/// how often.
fn suffer(handles: &mut [Handle], faults: usize, worker: &Worker, proxy: &Proxy) -> usize {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let cutting = scope.spawn(|| {
            let (mut cuts, mut done) = (0, worker.stats().done);
            wait_until("the end of the faults", 3 * SOON, || {
                if worker.stats().done > done + 20 {
                    done = worker.stats().done;
                    cuts += proxy.cut();
                }
                over.load(Ordering::SeqCst)
            });
            cuts
        });
        let suffering: Vec<_> = handles
            .iter_mut()
            .map(|handle| scope.spawn(|| (0..faults).for_each(|_| handle.meet_one())))
            .collect();
        for one in suffering {
            one.join().expect("no handle panics");
        }
        over.store(true, Ordering::SeqCst);
        cutting.join().expect("the cutting thread does not panic")
    })
}

/// Releases hanging connections and measures when the process is idle.
fn settled(handles: &mut [Handle], url: &str) -> serde_json::Value {
    for handle in handles {
        handle.proxy.mend();
        handle.proxy.cut();
        handle.until_it_works();
    }
    let (mut last, mut same) = (usize::MAX, 0);
    wait_until("the threads to come to rest", SOON, || {
        let now = entries("/proc/self/task");
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same > 300
    });
    let asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
                 AND pid <> pg_backend_pid()";
    let mut client = Client::connect(url, NoTls).expect("connect");
    let on_server: i64 = client.ask(asked, &[]);
    json!({
        "threads": entries("/proc/self/task"),
        "descriptors": entries("/proc/self/fd"),
        "connections": on_server,
    })
}

fn entries(folder: &str) -> usize {
    fs::read_dir(folder).expect("what this process has").count()
}

/// A handle behind a proxy, with a single connection.
struct Handle {
    proxy: Proxy,
    queue: Queue,
    /// Kills the backends of the handle without the proxy.
    killer: Client,
    name: String,
    dice: fastrand::Rng,
    met: BTreeMap<&'static str, usize>,
}

impl Handle {
    fn open(url: &str, number: usize) -> Handle {
        let proxy = Proxy::to(url);
        let name = format!("fault-loop-{number}");
        let db = eventually("a handle", || {
            Database::builder(&format!("{}?application_name={name}", proxy.url()))
                .connections(1)
                .connect_timeout(CONNECT)
                .call_timeout(CALL)
                .bulk_timeout(CALL)
                .open()
        });
        Handle {
            proxy,
            queue: Queue::new(&db, "orders").expect("a valid name"),
            killer: Client::connect(url, NoTls).expect("connect"),
            name,
            dice: fastrand::Rng::with_seed(number as u64),
            met: BTreeMap::new(),
        }
    }

    /// Runs a fault during a call and recovers.
    fn meet_one(&mut self) {
        let fault = FAULTS[self.dice.usize(..FAULTS.len())];
        match fault {
            "cut" => _ = self.proxy.cut(),
            "cut-midway" => self.proxy.cut_after(self.dice.u16(..2000)),
            "refused" => self.proxy.set_mode(Mode::Refuse),
            "silent" => self.proxy.set_mode(Mode::Silent),
            "silent-midway" => self.proxy.fall_silent_after(self.dice.i64(1..4)),
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
        *self.met.entry(fault).or_insert(0) += 1;
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
