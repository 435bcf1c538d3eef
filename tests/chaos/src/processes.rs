//! The client processes, each behind its own proxy, and a supervisor that restarts them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clap::ValueEnum;
use redrive::Pooler;
use rustix::process::{Pid, Signal, kill_process};

use crate::history::{ClientEvent, ClientLog};
use crate::proxy::{Mode, Patch, Proxy};
use crate::role::{ClientFlaw, Gateway, JobMix, LIVES, Role, Serves};

/// How long the supervisor waits before it restarts a process.
const RESTART_DELAY: Duration = Duration::from_millis(150);

/// The role and parameters of a process.
#[derive(Clone, Debug)]
pub(crate) struct ProcessSpec {
    pub(crate) role: Role,
    pub(crate) rate: u32,
    pub(crate) jobs: u64,
    pub(crate) mix: JobMix,
    pub(crate) flaw: ClientFlaw,
    pub(crate) gateway: Gateway,
    pub(crate) grace: Duration,
    pub(crate) serves: Serves,
    /// How many jobs a worker runs at a time.
    pub(crate) slots: usize,
    /// The longest time that a worker's handler runs, in milliseconds.
    pub(crate) longest_run: u64,
    /// The port of an exporter.
    pub(crate) port: u16,
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

    pub(crate) fn exporter(port: u16) -> ProcessSpec {
        ProcessSpec {
            port,
            ..ProcessSpec::of(Role::Exporter)
        }
    }

    fn of(role: Role) -> ProcessSpec {
        ProcessSpec {
            role,
            rate: 0,
            jobs: 0,
            mix: JobMix::Mixed,
            flaw: ClientFlaw::None,
            gateway: Gateway::Shaky,
            grace: Duration::from_millis(1500),
            serves: Serves::Main,
            slots: 4,
            longest_run: u64::MAX,
            port: 0,
        }
    }
}

/// The parameters that all processes share.
#[derive(Clone, Debug)]
pub(crate) struct ProcessDefaults {
    pub(crate) folder: PathBuf,
    pub(crate) seed: u64,
    pub(crate) pooler: Pooler,
    pub(crate) lease: Duration,
}

/// The wall clock of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WallClock {
    Correct,
    YearAhead,
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
    /// How each of its lives ended.
    exits: BTreeMap<u32, ExitStatus>,
    clock: WallClock,
    starts_at: Option<Instant>,
}

impl Process {
    fn name(&self) -> String {
        format!("{}-{}.{}", value(&self.spec.role), self.number, self.life)
    }

    fn command(&self, defaults: &ProcessDefaults) -> Command {
        let url = format!(
            "postgres://postgres@127.0.0.1:{}/chaos?sslmode=disable",
            self.proxy.port()
        );
        let spec = &self.spec;
        let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
        command.args(["process", &value(&spec.role)]);
        command.arg("--folder").arg(&defaults.folder);
        for (flag, value) in [
            ("--url", url),
            ("--name", self.name()),
            // The keys of its jobs start here, so each life has its own.
            ("--number", (self.number * LIVES + self.life).to_string()),
            ("--seed", defaults.seed.to_string()),
            ("--pooler", defaults.pooler.as_str().to_owned()),
            ("--lease", defaults.lease.as_millis().to_string()),
            ("--rate", spec.rate.to_string()),
            ("--jobs", spec.jobs.to_string()),
            ("--grace", spec.grace.as_millis().to_string()),
            ("--port", spec.port.to_string()),
            ("--slots", spec.slots.to_string()),
            ("--longest-run", spec.longest_run.to_string()),
            ("--mix", value(&spec.mix)),
            ("--flaw", value(&spec.flaw)),
            ("--gateway", value(&spec.gateway)),
            ("--serves", value(&spec.serves)),
        ] {
            command.args([flag, &value]);
        }
        command
    }
}

/// The name of a variant on the command line.
fn value(variant: &impl ValueEnum) -> String {
    let value = variant.to_possible_value().expect("no variant is skipped");
    value.get_name().to_owned()
}

