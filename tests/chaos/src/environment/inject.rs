//! Injects faults: into processes, their connections, and the server.
//!
//! Each fault proves that it took effect: by the state of a process, a count of the proxy, an answer or
//! the log of the server. A fault without a proof is a state that did not come, and fails the run.

use std::time::{Duration, Instant};

use postgres::{Client, NoTls};
use rustix::process::Signal;

use super::{Environment, POLL};
use crate::clock;
use crate::fault::Fault;
use crate::proxy::Mode;
use crate::role::Role;
use crate::server::{Server, is_stopped};

/// How long to wait for the proof of a fault.
pub(super) const PROOF: Duration = Duration::from_secs(20);

/// `Err`: why the fault is not proven.
pub(super) type Proof = Result<(), String>;

impl Environment {
    /// Injects a fault, waits for this long, and ends it. `target` selects what it affects.
    pub(crate) fn inject(&mut self, fault: Fault, duration: Duration, target: u32) {
        let process = match fault {
            Fault::Kill | Fault::Pause | Fault::Terminate | Fault::FakeClock => {
                self.processes.pick(Role::Worker, target)
            }
            Fault::KillClient => {
                let role = match target.is_multiple_of(2) {
                    true => Role::Enqueuer,
                    false => Role::Operator,
                };
                self.processes.pick(role, target / 2)
            }
            _ => self.processes.pick_busy(target),
        };
        let Some(process) = process else {
            self.missing
                .push(format!("{fault}: no process can be its target"));
            return;
        };
        // A process that just ended starts again.
        self.supervise_until(PROOF, |env| env.processes.pid(process).is_some());
        let name = match fault {
            Fault::Kill
            | Fault::Pause
            | Fault::Terminate
            | Fault::FakeClock
            | Fault::KillClient
            | Fault::Cut
            | Fault::Slice
            | Fault::HalfClose
            | Fault::LoseAnswers
            | Fault::Silence => self.processes.name(process),
            _ => String::new(),
        };
        let what = format!("{fault} {name} for {} ms", duration.as_millis());
        self.processes.record_fault(&*what);
        match self.cause(fault, process, duration, target) {
            Ok(()) => self.proven += 1,
            Err(why) => self.missing.push(format!("{what}: {why}")),
        }
    }

    fn cause(&mut self, fault: Fault, process: usize, duration: Duration, target: u32) -> Proof {
        match fault {
            Fault::Kill | Fault::KillClient => self.end(process, Signal::KILL),
            Fault::Terminate => self.end(process, Signal::TERM),
            Fault::Pause => self.pause(process, duration),
            Fault::FakeClock => self.fake_clock(process),
            Fault::Cut => self.affect(&[process], |env| env.processes.proxy(process).cut()),
            Fault::HalfClose => {
                self.affect(&[process], |env| env.processes.proxy(process).close_half())
            }
            Fault::LoseAnswers => {
                let answers = 1 + (target % 5) as usize;
                self.processes.proxy(process).lose_answers(answers);
                self.affect(&[process], |_| {})
            }
            Fault::Refuse => self.set_mode(None, Mode::Refuse, duration),
            Fault::Delay => {
                let slow = Mode::Delay(Duration::from_millis(u64::from(10 + target % 90)));
                self.set_mode(None, slow, duration)
            }
            Fault::Slice => self.set_mode(Some(process), Mode::Slice, duration),
            Fault::Silence => self.set_mode(Some(process), Mode::Silent, duration),
            Fault::Crash => self.crash(duration),
            Fault::KillBackend => self.kill_backend(),
            Fault::Freeze => {
                let frozen = self.server.freeze();
                let is_frozen = self.supervise_until(PROOF, |env| env.server.is_frozen());
                self.pass(duration);
                drop(frozen);
                proven(is_frozen, "the server was not stopped")
            }
            Fault::Lock => self.lock(duration, target),
            Fault::Connections => self.take_connections(duration),
            Fault::DiskFull => self.fill_disk(duration),
            Fault::Promote => self.promote(duration),
            Fault::RestartAll => {
                let mut killed = Ok(());
                for role in [Role::Worker, Role::Enqueuer, Role::Operator] {
                    for at in self.processes.with_role(role) {
                        if self.processes.pid(at).is_some() {
                            killed = killed.and(self.end(at, Signal::KILL));
                        }
                    }
                }
                killed.and(self.crash(duration))
            }
        }
    }

    /// Sends a signal that ends a process. A process may take long to stop, under further faults, so
    /// the proof is its exit by the end of the run.
    fn end(&mut self, process: usize, signal: Signal) -> Proof {
        if self.processes.pid(process).is_none() {
            return Err("the process did not run".to_owned());
        }
        self.processes.signal(process, signal);
        self.ended.push((
            process,
            self.processes.life(process),
            self.processes.name(process),
        ));
        Ok(())
    }

    /// Notes the processes that a fault should have ended and that did not exit.
    pub(super) fn prove_exits(&mut self) {
        for (process, life, name) in std::mem::take(&mut self.ended) {
            if self.processes.exit(process, life).is_none() {
                self.missing
                    .push(format!("{name} did not exit after a signal"));
            }
        }
    }

    /// Stops all workers but one, so that many handlers outlive their leases. A single worker is
    /// stopped, too.
    fn pause(&mut self, process: usize, duration: Duration) -> Proof {
        let mut paused = self.processes.with_role(Role::Worker);
        if paused.len() > 1 {
            paused.retain(|other| *other != process);
        }
        let are_paused = self.supervise_until(PROOF, |env| {
            // Each time, because a process may be exiting; its next life is paused then.
            paused.iter().all(|process| {
                env.processes.signal(*process, Signal::STOP);
                env.processes.pid(*process).is_some_and(is_stopped)
            })
        });
        self.pass(duration);
        for process in paused {
            self.processes.signal(process, Signal::CONT);
        }
        proven(are_paused, "a process was not stopped")
    }

