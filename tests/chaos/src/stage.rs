//! The stage: a server, its actors, and whatever is done to them; and at the end, what was
//! written down.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use postgres::types::FromSqlOwned;
use postgres::{Client, NoTls};
use redrive::Pooler;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::Programs;
use crate::actor::{Gateway, LEASE, Role};
use crate::bouncer::Bouncer;
use crate::checker::{Records, Remains, Terms};
use crate::clock;
use crate::fault::Fault;
use crate::interrupt;
use crate::page;
use crate::proxy::{Manner, Patch};
use crate::record::{self, Effect, Line, Log, Said};
use crate::server::{Disk, Server};
use crate::trail::{self, Place};
use crate::troupe::{Part, Troupe};

/// How often the supervisor looks.
const LOOK: Duration = Duration::from_millis(20);
/// Without a change for so long nothing happens any more: a lease is given up after three seconds,
/// and a suspect waits for ten at most.
const STILL: Duration = Duration::from_secs(20);

/// Where it all happens.
#[derive(Debug)]
pub(crate) struct Stage {
    /// What the proxies lead to, if it is not the server.
    bouncer: Option<Bouncer>,
    server: Server,
    folder: TempDir,
    pub(crate) troupe: Troupe,
    patches: Vec<Patch>,
    forgiven: Vec<(i64, i64)>,
    starts: Vec<i64>,
    begin: Instant,
    /// Where the exporter serves.
    page: Option<u16>,
}

impl Stage {
    /// A server with the schema and the trail, and nobody there yet.
    pub(crate) fn set_up(
        programs: &Programs,
        pooler: Pooler,
        disk: Disk,
        seed: u64,
        patches: &[Patch],
    ) -> Stage {
        let server = Server::start_new(&programs.postgres, disk);
        let db = redrive::connect(&server.url()).expect("connect to the new server");
        db.migrate().expect("migrate");
        let mut client = server.client();
        trail::install(&mut client);
        let folder = tempfile::Builder::new()
            .prefix("redrive-chaos-records-")
            .tempdir()
            .expect("make a folder");
        let troupe = Troupe::new(folder.path(), seed, pooler);
        let bouncer = match pooler {
            Pooler::Session => None,
            Pooler::Transaction => Some(Bouncer::start(&programs.pgbouncer, &server)),
        };
        let mut stage = Stage {
            bouncer,
            server,
            folder,
            troupe,
            patches: patches.to_vec(),
            forgiven: Vec::new(),
            starts: Vec::new(),
            begin: Instant::now(),
            page: None,
        };
        stage.note_start();
        stage
    }

    /// Changes a function of the database.
    pub(crate) fn replace(&self, function: &str, changes: &[(&str, &str)]) {
        let mut client = self.server.client();
        let asked = "SELECT pg_get_functiondef($1::text::regproc)";
        let mut text: String = client
            .query_one(asked, &[&function])
            .expect("read a function")
            .get(0);
        for (from, to) in changes {
            assert!(
                text.contains(from),
                "the function {function} has no `{from}`: mend the mutant"
            );
            text = text.replace(from, to);
        }
        client.batch_execute(&text).expect("replace a function");
    }

    /// Somebody comes.
    pub(crate) fn add(&mut self, part: Part) {
        let bouncer = self.bouncer.as_ref().map(Bouncer::port);
        let port = bouncer.unwrap_or_else(|| self.server.port());
        self.troupe.add(part, port, &self.patches);
        self.troupe.tend();
    }

    /// An exporter comes, whose page is what counts in the end.
    pub(crate) fn publish(&mut self) {
        let port = page::free_port();
        self.page = Some(port);
        self.add(Part::exporter(port));
    }

    /// Lets time pass, with the supervisor at work, until it is over or the condition holds.
    pub(crate) fn pass(
        &mut self,
        time: Duration,
        mut is_enough: impl FnMut(&mut Stage) -> bool,
    ) -> bool {
        let until = Instant::now() + time;
        while Instant::now() < until {
            interrupt::check();
            self.troupe.tend();
            if is_enough(self) {
                return true;
            }
            thread::sleep(LOOK);
        }
        false
    }

    /// Lets time pass until so long after the begin of the play.
    pub(crate) fn pass_until(&mut self, at: Duration) {
        let left = at.saturating_sub(self.begin.elapsed());
        self.pass(left, |_| false);
    }

