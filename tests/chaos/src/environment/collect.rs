//! The end of a run: heals everything, drains the queue, and reads the records.

use std::time::Duration;

use super::{Environment, Finished, harness};
use crate::checker::{Records, Terms};
use crate::db_trace::{ask, query, read};
use crate::history::{self, ClientEvent, HandlerEvent, HistoryLine, Phase};
use crate::processes::ProcessSpec;
use crate::role::groups::HELD;
use crate::role::operator::Operations;
use crate::role::{Gateway, Role, standing};

/// The name of the drain in the history.
const DRAIN: &str = "drain";
/// How many workers drain the queue. Each runs one job on its last chance at a time.
const DRAIN_WORKERS: usize = 6;
/// The longest time that a handler runs during the drain, in milliseconds.
const DRAIN_RUN: u64 = 20;
/// The client that releases groups during the drain.
const RELEASER: &str = "releaser";
/// How long a stop of processes may take.
const STOP: Duration = Duration::from_secs(20);

/// What a process says when the machine is too slow for its deadlines.
const LATE: [&str; 4] = [
    "timed out",
    "timeout",
    "did not answer",
    "not renewed in time",
];

/// No job is live.
const IS_DRAINED: &str = "SELECT NOT EXISTS (SELECT FROM redrive.jobs)
    AND NOT EXISTS (SELECT FROM redrive.jobs_delayed) AND NOT EXISTS (SELECT FROM redrive.leases)";
/// No job runs or will be due, nothing holds jobs back, and no row has changed while every worker renewed its lease a
/// dozen times and looked for jobs as often.
const IS_STUCK: &str = "SELECT NOT EXISTS (SELECT FROM redrive.leases)
    AND NOT EXISTS (SELECT FROM redrive.jobs_delayed WHERE run_at > clock_timestamp())
    AND NOT EXISTS (SELECT FROM redrive.paused_queues)
    AND NOT EXISTS (SELECT FROM redrive.breakers WHERE state <> 'closed' AND probe_at > clock_timestamp())
    AND (SELECT coalesce(min(r.renewals), 0) >= 12
         FROM (SELECT count(*) AS renewals FROM chaos.renewals
               WHERE at > (SELECT coalesce(max(at), 0) FROM chaos.trace) GROUP BY worker) r)";

impl Environment {
    /// Ends all faults, lets new workers drain the queue for at most `timeout`, and reads the
    /// records.
    pub(crate) fn finish(mut self, timeout: Duration) -> Finished {
        self.open_all_gates();
        self.processes.heal();
        if !self.server.is_up() {
            self.start_server();
        }
        // The last fault may have killed a backend, after which the server recovers.
        drop(self.server.client());
        for role in [Role::Enqueuer, Role::Operator] {
            self.processes.stop(role, STOP);
        }
        standing::end(&self.database(), &harness()).expect("end the schedules and the policy");
        // Workers release the jobs they hold.
        self.processes.stop(Role::Worker, STOP);
        self.drain(timeout);
        self.processes.stop(Role::Worker, STOP);
        let records = self.records();
        self.server.keep_log(&self.folder.path().join("server.log"));
        Finished {
            records,
            missing: self.missing,
            folder: self.folder,
        }
    }

    fn drain(&mut self, timeout: Duration) {
        self.processes.record_fault(DRAIN);
        for _ in 0..DRAIN_WORKERS {
            self.add(ProcessSpec {
                gateway: Gateway::Up,
                longest_run: DRAIN_RUN,
                serves_others: true,
                ..ProcessSpec::worker()
            });
        }
        let mut client = self.server.client();
        let url = format!("{}&application_name={RELEASER}", self.server.url());
        let db = redrive::connect(&url).expect("connect");
        let releaser = Operations::new(&db, self.log(RELEASER), RELEASER);
        // In a diverted group, only a job with a lower id than the letter waits.
        let held = format!(
            "SELECT h.queue, h.group_key FROM redrive.held_groups h WHERE EXISTS (
                SELECT FROM redrive.jobs_waiting j WHERE j.queue = h.queue AND (j.meta).group_key = h.group_key
                    AND (h.queue = '{HELD}' OR j.id < h.letter_id))"
        );
        let has_ended = self.supervise_until(timeout, |_| {
            // Jobs wait behind letters.
            let groups: Vec<(String, String)> =
                query(&mut client, &held, |row| (row.get(0), row.get(1)));
            for (queue, group) in groups {
                releaser.release(&queue, &group);
            }
            ask(&mut client, IS_DRAINED) || ask(&mut client, IS_STUCK)
        });
        if !has_ended {
            self.missing.push("the drain ends".to_owned());
        }
    }

    fn records(&self) -> Records {
        let mut client = self.server.client();
        let mut history: Vec<HistoryLine> = Vec::new();
        let mut handlers: Vec<HandlerEvent> = Vec::new();
        let mut was_late = false;
        let entries = std::fs::read_dir(self.folder.path()).expect("read the records");
        for entry in entries.flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let name = name.to_string_lossy();
            if name.starts_with("client-") {
                history.extend(history::read::<HistoryLine>(&path));
            } else if name.starts_with("handlers-") {
                handlers.extend(history::read::<HandlerEvent>(&path));
            } else if name.ends_with(".err") {
                let text = std::fs::read(path).expect("read the log of a process");
                let text = String::from_utf8_lossy(&text);
                was_late |= LATE.iter().any(|late| text.contains(late));
            }
        }
        history.sort_by_key(|line| line.at);
        handlers.sort_by_key(|event| (event.job, event.at));
        let (checkpoints, handlers) = handlers
            .into_iter()
            .partition(|event| event.phase == Phase::Checkpoint);
        let is_fault = |line: &HistoryLine| matches!(line.event, ClientEvent::Fault { ref what } if what != DRAIN);
        let is_calm = !was_late && !history.iter().any(is_fault);
        let audits = self
            .database()
            .admin()
            .audit_counters()
            .expect("audit the counters");
        let off = audits.iter().filter(|audit| audit.drift != 0);
        let effects = "SELECT job, generation, count(*) FROM chaos.effects GROUP BY 1, 2";
        // Those that an exporter publishes.
        let counters = "SELECT metric, sum(numbers[1])::bigint FROM redrive.metric_totals()
                        WHERE metric LIKE '%\\_total' GROUP BY 1";
        let client = &mut client;
        let counters = query(client, counters, |row| (row.get(0), row.get(1)));
        // Without them, the rule about counters is skipped.
        assert!(!counters.is_empty(), "no counter is published");
        let leftovers = include_str!("../db_trace/leftovers.sql");
        Records {
            history,
            trace: read(client),
            renewals: read(client),
            handlers,
            checkpoints,
            ticks: read(client),
            slots: read(client),
            breakers: read(client),
            effects: query(client, effects, |row| {
                ((row.get(0), row.get(1)), row.get(2))
            })
            .into_iter()
            .collect(),
            counters: counters.into_iter().collect(),
            drift: off.map(|audit| format!("{audit:?}")).collect(),
            leftovers: query(client, leftovers, |row| {
                format!("{}: {}", row.get::<_, &str>(0), row.get::<_, i64>(1))
            }),
            wrong_statements: self.server.wrong_statements(),
            terms: Terms {
                is_calm,
                ..self.terms.clone()
            },
        }
    }
}
