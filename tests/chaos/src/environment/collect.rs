//! The end of a run: heals everything, drains the queue, and reads the records.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use postgres::Client;
use postgres::types::FromSqlOwned;
use redrive::Operator;

use super::releaser::Releaser;
use super::{Environment, Finished};
use crate::checker::{FinalRow, RateLimit, Records, Terms, Tick, TickOutcome};
use crate::clock;
use crate::db_trace::{self, Place, leftovers};
use crate::gate;
use crate::history::{self, ClientEvent, HandlerEvent, HistoryLine, Phase};
use crate::metrics_page;
use crate::processes::ProcessSpec;
use crate::role::{Gateway, Role, Serves, standing};

/// The name of the drain in the history.
const DRAIN: &str = "drain";
/// How many workers drain the queue. Each runs one job on its last chance at a time.
const DRAIN_WORKERS: usize = 6;
/// The longest time that a handler runs during the drain, in milliseconds.
const DRAIN_RUN: u64 = 20;

impl Environment {
    /// Ends all faults, lets new workers drain the queue for at most `timeout`, and reads the
    /// records.
    pub(crate) fn finish(mut self, timeout: Duration) -> Finished {
        gate::open_all(self.folder.path());
        self.processes.heal();
        // Before the processes are removed. A stop may take its grace.
        let all_exited = |env: &mut Environment| {
            let mut ended = env.ended.iter();
            ended.all(|(process, life, _)| env.processes.exit(*process, *life).is_some())
        };
        self.supervise_until(Duration::from_secs(20), all_exited);
        self.prove_exits();
        if !self.server.is_up() {
            self.start_server();
        }
        for role in [Role::Enqueuer, Role::Operator] {
            self.processes.stop(role, Duration::from_secs(15));
        }
        let db = redrive::connect(&self.server.url()).expect("connect");
        standing::end(&db, &Operator::new("harness")).expect("end the schedule and the policy");
        // Workers release the jobs they hold.
        self.processes.stop(Role::Worker, Duration::from_secs(20));
        self.drain(timeout);
        self.processes.stop(Role::Worker, Duration::from_secs(20));
        let mut records = self.records();
        records.drift = self.drift();
        records.leftovers = leftovers::read(&mut self.server.client(), self.redacts);
        // After a failover the exporter may show counts that the database lost.
        if let Some(port) = self.metrics_port.filter(|_| self.lossy_windows.is_empty()) {
            let totals = std::mem::take(&mut records.counters);
            records.counters = metrics_page::settled(port, &totals);
        }
        self.processes.stop(Role::Exporter, Duration::from_secs(5));
        self.server.keep_log(&self.folder.path().join("server.log"));
        Finished {
            records,
            missing: self.missing,
            proven: self.proven,
            folder: self.folder,
        }
    }

    fn drain(&mut self, timeout: Duration) {
        self.processes.record_fault(DRAIN);
        for _ in 0..DRAIN_WORKERS {
            self.add(ProcessSpec {
                gateway: Gateway::Up,
                longest_run: DRAIN_RUN,
                serves: Serves::All,
                ..ProcessSpec::worker()
            });
        }
        let mut client = self.server.client();
        let releaser = Releaser::open(self);
        let mut last = (Instant::now(), 0);
        // Long enough for a lease to expire and a suspect, which waits for 10 seconds at most.
        let quiet = Duration::from_secs(17) + self.lease;
        let quiet_us = microseconds(quiet);
        self.supervise_until(timeout, |_| {
            releaser.release_all(&mut client);
            let changes = last_change(&mut client);
            if changes != last.1 {
                last = (Instant::now(), changes);
            }
            // A delayed job that is not due yet is not stuck.
            let is_stuck =
                last.0.elapsed() > quiet && clock::now() > last_due(&mut client) + quiet_us;
            is_drained(&mut client) || is_stuck
        });
    }

    /// Reads the records, except how far the counters are off.
    pub(crate) fn records(&self) -> Records {
        let mut client = self.server.client();
        let mut history: Vec<HistoryLine> = Vec::new();
        for entry in std::fs::read_dir(self.folder.path())
            .expect("read the records")
            .flatten()
        {
            if entry.file_name().to_string_lossy().starts_with("client-") {
                history.extend(history::read::<HistoryLine>(&entry.path()));
            }
        }
        history.sort_by_key(|line| line.at);
        let mut handlers: Vec<HandlerEvent> =
            history::read(&self.folder.path().join("handlers.jsonl"));
        handlers.sort_by_key(|event| (event.job, event.at));
        let (checkpoints, handlers) = handlers
            .into_iter()
            .partition(|event| event.phase == Phase::Checkpoint);
        let is_calm = !history
            .iter()
            .any(|line| matches!(line.event, ClientEvent::Fault { ref what } if what != DRAIN));
        Records {
            history,
            trace: db_trace::read(&mut client),
            renewals: db_trace::renewals(&mut client),
            handlers,
            checkpoints,
            ticks: ticks(&mut client),
            slots: db_trace::slots(&mut client),
            pauses: db_trace::pauses(&mut client),
            rate_limits: rate_limits(&mut client),
            diverted_groups: diverted_groups(&mut client),
            letters: db_trace::letters::read(&mut client),
            policy_ticks: db_trace::policies::read(&mut client),
            breakers: db_trace::breakers::read(&mut client),
            updates: db_trace::updates::read(&mut client),
            final_rows: final_rows(&mut client),
            effects: effects(&mut client),
            counters: counters(&mut client),
            drift: Vec::new(),
            leftovers: Vec::new(),
            terms: Terms {
                lease: microseconds(self.lease),
                max_crashes: redrive::limits::MAX_CRASHES.cast_signed(),
                max_refunds: 10,
                server_starts: self.server_starts.clone(),
                lossy_windows: self.lossy_windows.clone(),
                is_calm,
                redacts: self.redacts,
            },
        }
    }