    /// Lets time pass until the worker has begun a job in this life of it.
    pub(crate) fn pass_until_it_works(&mut self, worker: usize) {
        let ledger = self.folder.path().join("effects.jsonl");
        self.pass(Duration::from_secs(10), |stage| {
            let name = stage.troupe.name(worker);
            record::read::<Effect>(&ledger)
                .iter()
                .any(|effect| effect.actor == name)
        });
    }

    /// The play begins here.
    pub(crate) fn begin(&mut self) {
        self.begin = Instant::now();
    }

    /// The URL of the database, past every proxy.
    pub(crate) fn url(&self) -> String {
        self.server.url()
    }

    /// A log for somebody who is no process of the troupe.
    pub(crate) fn log(&self, actor: &str) -> Log {
        Log::open(
            &self.folder.path().join(format!("client-{actor}.jsonl")),
            actor,
        )
    }

    /// Does something to somebody, for a time, and undoes it.
    pub(crate) fn do_to_them(&mut self, fault: Fault, lasting: Duration, whom: u32) {
        let actor = self.troupe.any(whom);
        let worker = self.troupe.one(Role::Worker, whom);
        let on = match fault {
            Fault::Kill | Fault::Pause | Fault::Terminate | Fault::FakeClock => worker
                .map(|worker| self.troupe.name(worker))
                .unwrap_or_default(),
            Fault::Cut | Fault::Slice | Fault::HalfClose | Fault::LoseAnswers | Fault::Silence => {
                self.troupe.name(actor)
            }
            _ => String::new(),
        };
        self.troupe
            .note(format!("{fault} {on} for {} ms", lasting.as_millis()));
        match fault {
            Fault::Kill => self.signal(worker, Signal::KILL),
            Fault::Terminate => self.signal(worker, Signal::TERM),
            Fault::KillClient => {
                let role = if whom.is_multiple_of(2) {
                    Role::Enqueuer
                } else {
                    Role::Operator
                };
                let client = self.troupe.one(role, whom / 2);
                self.signal(client, Signal::KILL);
            }
            Fault::Pause => {
                self.signal(worker, Signal::STOP);
                self.pass(lasting, |_| false);
                self.signal(worker, Signal::CONT);
            }
            Fault::FakeClock => {
                if let Some(worker) = worker {
                    self.troupe.fake(worker);
                    self.troupe.signal(worker, Signal::KILL);
                }
            }
            Fault::Cut => self.troupe.proxy(actor).cut(),
            Fault::HalfClose => self.troupe.proxy(actor).close_half(),
            Fault::LoseAnswers => self
                .troupe
                .proxy(actor)
                .lose_answers(1 + (whom % 5) as usize),
            Fault::Refuse => self.behave(None, Manner::Refuse, lasting),
            Fault::Delay => {
                let slow = Manner::Delay(Duration::from_millis(u64::from(10 + whom % 90)));
                self.behave(None, slow, lasting);
            }
            Fault::Slice => self.behave(Some(actor), Manner::Slice, lasting),
            Fault::Silence => self.behave(Some(actor), Manner::Silent, lasting),
            Fault::Crash => {
                self.server.stop_immediately();
                self.pass(lasting, |_| false);
                self.start_server();
            }
            Fault::KillBackend => self.kill_backend(),
            Fault::Freeze => {
                let frozen = self.server.freeze();
                self.pass(lasting, |_| false);
                drop(frozen);
            }
            Fault::Lock => self.lock(lasting, whom),
            Fault::Connections => self.take_connections(lasting),
            Fault::DiskFull => self.fill_disk(lasting),
            Fault::Promote => self.promote(lasting),
            Fault::RestartAll => {
                for role in [Role::Worker, Role::Enqueuer, Role::Operator] {
                    for at in self.troupe.all(role) {
                        self.troupe.signal(at, Signal::KILL);
                    }
                }
                self.server.stop_immediately();
                self.pass(lasting, |_| false);
                self.start_server();
            }
        }
    }

    fn signal(&self, actor: Option<usize>, signal: Signal) {
        if let Some(actor) = actor {
            self.troupe.signal(actor, signal);
        }
    }

    fn behave(&mut self, actor: Option<usize>, manner: Manner, lasting: Duration) {
        let each = |stage: &Stage, manner: Manner| match actor {
            Some(actor) => stage.troupe.proxy(actor).behave(manner),
            None => stage
                .troupe
                .proxies()
                .for_each(|proxy| proxy.behave(manner)),
        };
        each(self, manner);
        self.pass(lasting, |_| false);
        each(self, Manner::Pass);
    }

