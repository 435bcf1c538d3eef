//! The client processes, each behind its own proxy, and a supervisor that restarts them.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use redrive_servers::Proxy;
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::history::{ClientEvent, ClientLog};
use crate::role::{Gateway, JobMix, LIVES, Options, Role};

/// How long the supervisor waits before it restarts a process.
const RESTART_DELAY: Duration = Duration::from_millis(150);

/// The role and parameters of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProcessSpec {
    pub(crate) role: Role,
    pub(crate) rate: u32,
    pub(crate) mix: JobMix,
    pub(crate) gateway: Gateway,
    pub(crate) grace: Duration,
    /// Whether a worker serves the other queues, too: those with groups, and those with rate limits.
    pub(crate) serves_others: bool,
    /// How many jobs a worker runs at a time.
    pub(crate) slots: usize,
    /// The longest time that a worker's handler runs, in milliseconds.
    pub(crate) longest_run: u64,
}

impl ProcessSpec {
    pub(crate) fn worker() -> ProcessSpec {
        ProcessSpec::of(Role::Worker)
    }

    pub(crate) fn operator() -> ProcessSpec {
        ProcessSpec::of(Role::Operator)
    }

    pub(crate) fn enqueuer(rate: u32, mix: JobMix) -> ProcessSpec {
        ProcessSpec {
            rate,
            mix,
            ..ProcessSpec::of(Role::Enqueuer)
        }
    }

    fn of(role: Role) -> ProcessSpec {
        ProcessSpec {
            role,
            rate: 0,
            mix: JobMix::Mixed,
            gateway: Gateway::Shaky,
            grace: Duration::from_millis(1500),
            serves_others: false,
            slots: 4,
            longest_run: u64::MAX,
        }
    }
}

/// The parameters that all processes share.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProcessDefaults {
    pub(crate) folder: PathBuf,
    pub(crate) seed: u64,
    /// Whether a pooler in transaction mode is in between.
    pub(crate) is_pooled: bool,
    pub(crate) lease: Duration,
}

/// All processes.
#[derive(Debug)]
pub(crate) struct Processes {
    all: Vec<Process>,
    defaults: ProcessDefaults,
    /// How many were ever added, so that no two have the same name.
    added: u32,
    log: ClientLog,
    /// The library that fakes the clock, if it is installed.
    faketime: Option<PathBuf>,
}

#[derive(Debug)]
struct Process {
    spec: ProcessSpec,
    number: u32,
    life: u32,
    proxy: Proxy,
    child: Option<Child>,
    /// Whether the clock of its next life is a year ahead.
    is_ahead: bool,
    starts_at: Option<Instant>,
}

impl Process {
    fn name(&self) -> String {
        format!("{}-{}.{}", self.spec.role, self.number, self.life)
    }

    fn command(&self, defaults: &ProcessDefaults) -> Command {
        let options = Options {
            spec: self.spec.clone(),
            run: defaults.clone(),
            url: self.proxy.url().to_owned(),
            name: self.name(),
            // The keys of its jobs start here, so each life has its own.
            number: self.number * LIVES + self.life,
        };
        let options = serde_json::to_string(&options).expect("options are JSON");
        let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
        command.args(["process", &options]);
        command
    }
}

impl Processes {
    pub(crate) fn new(defaults: ProcessDefaults) -> Processes {
        let path = defaults.folder.join("client-supervisor.jsonl");
        let log = ClientLog::open(&path, "supervisor");
        Processes {
            all: Vec::new(),
            defaults,
            added: 0,
            log,
            faketime: faketime(),
        }
    }

    /// Records a fault.
    pub(crate) fn record_fault(&self, what: impl Into<String>) {
        self.log.write(0, ClientEvent::Fault { what: what.into() });
    }

    /// Adds a process behind a proxy. The supervisor starts it.
    pub(crate) fn add(&mut self, spec: ProcessSpec, proxy: Proxy) {
        self.added += 1;
        self.all.push(Process {
            number: self.added,
            spec,
            life: 0,
            proxy,
            child: None,
            is_ahead: false,
            starts_at: Some(Instant::now()),
        });
    }

