//! A program that meets faults by the hundred, for a test that looks what is left of them:
//! `sufferer URL FAULTS`.
//!
//! Handles and a worker live through everything, each behind a cable of its own. After some faults
//! to get warm, and again after all of them, it prints what it holds, as a line of JSON.

#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "whatever goes wrong here fails the test that started it, and the answer is its stdout"
)]

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use postgres::{Client, NoTls};
use redrive::{Database, Job, Letters, Queue, Worker};
use redrive_tests::{Cable, Order, SOON, wait_until, worker};

/// How many handles suffer at a time.
const HANDLES: usize = 16;
/// How many faults each of them meets before anything counts.
const WARM_UP: usize = 8;
/// How long a connection and a call may take.
const CONNECT: Duration = Duration::from_millis(250);
const CALL: Duration = Duration::from_millis(250);
/// How many silent connections a handle leaves behind before they break.
const MOST_SILENT: usize = 4;

/// What can happen to a handle.
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
    let faults: usize = arguments
        .next()
        .and_then(|faults| faults.parse().ok())
        .expect("how many faults");
    let mut handles: Vec<Handle> = (0..HANDLES)
        .map(|number| Handle::open(&url, number))
        .collect();
    let cable = Cable::to(&url);
    let worker = start_worker(&cable);
    let mut met = BTreeMap::new();
    suffer(&mut handles, WARM_UP, &worker, &cable);
    let before = settled(&mut handles, &url);
    for handle in &mut handles {
        handle.met.clear();
    }
    let cuts = suffer(&mut handles, faults.div_ceil(HANDLES), &worker, &cable);
    let after = settled(&mut handles, &url);
    for handle in &handles {
        for (fault, times) in &handle.met {
            *met.entry(*fault).or_insert(0) += times;
        }
    }
    let done = worker.counts().done;
    handles[0].until_it_works();
    wait_until("the worker to go on", SOON, || worker.counts().done > done);
    println!(
        "{}",
        serde_json::json!({ "faults": met, "worker_cuts": cuts, "before": before, "after": after })
    );
}

/// A worker, with as few connections as it can have and one.
fn start_worker(cable: &Cable) -> Worker {
    let db = Database::builder(cable.url())
        .connections(5)
        .connect_timeout(CONNECT)
        .call_timeout(CALL)
        .open()
        .expect("open the worker's pool");
    worker(&Queue::new(&db, "orders").expect("a good name"))
        .lease(Duration::from_secs(2))
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .expect("start the worker")
}

/// All handles meet so many faults each, and the worker is cut off each time that it has done
/// something. Answers how often.
fn suffer(handles: &mut [Handle], faults: usize, worker: &Worker, cable: &Cable) -> usize {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let cutting = scope.spawn(|| {
            let (mut cuts, mut done) = (0, worker.counts().done);
            wait_until("the end of the faults", 3 * SOON, || {
                if worker.counts().done > done + 20 {
                    done = worker.counts().done;
                    cuts += cable.cut();
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
        cutting.join().expect("the one who cuts does not panic")
    })
}

/// Lets go what hangs, and measures when everything has come to rest.
fn settled(handles: &mut [Handle], url: &str) -> serde_json::Value {
    for handle in handles {
        handle.cable.mend();
        handle.cable.cut();
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
    let on_server: i64 = Client::connect(url, NoTls)
        .and_then(|mut client| client.query_one(asked, &[]))
        .expect("ask for the connections")
        .get(0);
    serde_json::json!({
        "threads": entries("/proc/self/task"),
        "descriptors": entries("/proc/self/fd"),
        "connections": on_server,
        "kilobytes": resident(),
    })
}

fn entries(folder: &str) -> usize {
    fs::read_dir(folder).expect("what this process has").count()
}

fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("the status of this process");
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().strip_suffix(" kB"))
        .and_then(|kilobytes| kilobytes.parse().ok())
        .expect("its memory")
}

/// A handle behind a cable, with a single connection.
struct Handle {
    cable: Cable,
    queue: Queue,
    /// Kills the backends of the handle, past the cable.
    killer: Client,
    name: String,
    dice: fastrand::Rng,
    met: BTreeMap<&'static str, usize>,
}

impl Handle {
    fn open(url: &str, number: usize) -> Handle {
        let cable = Cable::to(url);
        let name = format!("sufferer-{number}");
        let db = Database::builder(&format!("{}?application_name={name}", cable.url()))
            .connections(1)
            .connect_timeout(CONNECT)
            .call_timeout(CALL)
            .bulk_timeout(CALL)
            .open()
            .expect("open a handle");
        Handle {
            cable,
            queue: Queue::new(&db, "orders").expect("a good name"),
            killer: Client::connect(url, NoTls).expect("connect"),
            name,
            dice: fastrand::Rng::with_seed(number as u64),
            met: BTreeMap::new(),
        }
    }

    /// Meets a fault in the middle of a call, and gets over it.
    fn meet_one(&mut self) {
        let fault = FAULTS[self.dice.usize(..FAULTS.len())];
        match fault {
            "cut" => _ = self.cable.cut(),
            "cut-midway" => self.cable.cut_after(self.dice.u16(..2000)),
            "refused" => {
                self.cable.refuse();
                self.cable.cut();
            }
            "silent" => self.cable.fall_silent(),
            "silent-midway" => self.cable.fall_silent_after(self.dice.i64(1..4)),
            _ => {
                let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                           WHERE application_name = $1";
                self.killer.query(end, &[&self.name]).expect("end backends");
            }
        }
        self.call();
        self.cable.mend();
        // What hangs may hang for a while; in the end it breaks.
        if self.cable.connections() > MOST_SILENT {
            self.cable.cut();
        }
        self.until_it_works();
        *self.met.entry(fault).or_insert(0) += 1;
    }

    /// Makes a call, and tells whether it succeeded. It fails as it should.
    fn call(&mut self) -> bool {
        let called = match self.dice.u8(..4) {
            0 => self.queue.enqueue(&Order { number: 1 }).map(drop),
            1 => self.queue.enqueue_many(&Order::up_to(5)).map(drop),
            2 => self.queue.is_drained().map(drop),
            _ => self.queue.database().letters(&Letters::all()).map(drop),
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
