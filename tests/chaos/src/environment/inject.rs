//! Injects faults: into processes, their connections, and the server.

use std::thread;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use redrive_servers::{Mode, Server};
use rustix::process::Signal;

use super::{Environment, POLL};
use crate::clock;
use crate::db_trace::ask;
use crate::fault::Fault;
use crate::role::Role;

/// How long a process that just ended may take until it runs again.
const RESTART: Duration = Duration::from_secs(5);
/// How long it may take until the server can be copied: it may still recover from an earlier fault.
const COPY: Duration = Duration::from_mins(1);
/// How many threads take connections, because the processes take those that become free, too.
const TAKERS: usize = 8;
/// The tables that are locked.
const TABLES: [&str; 4] = ["jobs", "leases", "dead_letters", "workers"];

impl Environment {
    /// Injects a fault, waits for this long, and ends it. `target` selects what it affects.
    pub(crate) fn inject(&mut self, fault: Fault, duration: Duration, target: u32) {
        let (candidates, target) = match fault {
            Fault::Kill | Fault::Pause | Fault::Terminate | Fault::FakeClock => {
                (self.processes.with_role(Role::Worker), target)
            }
            Fault::KillClient => {
                let killed = [Role::Enqueuer, Role::Operator][target as usize % 2];
                (self.processes.with_role(killed), target / 2)
            }
            _ => (self.processes.all(), target),
        };
        let place = target as usize % candidates.len().max(1);
        let Some(&process) = candidates.get(place) else {
            return;
        };
        self.supervise_until(RESTART, |env| env.processes.pid(process).is_some());
        let (name, ms) = (self.processes.name(process), duration.as_millis());
        self.processes
            .record_fault(format!("{fault} for {ms} ms (process {name})"));
        let all = self.processes.all();
        match fault {
            Fault::Kill | Fault::KillClient => self.processes.signal(process, Signal::KILL),
            Fault::Terminate => self.processes.signal(process, Signal::TERM),
            Fault::Pause => self.pause(process, duration),
            Fault::FakeClock => {
                self.processes.fake_clock(process);
                self.processes.signal(process, Signal::KILL);
            }
            Fault::Cut => _ = self.processes.proxy(process).cut(),
            Fault::LoseAnswers => {
                let answers = 1 + (target % 5) as usize;
                self.processes.proxy(process).lose_answers(answers);
            }
            Fault::Refuse => self.set_mode(&all, Mode::Refuse, duration),
            Fault::Delay => {
                let slow = Duration::from_millis(u64::from(10 + target % 90));
                self.set_mode(&all, Mode::Delay(slow), duration);
            }
            Fault::Silence => self.set_mode(&[process], Mode::Silent, duration),
            Fault::Crash => self.crash(duration),
            Fault::KillBackend => self.kill_backend(),
            Fault::Freeze => {
                let frozen = self.server.freeze();
                self.pass(duration);
                drop(frozen);
            }
            Fault::Lock => self.lock(duration, TABLES[target as usize % TABLES.len()]),
            Fault::Connections => self.take_connections(duration),
            Fault::DiskFull => self.fill_disk(duration),
            Fault::Promote => self.promote(duration),
            Fault::RestartAll => {
                for role in [Role::Worker, Role::Enqueuer, Role::Operator] {
                    for process in self.processes.with_role(role) {
                        self.processes.signal(process, Signal::KILL);
                    }
                }
                self.crash(duration);
            }
        }
    }

    /// Stops all workers but one, so that many handlers outlive their leases. A single worker is
    /// stopped, too.
    fn pause(&mut self, process: usize, duration: Duration) {
        let mut paused = self.processes.with_role(Role::Worker);
        if paused.len() > 1 {
            paused.retain(|other| *other != process);
        }
        for process in &paused {
            self.processes.signal(*process, Signal::STOP);
        }
        self.pass(duration);
        for process in paused {
            self.processes.signal(process, Signal::CONT);
        }
    }

    fn set_mode(&mut self, processes: &[usize], mode: Mode, duration: Duration) {
        for process in processes {
            self.processes.proxy(*process).set_mode(mode);
        }
        self.pass(duration);
        for process in processes {
            let proxy = self.processes.proxy(*process);
            proxy.set_mode(Mode::Forward);
            // Requests that were read meanwhile are lost, so the connections must end.
            if mode == Mode::Silent {
                proxy.cut();
            }
        }
    }

    fn crash(&mut self, duration: Duration) {
        self.server.crash();
        self.pass(duration);
        self.start_server();
    }

    pub(super) fn start_server(&mut self) {
        self.server.start();
        self.record_server_start();
    }

    pub(super) fn record_server_start(&mut self) {
        let query = "SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint";
        let start = ask(&mut self.server.client(), query);
        self.terms.server_starts.push(start);
    }

    fn kill_backend(&mut self) {
        let query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()
                     AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1";
        self.supervise_until(RESTART, |env| {
            let found = env.server.client().query_opt(query, &[]);
            let pid = found.ok().flatten().map(|row| row.get(0));
            pid.into_iter().for_each(Server::kill_backend);
            pid.is_some()
        });
    }

    fn lock(&mut self, duration: Duration, table: &str) {
        let lock = format!(
            "SET lock_timeout = '2s'; BEGIN; LOCK TABLE redrive.{table} IN ACCESS EXCLUSIVE MODE"
        );
        let mut client = self.server.client();
        if client.batch_execute(&lock).is_ok() {
            self.pass(duration);
        }
    }

    fn take_connections(&mut self, duration: Duration) {
        let (url, until) = (self.server.url(), Instant::now() + duration);
        let take = || {
            let mut taken = Vec::new();
            while Instant::now() < until {
                match Client::connect(&url, NoTls) {
                    Ok(client) => taken.push(client),
                    Err(_) => thread::sleep(POLL),
                }
            }
            taken
        };
        thread::scope(|scope| {
            let takers: Vec<_> = (0..TAKERS).map(|_| scope.spawn(take)).collect();
            self.pass(duration);
            drop(takers);
        });
    }

    /// Fills the disk, and writes to the write-ahead log until no segment is left. The server then shuts down.
    fn fill_disk(&mut self, duration: Duration) {
        let write = "SELECT pg_logical_emit_message(false, 'chaos', repeat('x', 1000000))
                     FROM generate_series(1, 32)";
        self.server.disk().fill();
        self.supervise_until(4 * duration, |env| {
            let client = Client::connect(&env.server.url(), NoTls);
            client.is_ok_and(|mut client| client.batch_execute(write).is_err())
        });
        self.pass(duration);
        self.server.disk().clear();
        // It may be about to shut down.
        self.crash(Duration::ZERO);
    }

    /// Fails over to a standby that lacks the last commits.
    fn promote(&mut self, lag: Duration) {
        let mut from = 0;
        let is_copied = self.supervise_until(COPY, |env| {
            from = clock::now();
            env.server.copy().is_ok()
        });
        assert!(is_copied, "the server cannot be copied");
        self.pass(lag);
        self.server.fail_over();
        self.record_server_start();
        // A handler may begin under a lost claim until its worker misses the lease.
        let until = clock::now() + 2 * self.terms.lease;
        self.terms.lossy.push(from..=until);
    }
}
