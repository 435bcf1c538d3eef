//! The environment of a run: a server, the client processes, and the records they write.

mod collect;
mod inject;

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use redrive::{Database, Operator};
use redrive_servers::{PgBouncer, Proxy};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::Programs;
use crate::checker::{Records, Terms};
use crate::clock::micros;
use crate::db_trace;
use crate::gate;
use crate::history::{self, ClientLog, HandlerEvent, handler_log};
use crate::interrupt;
use crate::mutant::{Patch, SPEED_UP, edit};
use crate::processes::{ProcessDefaults, ProcessSpec, Processes};
use crate::role::groups::{set_policies, set_rate_limits};
use crate::server::Server;

/// The lease of workers, unless a scenario needs a longer one.
const LEASE: Duration = Duration::from_secs(3);

/// Connections of a pooler to the server, fewer than the processes open to it.
const POOLED: u32 = 8;
/// How often the supervisor checks the processes.
const POLL: Duration = Duration::from_millis(20);

/// How to set up an environment.
#[derive(Debug)]
pub(crate) struct Setup {
    /// Whether a pooler in transaction mode is between the processes and the server.
    pub(crate) is_pooled: bool,
    /// Whether the disk of the server can be filled.
    pub(crate) has_small_disk: bool,
    pub(crate) seed: u64,
    pub(crate) lease: Duration,
    pub(crate) patches: Vec<Patch>,
    /// How long to wait for a state that a scenario needs.
    pub(crate) state_timeout: Duration,
}

impl Default for Setup {
    /// Without a pooler or a small disk, and without waiting for states. The events that are rare are frequent.
    fn default() -> Setup {
        Setup {
            is_pooled: false,
            has_small_disk: false,
            seed: 1,
            lease: LEASE,
            patches: SPEED_UP.to_vec(),
            state_timeout: Duration::ZERO,
        }
    }
}

/// A running environment.
#[derive(Debug)]
pub(crate) struct Environment {
    /// Between the proxies and the server, if there is a pooler.
    bouncer: Option<PgBouncer>,
    server: Server,
    folder: TempDir,
    pub(crate) processes: Processes,
    pub(crate) setup: Setup,
    /// What the checker must know of the run, so far.
    terms: Terms,
    /// States that a scenario waited for and that did not come.
    missing: Vec<String>,
}

impl Environment {
    /// Starts a server with the schema and the trace, and no processes.
    pub(crate) fn start(programs: &Programs, setup: Setup) -> Environment {
        let server = Server::start_new(&programs.postgres, setup.has_small_disk);
        let db = redrive::connect(&server.url()).expect("connect to the new server");
        db.migrate().expect("migrate");
        db_trace::install(&mut server.client());
        let folder = tempfile::Builder::new()
            .prefix("redrive-chaos-records-")
            .tempdir()
            .expect("create a folder");
        let processes = Processes::new(ProcessDefaults {
            folder: folder.path().to_owned(),
            seed: setup.seed,
            is_pooled: setup.is_pooled,
            lease: setup.lease,
        });
        let settings = "server_connect_timeout = 5\n";
        let pooled = || PgBouncer::before(&server.url(), POOLED, settings);
        let bouncer = setup.is_pooled.then(pooled);
        let mut env = Environment {
            bouncer,
            server,
            folder,
            processes,
            terms: Terms {
                lease: micros(setup.lease),
                ..Terms::default()
            },
            setup,
            missing: Vec::new(),
        };
        env.record_server_start();
        env
    }

    /// Opens the database without a proxy.
    fn database(&self) -> Database {
        redrive::connect(&self.server.url()).expect("connect")
    }

    /// Changes the definition of a function in the database.
    pub(crate) fn patch_function(&self, patch: &Patch) {
        let mut client = self.server.client();
        let (function, from) = (format!("redrive.{}", patch.place), patch.from);
        let query = "SELECT pg_get_functiondef($1::text::regproc)";
        let row = client
            .query_one(query, &[&function])
            .expect("read a function");
        let text: String = row.get(0);
        let has_text = text.contains(from);
        assert!(
            has_text,
            "the function {function} does not contain `{from}`; update the mutant"
        );
        client
            .batch_execute(&text.replace(from, patch.to))
            .expect("replace a function");
    }

    /// Sets what groups mean, before jobs that belong to one.
    pub(crate) fn set_group_policies(&self) {
        set_policies(&self.database(), &harness()).expect("set the policies of groups");
    }

    /// Sets the rate limits, for enqueuers that store this many jobs per second.
    pub(crate) fn set_rate_limits(&self, jobs: u32) {
        set_rate_limits(&self.database(), jobs, &harness()).expect("set the rate limits");
    }