    /// Where the library finds that its counters differ from the rows.
    fn drift(&self) -> Vec<String> {
        let db = redrive::connect(&self.server.url()).expect("connect");
        let audits = db.admin().audit_counters().expect("audit the counters");
        let off = audits.iter().filter(|audit| audit.drift != 0);
        off.map(|audit| format!("{audit:?}")).collect()
    }
}

fn microseconds(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

fn query_value<T: FromSqlOwned>(client: &mut Client, query: &str) -> T {
    client.query_one(query, &[]).expect(query).get(0)
}

fn last_change(client: &mut Client) -> i64 {
    query_value(client, "SELECT last_value FROM chaos.trace_seq_seq")
}

/// When the last delayed job is due.
fn last_due(client: &mut Client) -> i64 {
    query_value(
        client,
        "SELECT coalesce(max(extract(epoch FROM run_at) * 1000000)::bigint, 0) FROM redrive.jobs_delayed",
    )
}

fn is_drained(client: &mut Client) -> bool {
    query_value(
        client,
        "SELECT NOT EXISTS (SELECT FROM redrive.jobs) AND NOT EXISTS (SELECT FROM redrive.jobs_delayed)
             AND NOT EXISTS (SELECT FROM redrive.leases)",
    )
}

fn final_rows(client: &mut Client) -> Vec<FinalRow> {
    let query =
        "SELECT id, 'r' FROM redrive.jobs UNION ALL SELECT id, 'd' FROM redrive.jobs_delayed
                 UNION ALL SELECT j.id, 'l' FROM redrive.leases l
                     CROSS JOIN LATERAL unnest(l.ids) AS j (id) WHERE j.id <> ALL (l.done)
                 UNION ALL SELECT id, 'x' FROM redrive.dead_letters";
    let rows = client.query(query, &[]).expect("read the final rows");
    rows.iter()
        .map(|row| FinalRow {
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

fn ticks(client: &mut Client) -> Vec<Tick> {
    let query =
        "SELECT schedule, outcome, tx, written, at, job, ticks FROM chaos.ticks ORDER BY seq";
    let rows = client.query(query, &[]).expect("read the ticks");
    rows.iter()
        .map(|row| Tick {
            schedule: row.get(0),
            outcome: match row.get(1) {
                "fired" => TickOutcome::Fired,
                "missed" => TickOutcome::Missed,
                "overlapped" => TickOutcome::Overlapped,
                "triggered" => TickOutcome::Triggered,
                "paused" => TickOutcome::Paused,
                _ => TickOutcome::Resumed,
            },
            tx: row.get(2),
            written: row.get(3),
            at: row.get(4),
            job: row.get(5),
            ticks: row.get(6),
        })
        .collect()
}

/// The rate limits of queues and of their groups.
fn rate_limits(client: &mut Client) -> Vec<RateLimit> {
    let query = "SELECT queue::text, each_group, burst::double precision, rate FROM redrive.rate_limits WHERE kind = ''";
    let rows = client.query(query, &[]).expect("read the rate limits");
    rows.iter()
        .map(|row| RateLimit {
            queue: row.get(0),
            is_of_each_group: row.get(1),
            burst: row.get(2),
            per_second: row.get(3),
        })
        .collect()
}

/// The groups that are diverted.
fn diverted_groups(client: &mut Client) -> Vec<(String, String)> {
    let query = "SELECT queue::text, group_key::text FROM redrive.diverted_groups";
    let rows = client.query(query, &[]).expect("read the diverted groups");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

fn effects(client: &mut Client) -> BTreeMap<(i64, i32), i64> {
    let query = "SELECT job, generation, count(*) FROM chaos.effects GROUP BY 1, 2";
    let rows = client.query(query, &[]).expect("read the effects");
    rows.iter()
        .map(|row| ((row.get(0), row.get(1)), row.get(2)))
        .collect()
}

/// The counters that the exporter publishes.
fn counters(client: &mut Client) -> BTreeMap<String, i64> {
    let query = "SELECT metric, sum(value)::bigint FROM redrive.metric_totals()
                 WHERE metric LIKE '%\\_total' GROUP BY 1 HAVING sum(value) IS NOT NULL";
    let rows = client.query(query, &[]).expect("read the counters");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}