    fn start_server(&mut self) {
        self.server.start();
        self.note_start();
    }

    fn note_start(&mut self) {
        let asked = "SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint";
        let started = self
            .server
            .client()
            .query_one(asked, &[])
            .expect("ask when the server started");
        self.starts.push(started.get(0));
    }

    fn kill_backend(&self) {
        let asked = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()
                     AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1";
        if let Ok(Some(row)) = self.server.client().query_opt(asked, &[]) {
            Server::kill_backend(row.get(0));
        }
    }

    fn lock(&mut self, lasting: Duration, whom: u32) {
        let table = [
            "redrive.jobs",
            "redrive.leases",
            "redrive.dead_letters",
            "redrive.workers",
        ][whom as usize % 4];
        let mut client = self.server.client();
        let locked = client.batch_execute(&format!(
            "SET lock_timeout = '2s'; BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"
        ));
        if locked.is_ok() {
            self.pass(lasting, |_| false);
        }
    }

    fn take_connections(&mut self, lasting: Duration) {
        let url = self.server.url();
        let mut taken = Vec::new();
        let until = Instant::now() + lasting;
        while Instant::now() < until {
            match Client::connect(&url, NoTls) {
                Ok(client) => taken.push(client),
                Err(_) => _ = self.pass(LOOK, |_| false),
            }
        }
    }

    fn fill_disk(&mut self, lasting: Duration) {
        let ballast = self.server.fill_disk();
        self.pass(lasting, |_| false);
        drop(ballast);
        // Without room for its log the server gives up.
        self.pass(Duration::from_millis(500), |_| false);
        if !self.server.is_up() {
            self.start_server();
        }
        // It may be about to recover.
        drop(self.server.client());
    }

    /// A standby takes over, which has not heard of the last moments.
    fn promote(&mut self, lag: Duration) {
        let standby = self.server.standby();
        self.pass(Duration::from_millis(800), |_| false);
        // What was on its way at this moment may not have arrived.
        let from = clock::now() - 1_000_000;
        let behind = standby.freeze_receiver();
        self.pass(lag, |_| false);
        self.server.stop_immediately();
        let to = clock::now();
        behind.end();
        standby.promote();
        self.forgiven.push((from, to));
        // It was there before: of its start nobody had to be spared.
        self.server = standby;
        match &self.bouncer {
            Some(bouncer) => bouncer.aim(&self.server),
            None => {
                let port = self.server.port();
                self.troupe.proxies().for_each(|proxy| proxy.aim(port));
            }
        }
        self.troupe.note("the standby took over");
    }

    /// Undoes everything, lets new workers end what there is, and reads the records.
    pub(crate) fn wind_up(mut self, patience: Duration) -> Wound {
        self.troupe.heal();
        if !self.server.is_up() {
            self.start_server();
        }
        for role in [Role::Enqueuer, Role::Operator] {
            self.troupe.dismiss(role, Duration::from_secs(15));
        }
        // What they hold, they give back.
        self.troupe.dismiss(Role::Worker, Duration::from_secs(20));
        self.troupe.note("drain");
        for _ in 0..3 {
            self.add(Part {
                gateway: Gateway::Up,
                ..Part::worker()
            });
        }
        let mut client = self.server.client();
        // It is stuck when nothing happens for so long that all leases and waits have run out.
        let mut last = (Instant::now(), 0);
        let still = i64::try_from(STILL.as_micros()).unwrap_or(i64::MAX);
        self.pass(patience, |_| {
            let changes = changes(&mut client);
            if changes != last.1 {
                last = (Instant::now(), changes);
            }
            // What is due later is not stuck: a long outage has long waits.
            let is_still = last.0.elapsed() > STILL && clock::now() > last_due(&mut client) + still;
            is_drained(&mut client) || is_still
        });
        self.troupe.dismiss(Role::Worker, Duration::from_secs(20));
        let mut records = self.records(&mut client);
        // After a failover the counters of the exporter are those it published before, or more.
        if let Some(port) = self.page.filter(|_| self.forgiven.is_empty()) {
            let totals = std::mem::take(&mut records.counters);
            records.counters = page::settled(port, &totals);
        }
        self.troupe.dismiss(Role::Exporter, Duration::from_secs(5));
        self.server.keep_log(&self.folder.path().join("server.log"));
        Wound {
            records,
            folder: self.folder,
        }
    }