    /// Adds a process.
    pub(crate) fn add(&mut self, spec: ProcessSpec) {
        let proxy = self.open_proxy();
        self.processes.add(spec, proxy);
        self.processes.supervise();
    }

    /// Opens a proxy that applies the patches of this run.
    pub(crate) fn open_proxy(&self) -> Proxy {
        let direct = self.server.url();
        let url = self.bouncer.as_ref().map_or(&*direct, PgBouncer::url);
        Proxy::editing(url, edit(&self.setup.patches))
    }

    /// Supervises the processes until the time is over or the condition holds. Returns whether it
    /// holds.
    pub(crate) fn supervise_until(
        &mut self,
        time: Duration,
        mut condition: impl FnMut(&mut Environment) -> bool,
    ) -> bool {
        let until = Instant::now() + time;
        while Instant::now() < until {
            interrupt::check();
            self.processes.supervise();
            if condition(self) {
                return true;
            }
            thread::sleep(POLL);
        }
        false
    }

    /// Lets this much time pass.
    pub(crate) fn pass(&mut self, time: Duration) {
        self.supervise_until(time, |_| false);
    }

    /// Waits for a state. Without a mutant, a state that does not come fails the run. A mutant may
    /// prevent a state; the scenario then ends without waiting for the next ones.
    pub(crate) fn wait_for(&mut self, what: &str, condition: impl FnMut(&mut Environment) -> bool) {
        if self.missing.is_empty() && !self.supervise_until(self.setup.state_timeout, condition) {
            self.missing.push(what.to_owned());
        }
    }

    /// Waits until an SQL condition is true.
    pub(crate) fn wait_for_sql(&mut self, what: &str, condition: &str) {
        let query = format!("SELECT {condition}");
        let mut client = self.client();
        self.wait_for(what, |_| db_trace::ask(&mut client, &query));
    }

    /// Waits until handlers of this life of the process run these attempts at these jobs, or any attempt.
    pub(crate) fn wait_for_held(&mut self, process: usize, attempts: &[(i64, i32)]) {
        self.wait_for("the handlers hold their jobs", |env| {
            let log = handler_log(env.folder(), &env.processes.name(process));
            let events: Vec<HandlerEvent> = history::read(&log);
            let runs = |attempt: &(i64, i32)| {
                let mut events = events.iter();
                events.any(|event| (event.job, event.attempt) == *attempt)
            };
            !events.is_empty() && attempts.iter().all(runs)
        });
    }

    /// Lets the held handlers of this life of a process finish.
    pub(crate) fn open_gate(&self, process: usize) {
        gate::open(self.folder.path(), &self.processes.name(process));
    }

    /// Stops a worker with SIGSTOP.
    pub(crate) fn freeze_worker(&self, process: usize) {
        let name = self.processes.name(process);
        self.processes.record_fault(format!("freeze {name}"));
        self.processes.signal(process, Signal::STOP);
    }

    /// Returns the folder of the records, the gates and the gateway.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Lets all held handlers finish.
    pub(crate) fn open_all_gates(&self) {
        gate::open(self.folder.path(), gate::OF_ALL);
    }

    /// Connects to the server without a proxy.
    pub(crate) fn client(&self) -> postgres::Client {
        self.server.client()
    }

    /// Runs SQL without triggers, to change what the clock would change.
    pub(crate) fn age(&self, sql: &str) {
        self.client()
            .batch_execute(&format!("SET session_replication_role = replica; {sql}"))
            .expect("age rows");
    }

    /// Opens a history for a client that is not a process.
    pub(crate) fn log(&self, name: &str) -> ClientLog {
        let path = self.folder.path().join(format!("client-{name}.jsonl"));
        ClientLog::open(&path, name)
    }
}

/// The operator in the audit of what the harness does.
fn harness() -> Operator {
    Operator::new("harness")
}

/// A finished run.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) records: Records,
    /// States that did not come.
    pub(crate) missing: Vec<String>,
    folder: TempDir,
}

impl Finished {
    /// Keeps the files of the records, with the trace beside them. Returns their folder.
    pub(crate) fn keep(self) -> PathBuf {
        let records = &self.records;
        for (name, text) in [
            ("trace.txt", lines(&records.trace)),
            ("breakers.txt", lines(&records.breakers)),
            ("renewals.txt", lines(&records.renewals)),
        ] {
            std::fs::write(self.folder.path().join(name), text).expect("write the trace");
        }
        self.folder.keep()
    }
}

/// Returns a line for each row of a trace.
fn lines<T: Debug>(rows: &[T]) -> String {
    let lines: Vec<String> = rows.iter().map(|row| format!("{row:?}")).collect();
    lines.join("\n")
}
