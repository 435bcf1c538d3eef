//! The troupe: the processes of the actors, each behind a proxy of its own, and a supervisor that
//! starts anew who ends.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::ValueEnum as _;
use redrive::Pooler;
use rustix::process::{Pid, Signal, kill_process};

use crate::actor::{Diet, Flaw, Gateway, Role};
use crate::proxy::{Manner, Patch, Proxy};
use crate::record::{Log, Said};

/// How long the supervisor waits before it starts somebody anew.
const PAUSE: Duration = Duration::from_millis(150);

/// What an actor is told.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) role: Role,
    pub(crate) rate: u32,
    pub(crate) jobs: u64,
    pub(crate) diet: Diet,
    pub(crate) flaw: Flaw,
    pub(crate) gateway: Gateway,
    pub(crate) grace: Duration,
    /// Where an exporter serves.
    pub(crate) port: u16,
}

impl Part {
    pub(crate) fn worker() -> Part {
        Part::of(Role::Worker)
    }

    pub(crate) fn operator() -> Part {
        Part::of(Role::Operator)
    }

    pub(crate) fn enqueuer(rate: u32, diet: Diet) -> Part {
        Part {
            rate,
            diet,
            ..Part::of(Role::Enqueuer)
        }
    }

    pub(crate) fn exporter(port: u16) -> Part {
        Part {
            port,
            ..Part::of(Role::Exporter)
        }
    }

    fn of(role: Role) -> Part {
        Part {
            role,
            rate: 0,
            jobs: 0,
            diet: Diet::Mixed,
            flaw: Flaw::None,
            gateway: Gateway::Shaky,
            grace: Duration::from_millis(1500),
            port: 0,
        }
    }
}

/// Which clock an actor sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Clock {
    True,
    YearOff,
}

/// All actors.
#[derive(Debug)]
pub(crate) struct Troupe {
    actors: Vec<Actor>,
    folder: PathBuf,
    seed: u64,
    /// What is between them and the server.
    pooler: Pooler,
    /// How many there have been: nobody gets the name of somebody else.
    born: u32,
    log: Log,
    /// A library that fakes the clock.
    faker: Option<PathBuf>,
}

#[derive(Debug)]
struct Actor {
    part: Part,
    number: u32,
    life: u32,
    proxy: Proxy,
    child: Option<Child>,
    clock: Clock,
    starts_at: Option<Instant>,
}

impl Actor {
    fn name(&self) -> String {
        let role = self.part.role.to_possible_value();
        let role = role.as_ref().map_or("actor", |value| value.get_name());
        format!("{role}-{}.{}", self.number, self.life)
    }
}

impl Troupe {
    pub(crate) fn new(folder: &Path, seed: u64, pooler: Pooler) -> Troupe {
        Troupe {
            actors: Vec::new(),
            folder: folder.to_owned(),
            seed,
            pooler,
            born: 0,
            log: Log::open(&folder.join("client-stage.jsonl"), "stage"),
            faker: faker(),
        }
    }