    fn records(&self, client: &mut Client) -> Records {
        let mut lines: Vec<Line> = Vec::new();
        for entry in std::fs::read_dir(self.folder.path())
            .expect("read the records")
            .flatten()
        {
            if entry.file_name().to_string_lossy().starts_with("client-") {
                lines.extend(record::read::<Line>(&entry.path()));
            }
        }
        lines.sort_by_key(|line| line.at);
        let mut effects: Vec<Effect> = record::read(&self.folder.path().join("effects.jsonl"));
        effects.sort_by_key(|effect| (effect.job, effect.at));
        let is_calm = !lines
            .iter()
            .any(|line| matches!(line.said, Said::Fault { ref what } if what != "drain"));
        let mut db = redrive::connect(&self.server.url()).expect("connect");
        Records {
            lines,
            trail: trail::read(client),
            renewals: trail::renewals(client),
            effects,
            remains: remains(client),
            own: own(client),
            counters: counters(client),
            drift: drift(&mut db),
            terms: Terms {
                lease: i64::try_from(LEASE.as_micros()).unwrap_or(i64::MAX),
                crashes: redrive::MAX_CRASHES.cast_signed(),
                refunds: 10,
                starts: self.starts.clone(),
                forgiven: self.forgiven.clone(),
                is_calm,
            },
        }
    }
}

/// What a play left.
#[derive(Debug)]
pub(crate) struct Wound {
    pub(crate) records: Records,
    folder: TempDir,
}

impl Wound {
    /// Keeps the files of the records, with the trail beside them; answers where.
    pub(crate) fn keep(self) -> PathBuf {
        let events = self.records.trail.iter();
        let trail: Vec<String> = events.map(|event| format!("{event:?}")).collect();
        std::fs::write(self.folder.path().join("trail.txt"), trail.join("\n"))
            .expect("keep the trail");
        self.folder.keep()
    }
}

/// The one value that a question has for an answer.
fn ask<T: FromSqlOwned>(client: &mut Client, question: &str) -> T {
    client.query_one(question, &[]).expect(question).get(0)
}

fn changes(client: &mut Client) -> i64 {
    ask(client, "SELECT last_value FROM chaos.trail_seq_seq")
}

/// When the last of the delayed jobs is due.
fn last_due(client: &mut Client) -> i64 {
    ask(
        client,
        "SELECT coalesce(max(extract(epoch FROM run_at) * 1000000)::bigint, 0) FROM redrive.jobs_delayed",
    )
}

fn is_drained(client: &mut Client) -> bool {
    ask(
        client,
        "SELECT NOT EXISTS (SELECT FROM redrive.jobs) AND NOT EXISTS (SELECT FROM redrive.jobs_delayed)
             AND NOT EXISTS (SELECT FROM redrive.leases)",
    )
}

fn remains(client: &mut Client) -> Vec<Remains> {
    let asked =
        "SELECT id, 'r' FROM redrive.jobs UNION ALL SELECT id, 'd' FROM redrive.jobs_delayed
                 UNION ALL SELECT j.id, 'l' FROM redrive.leases l
                     CROSS JOIN LATERAL unnest(l.jobs) AS j WHERE j.id <> ALL (l.done)
                 UNION ALL SELECT id, 'x' FROM redrive.dead_letters";
    let rows = client.query(asked, &[]).expect("read what remains");
    rows.iter()
        .map(|row| Remains {
            job: row.get(0),
            place: match row.get(1) {
                "r" => Place::Ready,
                "d" => Place::Delayed,
                "l" => Place::Leased,
                _ => Place::Letter,
            },
        })
        .collect()
}

fn own(client: &mut Client) -> BTreeMap<(i64, i32), i64> {
    let asked = "SELECT job, generation, count(*) FROM chaos.effects GROUP BY 1, 2";
    let rows = client.query(asked, &[]).expect("read the effects");
    rows.iter()
        .map(|row| ((row.get(0), row.get(1)), row.get(2)))
        .collect()
}

/// The counters as the exporter publishes them.
fn counters(client: &mut Client) -> BTreeMap<String, i64> {
    let asked = "SELECT metric, sum(value)::bigint FROM redrive.metric_totals()
                 WHERE metric LIKE '%\\_total' GROUP BY 1 HAVING sum(value) IS NOT NULL";
    let rows = client.query(asked, &[]).expect("read the counters");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn drift(db: &mut redrive::Database) -> Vec<String> {
    let audits = db.audit_counters().expect("audit the counters");
    let off = audits.iter().filter(|audit| audit.drift != 0);
    off.map(|audit| format!("{audit:?}")).collect()
}