    /// Kills a worker. Its next life has another clock.
    fn fake_clock(&mut self, process: usize) -> Proof {
        if !self.processes.fake_clock(process) {
            return Err(
                "install libfaketime (Debian: `faketime`), or leave the fault out".to_owned(),
            );
        }
        self.end(process, Signal::KILL)?;
        let life = self.processes.life(process);
        let has_library = |env: &mut Environment| {
            let pid = env
                .processes
                .pid(process)
                .filter(|_| env.processes.life(process) > life);
            pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/maps")).ok())
                .is_some_and(|maps| maps.contains("libfaketime"))
        };
        proven(
            self.supervise_until(PROOF, has_library),
            "the process does not use libfaketime",
        )
    }

    /// Causes a fault of the network, again if it met no connection, until a proxy counts an effect.
    fn affect(&mut self, processes: &[usize], cause: impl Fn(&Environment)) -> Proof {
        let before = self.effects(processes);
        let is_proven = self.supervise_until(PROOF, |env| {
            if env.effects(processes) == before {
                cause(env);
            }
            env.effects(processes) > before
        });
        proven(is_proven, "no connection was affected")
    }

    fn effects(&self, processes: &[usize]) -> u64 {
        processes
            .iter()
            .map(|process| self.processes.proxy(*process).effects())
            .sum()
    }

    fn set_mode(&mut self, process: Option<usize>, mode: Mode, duration: Duration) -> Proof {
        let processes = match process {
            Some(process) => vec![process],
            None => self.processes.all(),
        };
        let set = |env: &Environment, mode: Mode| {
            for process in &processes {
                env.processes.proxy(*process).set_mode(mode);
            }
        };
        // The connections that the mode closes are not yet its effect.
        set(self, mode);
        let before = self.effects(&processes);
        self.pass(duration);
        let is_proven = self.supervise_until(PROOF, |env| env.effects(&processes) > before);
        set(self, Mode::Forward);
        proven(is_proven, "no connection was affected")
    }

    fn crash(&mut self, duration: Duration) -> Proof {
        self.server.stop_immediately();
        self.pass(duration);
        self.start_server();
        let mut starts = self.server_starts.iter().rev();
        proven(
            starts.next() != starts.next(),
            "the server was not started again",
        )
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

    fn kill_backend(&mut self) -> Proof {
        let query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database()
                     AND pid <> pg_backend_pid() ORDER BY random() LIMIT 1";
        let mut killed = None;
        self.supervise_until(PROOF, |env| {
            if let Ok(Some(row)) = env.server.client().query_opt(query, &[]) {
                let pid: i32 = row.get(0);
                Server::kill_backend(pid);
                killed = Some(format!("(PID {pid}) was terminated by signal 9"));
            }
            killed.is_some()
        });
        let Some(line) = killed else {
            return Err("no client was connected".to_owned());
        };
        let is_logged = self.supervise_until(PROOF, |env| env.server.logged(&line) > 0);
        proven(is_logged, "the server did not log the end of a backend")
    }

    fn lock(&mut self, duration: Duration, target: u32) -> Proof {
        let table = [
            "redrive.jobs",
            "redrive.leases",
            "redrive.dead_letters",
            "redrive.workers",
        ][target as usize % 4];
        let until = Instant::now() + PROOF;
        while Instant::now() < until {
            let mut client = self.server.client();
            let locked = client.batch_execute(&format!(
                "SET lock_timeout = '2s'; BEGIN; LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"
            ));
            if locked.is_ok() {
                self.pass(duration);
                return Ok(());
            }
            self.pass(POLL);
        }
        Err(format!("{table} could not be locked"))
    }

    fn fill_disk(&mut self, duration: Duration) -> Proof {
        const FULL: &str = "No space left on device";
        let before = self.server.logged(FULL);
        let ballast = self.server.fill_disk().map_err(|error| error.to_string())?;
        // The log continues in segments that it has already, until they are used up.
        let is_full = self.supervise_until(PROOF, |env| {
            if let Ok(mut client) = Client::connect(&env.server.url(), NoTls) {
                // The server may shut down meanwhile.
                _ = client.batch_execute(
                    "SELECT pg_logical_emit_message(false, 'chaos', repeat('x', 1000000))
                     FROM generate_series(1, 32)",
                );
            }
            env.server.logged(FULL) > before
        });
        self.pass(duration);
        drop(ballast);
        // A server that cannot write its log shuts down.
        self.pass(Duration::from_millis(500));
        if !self.server.is_up() {
            self.start_server();
        }
        // Wait for its recovery.
        drop(self.server.client());
        proven(is_full, "the server did not notice the full disk")
    }

    /// Fails over to a standby that lacks the last commits.
    fn promote(&mut self, lag: Duration) -> Proof {
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
        let is_primary = self
            .server
            .client()
            .query_one("SELECT NOT pg_is_in_recovery()", &[])
            .is_ok_and(|row| row.get(0));
        proven(is_primary, "the standby is still in recovery")
    }
}

pub(super) fn proven(is_proven: bool, otherwise: &str) -> Proof {
    match is_proven {
        true => Ok(()),
        false => Err(otherwise.to_owned()),
    }
}