    /// Writes down what is done.
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.log.say(0, Said::Fault { what: what.into() });
    }

    /// Adds an actor, whose statements are changed on their way; it starts at the next look.
    pub(crate) fn add(&mut self, part: Part, port: u16, patches: &[Patch]) {
        self.born += 1;
        self.actors.push(Actor {
            number: self.born,
            part,
            life: 0,
            proxy: Proxy::open(port, patches),
            child: None,
            clock: Clock::True,
            starts_at: Some(Instant::now()),
        });
    }

    /// Starts who is to be started, and notes who ended.
    pub(crate) fn tend(&mut self) {
        for at in 0..self.actors.len() {
            let actor = &mut self.actors[at];
            if let Some(child) = &mut actor.child
                && let Some(status) = child.try_wait().expect("look after an actor")
            {
                actor.child = None;
                let is_through = status.success() && actor.part.jobs > 0;
                actor.starts_at = (!is_through).then(|| Instant::now() + PAUSE);
                let ended = Log::open(&self.folder.join("client-stage.jsonl"), &actor.name());
                ended.say(
                    0,
                    Said::Ended {
                        code: status.code(),
                    },
                );
            }
            if actor.starts_at.is_some_and(|at| at <= Instant::now()) {
                actor.starts_at = None;
                self.start(at);
            }
        }
    }

    fn start(&mut self, at: usize) {
        let (folder, seed, faker) = (self.folder.clone(), self.seed, self.faker.clone());
        let pooler = self.pooler;
        let actor = &mut self.actors[at];
        actor.life += 1;
        let role = actor
            .part
            .role
            .to_possible_value()
            .expect("a role has a name");
        let value = |diet: Option<clap::builder::PossibleValue>| {
            diet.expect("it has a name").get_name().to_owned()
        };
        let name = actor.name();
        let url = format!(
            "postgres://postgres@127.0.0.1:{}/chaos?sslmode=disable",
            actor.proxy.port()
        );
        let errors = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(folder.join(format!("{}-{}.err", role.get_name(), actor.number)))
            .expect("open a log");
        let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
        command
            .args(["actor", role.get_name(), "--url", &url, "--name", &name])
            // A life of its own names its own jobs.
            .args(["--number", &(actor.number * 1000 + actor.life).to_string()])
            .arg("--folder")
            .arg(&folder)
            .args([
                "--seed",
                &seed.to_string(),
                "--rate",
                &actor.part.rate.to_string(),
            ])
            .args([
                "--jobs",
                &actor.part.jobs.to_string(),
                "--grace",
                &actor.part.grace.as_millis().to_string(),
            ])
            .args(["--port", &actor.part.port.to_string()])
            .args(["--pooler", pooler.as_str()])
            .args(["--diet", &value(actor.part.diet.to_possible_value())])
            .args(["--flaw", &value(actor.part.flaw.to_possible_value())])
            .args(["--gateway", &value(actor.part.gateway.to_possible_value())])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(errors);
        if let (Clock::YearOff, Some(faker)) = (actor.clock, faker) {
            command.env("LD_PRELOAD", faker).env("FAKETIME", "+365d");
            // Durations are the machine's: only what time it is is wrong.
            command
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1")
                .env("DONT_FAKE_MONOTONIC", "1");
        }
        actor.clock = Clock::True;
        actor.child = Some(command.spawn().expect("start an actor"));
    }

    /// The actors with this role.
    pub(crate) fn all(&self, role: Role) -> Vec<usize> {
        (0..self.actors.len())
            .filter(|at| self.actors[*at].part.role == role)
            .collect()
    }

    /// One of them, chosen by a number.
    pub(crate) fn one(&self, role: Role, whom: u32) -> Option<usize> {
        let all = self.all(role);
        all.get(whom as usize % all.len().max(1)).copied()
    }

    /// Any actor.
    pub(crate) fn any(&self, whom: u32) -> usize {
        whom as usize % self.actors.len().max(1)
    }

    /// Which of its lives it is in.
    pub(crate) fn life(&self, at: usize) -> u32 {
        self.actors[at].life
    }

    pub(crate) fn name(&self, at: usize) -> String {
        self.actors[at].name()
    }

    pub(crate) fn signal(&self, at: usize, signal: Signal) {
        let pid = self.actors[at]
            .child
            .as_ref()
            .and_then(|child| Pid::from_raw(child.id().cast_signed()));
        if let Some(pid) = pid {
            // It may have ended.
            _ = kill_process(pid, signal);
        }
    }

    /// Its next life has this clock; whether there is a way to do that.
    pub(crate) fn fake(&mut self, at: usize) -> bool {
        self.actors[at].clock = Clock::YearOff;
        self.faker.is_some()
    }

    pub(crate) fn proxy(&self, at: usize) -> &Proxy {
        &self.actors[at].proxy
    }

    pub(crate) fn proxies(&self) -> impl Iterator<Item = &Proxy> {
        self.actors.iter().map(|actor| &actor.proxy)
    }

    /// Nothing is between anybody any more, and nobody stands still.
    pub(crate) fn heal(&self) {
        for at in 0..self.actors.len() {
            self.proxy(at).behave(Manner::Pass);
            self.proxy(at).lose_answers(0);
            self.signal(at, Signal::CONT);
        }
    }

    /// Ends the actors with this role and waits for it; who does not end is killed.
    pub(crate) fn dismiss(&mut self, role: Role, patience: Duration) {
        for at in self.all(role) {
            self.actors[at].starts_at = None;
            self.signal(at, Signal::TERM);
        }
        let until = Instant::now() + patience;
        let is_in = |actor: &Actor| actor.part.role == role && actor.child.is_some();
        while self.actors.iter().any(is_in) {
            if Instant::now() > until {
                for at in self.all(role) {
                    self.signal(at, Signal::KILL);
                }
            }
            std::thread::sleep(Duration::from_millis(10));
            self.tend();
            for actor in self
                .actors
                .iter_mut()
                .filter(|actor| actor.part.role == role)
            {
                actor.starts_at = None;
            }
        }
        self.actors.retain(|actor| actor.part.role != role);
    }
}

impl Drop for Troupe {
    fn drop(&mut self) {
        for actor in &mut self.actors {
            if let Some(child) = &mut actor.child {
                // It may have ended.
                _ = child.kill();
                _ = child.wait();
            }
        }
    }
}

/// The library of Debian's package `faketime`.
fn faker() -> Option<PathBuf> {
    let places = std::fs::read_dir("/usr/lib").ok()?.flatten();
    let mut found = places.map(|place| place.path().join("faketime/libfaketimeMT.so.1"));
    found.find(|library| library.exists())
}