impl Processes {
    pub(crate) fn new(defaults: ProcessDefaults) -> Processes {
        let log = ClientLog::open(
            &defaults.folder.join("client-supervisor.jsonl"),
            "supervisor",
        );
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

    /// Adds a process behind a proxy that applies these patches. The supervisor starts it.
    pub(crate) fn add(&mut self, spec: ProcessSpec, port: u16, patches: &[Patch]) {
        self.added += 1;
        self.all.push(Process {
            number: self.added,
            spec,
            life: 0,
            proxy: Proxy::open(port, patches),
            child: None,
            exits: BTreeMap::new(),
            clock: WallClock::Correct,
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
                process.exits.insert(process.life, status);
                let is_finished = status.success() && process.spec.jobs > 0;
                process.starts_at = (!is_finished).then(|| Instant::now() + RESTART_DELAY);
                let path = self.defaults.folder.join("client-supervisor.jsonl");
                let exited = ClientLog::open(&path, &process.name());
                exited.write(
                    0,
                    ClientEvent::Exited {
                        code: status.code(),
                    },
                );
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
        let role = value(&process.spec.role);
        let errors = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(
                self.defaults
                    .folder
                    .join(format!("{role}-{}.err", process.number)),
            )
            .expect("open a log");
        let mut command = process.command(&self.defaults);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors);
        if let (WallClock::YearAhead, Some(library)) = (process.clock, &self.faketime) {
            command.env("LD_PRELOAD", library).env("FAKETIME", "+365d");
            // Only the wall clock is wrong, not the monotonic one.
            command
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("DONT_FAKE_MONOTONIC", "1");
        }
        process.clock = WallClock::Correct;
        process.child = Some(command.spawn().expect("start a process"));
    }

    pub(crate) fn all(&self) -> Vec<usize> {
        (0..self.all.len()).collect()
    }

    /// Returns the processes with this role.
    pub(crate) fn with_role(&self, role: Role) -> Vec<usize> {
        (0..self.all.len())
            .filter(|at| self.all[*at].spec.role == role)
            .collect()
    }

    /// Returns the process with this role that a random number selects.
    pub(crate) fn pick(&self, role: Role, random: u32) -> Option<usize> {
        let all = self.with_role(role);
        all.get(random as usize % all.len().max(1)).copied()
    }

    /// Returns the process that a random number selects among those that use their connections all the
    /// time. An exporter does so only while it is scraped.
    pub(crate) fn pick_busy(&self, random: u32) -> Option<usize> {
        let is_busy = |at: &usize| self.all[*at].spec.role != Role::Exporter;
        let busy: Vec<usize> = (0..self.all.len()).filter(is_busy).collect();
        busy.get(random as usize % busy.len().max(1)).copied()
    }

    /// Whether a process with a number of jobs has stored them and exited.
    pub(crate) fn is_finished(&self, at: usize) -> bool {
        let process = &self.all[at];
        process.life > 0 && process.child.is_none() && process.starts_at.is_none()
    }

    pub(crate) fn life(&self, at: usize) -> u32 {
        self.all[at].life
    }

    /// The system's id of a process that runs.
    pub(crate) fn pid(&self, at: usize) -> Option<i32> {
        let child = self.all[at].child.as_ref()?;
        Some(child.id().cast_signed())
    }

    /// How a life of a process ended, if it did.
    pub(crate) fn exit(&self, at: usize, life: u32) -> Option<ExitStatus> {
        self.all[at].exits.get(&life).copied()
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

    /// Sets the clock of its next life a year ahead. Returns whether faketime is installed.
    pub(crate) fn fake_clock(&mut self, at: usize) -> bool {
        self.all[at].clock = WallClock::YearAhead;
        self.faketime.is_some()
    }

    pub(crate) fn proxy(&self, at: usize) -> &Proxy {
        &self.all[at].proxy
    }

    pub(crate) fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        self.all.iter().map(|process| &process.proxy)
    }

    /// Ends all network faults and continues stopped processes.
    pub(crate) fn heal(&self) {
        for at in 0..self.all.len() {
            self.proxy(at).set_mode(Mode::Forward);
            self.proxy(at).lose_answers(0);
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
fn faketime() -> Option<PathBuf> {
    let places = std::fs::read_dir(Path::new("/usr/lib")).ok()?.flatten();
    let mut libraries = places.map(|place| place.path().join("faketime/libfaketimeMT.so.1"));
    libraries.find(|library| library.exists())
}
