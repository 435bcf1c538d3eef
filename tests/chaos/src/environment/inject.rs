//! Injects faults: into processes, their connections, and the server.

use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use rustix::process::Signal;

use super::{Environment, POLL};
use crate::clock;
use crate::fault::Fault;
use crate::proxy::Mode;
use crate::role::Role;
use crate::server::Server;

impl Environment {
    /// Injects a fault, waits for this long, and ends it. `target` selects what it affects.
    pub(crate) fn inject(&mut self, fault: Fault, duration: Duration, target: u32) {
        let process = self.processes.pick_any(target);
        let worker = self.processes.pick(Role::Worker, target);
        let name = match fault {
            Fault::Kill | Fault::Pause | Fault::Terminate | Fault::FakeClock => worker
                .map(|worker| self.processes.name(worker))
                .unwrap_or_default(),
            Fault::Cut | Fault::Slice | Fault::HalfClose | Fault::LoseAnswers | Fault::Silence => {
                self.processes.name(process)
            }
            _ => String::new(),
        };
        self.processes
            .record_fault(format!("{fault} {name} for {} ms", duration.as_millis()));
        match fault {
            Fault::Kill => self.signal(worker, Signal::KILL),
            Fault::Terminate => self.signal(worker, Signal::TERM),
            Fault::KillClient => {
                let role = if target.is_multiple_of(2) {
                    Role::Enqueuer
                } else {
                    Role::Operator
                };
                let client = self.processes.pick(role, target / 2);
                self.signal(client, Signal::KILL);
            }
            Fault::Pause => {
                self.signal(worker, Signal::STOP);
                self.pass(duration);
                self.signal(worker, Signal::CONT);
            }
            Fault::FakeClock => {
                if let Some(worker) = worker {
                    self.processes.fake_clock(worker);
                    self.processes.signal(worker, Signal::KILL);
                }
            }
            Fault::Cut => self.processes.proxy(process).cut(),
            Fault::HalfClose => self.processes.proxy(process).close_half(),
            Fault::LoseAnswers => {
                let answers = 1 + (target % 5) as usize;
                self.processes.proxy(process).lose_answers(answers);
            }
            Fault::Refuse => self.set_mode(None, Mode::Refuse, duration),
            Fault::Delay => {
                let slow = Mode::Delay(Duration::from_millis(u64::from(10 + target % 90)));
                self.set_mode(None, slow, duration);
            }
            Fault::Slice => self.set_mode(Some(process), Mode::Slice, duration),
            Fault::Silence => self.set_mode(Some(process), Mode::Silent, duration),
            Fault::Crash => self.crash(duration),
            Fault::KillBackend => self.kill_backend(),
            Fault::Freeze => {
                let frozen = self.server.freeze();
                self.pass(duration);
                drop(frozen);
            }
            Fault::Lock => self.lock(duration, target),
            Fault::Connections => self.take_connections(duration),
            Fault::DiskFull => self.fill_disk(duration),
            Fault::Promote => self.promote(duration),
            Fault::RestartAll => {
                for role in [Role::Worker, Role::Enqueuer, Role::Operator] {
                    for at in self.processes.with_role(role) {
                        self.processes.signal(at, Signal::KILL);
                    }
                }
                self.crash(duration);
            }
        }
    }

    fn signal(&self, process: Option<usize>, signal: Signal) {
        if let Some(process) = process {
            self.processes.signal(process, signal);
        }
    }

    fn set_mode(&mut self, process: Option<usize>, mode: Mode, duration: Duration) {
        let set = |env: &Environment, mode: Mode| match process {
            Some(process) => env.processes.proxy(process).set_mode(mode),
            None => env
                .processes
                .proxies()
                .for_each(|proxy| proxy.set_mode(mode)),
        };
        set(self, mode);
        self.pass(duration);
        set(self, Mode::Forward);
    }

    fn crash(&mut self, duration: Duration) {
        self.server.stop_immediately();
        self.pass(duration);
        self.start_server();
    }

    pub(super) fn start_server(&mut self) {
        self.server.start();
        self.record_server_start();
    }

    pub(super) fn record_server_start(&mut self) {
        let query = "SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint";
        let started = self
            .server
            .client()
            .query_one(query, &[])
            .expect("ask when the server started");
        self.server_starts.push(started.get(0));
    }

    fn kill_backend(&self) {
        let query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()
                     AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1";
        if let Ok(Some(row)) = self.server.client().query_opt(query, &[]) {
            Server::kill_backend(row.get(0));
        }
    }

    fn lock(&mut self, duration: Duration, target: u32) {
        let table = [
            "redrive.jobs",
            "redrive.leases",
            "redrive.dead_letters",
            "redrive.workers",
        ][target as usize % 4];
        let mut client = self.server.client();
        let locked = client.batch_execute(&format!(
            "SET lock_timeout = '2s'; BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"
        ));
        if locked.is_ok() {
            self.pass(duration);
        }
    }

    fn take_connections(&mut self, duration: Duration) {
        let url = self.server.url();
        let mut taken = Vec::new();
        let until = Instant::now() + duration;
        while Instant::now() < until {
            match Client::connect(&url, NoTls) {
                Ok(client) => taken.push(client),
                Err(_) => self.pass(POLL),
            }
        }
    }

    fn fill_disk(&mut self, duration: Duration) {
        let ballast = self.server.fill_disk();
        self.pass(duration);
        drop(ballast);
        // A server that cannot write its log shuts down.
        self.pass(Duration::from_millis(500));
        if !self.server.is_up() {
            self.start_server();
        }
        // Wait for its recovery.
        drop(self.server.client());
    }

    /// Fails over to a standby that lacks the last commits.
    fn promote(&mut self, lag: Duration) {
        let standby = self.server.standby();
        self.pass(Duration::from_millis(800));
        // Commits of the last second may still be in flight.
        let from = clock::now() - 1_000_000;
        let receiver = standby.freeze_receiver();
        self.pass(lag);
        self.server.stop_immediately();
        let to = clock::now();
        receiver.terminate();
        standby.promote();
        self.lossy_windows.push((from, to));
        // The standby was running before, so this is not a start that must grant a grace period.
        self.server = standby;
        match &self.bouncer {
            Some(bouncer) => bouncer.redirect(&self.server),
            None => {
                let port = self.server.port();
                self.processes
                    .proxies()
                    .for_each(|proxy| proxy.redirect(port));
            }
        }
        self.processes.record_fault("the standby was promoted");
    }
}