    /// Starts the processes that are due, and records those that exited.
    pub(crate) fn supervise(&mut self) {
        for at in 0..self.all.len() {
            let process = &mut self.all[at];
            if let Some(child) = &mut process.child
                && let Some(status) = child.try_wait().expect("wait for a process")
            {
                process.child = None;
                process.starts_at = Some(Instant::now() + RESTART_DELAY);
                let path = self.defaults.folder.join("client-supervisor.jsonl");
                let exited = ClientLog::open(&path, &process.name());
                let code = status.code();
                exited.write(0, ClientEvent::Exited { code });
            }
            if process.starts_at.is_some_and(|at| at <= Instant::now()) {
                process.starts_at = None;
                self.start(at);
            }
        }
    }

    fn start(&mut self, at: usize) {
        let process = &mut self.all[at];
        process.life += 1;
        let role = process.spec.role;
        let file = self
            .defaults
            .folder
            .join(format!("{role}-{}.err", process.number));
        let errors = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(file);
        let mut command = process.command(&self.defaults);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors.expect("open a log"));
        if let (true, Some(library)) = (std::mem::take(&mut process.is_ahead), &self.faketime) {
            command.env("LD_PRELOAD", library).env("FAKETIME", "+365d");
            // Only the wall clock is wrong, not the monotonic one.
            for variable in ["FAKETIME_DONT_FAKE_MONOTONIC", "DONT_FAKE_MONOTONIC"] {
                command.env(variable, "1");
            }
        }
        process.child = Some(command.spawn().expect("start a process"));
    }

    pub(crate) fn all(&self) -> Vec<usize> {
        (0..self.all.len()).collect()
    }

    /// Returns the processes with this role.
    pub(crate) fn with_role(&self, role: Role) -> Vec<usize> {
        let mut all = self.all();
        all.retain(|at| self.all[*at].spec.role == role);
        all
    }

    pub(crate) fn life(&self, at: usize) -> u32 {
        self.all[at].life
    }

    /// The system's id of a process that runs.
    pub(crate) fn pid(&self, at: usize) -> Option<i32> {
        let child = self.all[at].child.as_ref()?;
        Some(child.id().cast_signed())
    }

    pub(crate) fn name(&self, at: usize) -> String {
        self.all[at].name()
    }

    pub(crate) fn signal(&self, at: usize, signal: Signal) {
        if let Some(pid) = self.pid(at).and_then(Pid::from_raw) {
            // The process may have exited.
            _ = kill_process(pid, signal);
        }
    }

    /// Sets the clock of its next life a year ahead, if faketime is installed.
    pub(crate) fn fake_clock(&mut self, at: usize) {
        self.all[at].is_ahead = true;
    }

    pub(crate) fn proxy(&self, at: usize) -> &Proxy {
        &self.all[at].proxy
    }

    /// Ends all network faults and continues stopped processes.
    pub(crate) fn heal(&self) {
        for at in 0..self.all.len() {
            self.proxy(at).mend();
            self.signal(at, Signal::CONT);
        }
    }

    /// Stops and removes the processes with this role. Kills those that take longer than `timeout`.
    pub(crate) fn stop(&mut self, role: Role, timeout: Duration) {
        for at in self.with_role(role) {
            self.all[at].starts_at = None;
            self.signal(at, Signal::TERM);
        }
        let until = Instant::now() + timeout;
        let runs = |process: &Process| process.spec.role == role && process.child.is_some();
        while self.all.iter().any(runs) {
            if Instant::now() > until {
                for at in self.with_role(role) {
                    self.signal(at, Signal::KILL);
                }
            }
            std::thread::sleep(Duration::from_millis(10));
            self.supervise();
            for at in self.with_role(role) {
                self.all[at].starts_at = None;
            }
        }
        self.all.retain(|process| process.spec.role != role);
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in &mut self.all {
            if let Some(child) = &mut process.child {
                // The process may have exited.
                _ = child.kill();
                _ = child.wait();
            }
        }
    }
}

/// Finds the library of Debian's package `faketime`.
pub(crate) fn faketime() -> Option<PathBuf> {
    let places = std::fs::read_dir(Path::new("/usr/lib")).ok()?.flatten();
    let mut libraries = places.map(|place| place.path().join("faketime/libfaketimeMT.so.1"));
    libraries.find(|library| library.exists())
}
