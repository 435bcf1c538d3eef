//! Every step carries every field of a job; only counters, history and priority change.

use redrive_tests::prelude::*;

/// The id of the job.
const JOB: i64 = 7;

/// A job whose fields all differ from their defaults.
const NEW_JOB: &str = r#"
    INSERT INTO redrive.jobs
        (segment, id, rank, enqueued_at, meta.attempt, meta.max_attempts, meta.generation, meta.priority, meta.refunds, queue, kind,
         payload, meta.history, meta.unique_key, meta.outage_since, meta.headers, meta.group_key)
    SELECT r.segment, 7, -13, '2026-01-02 03:04:05.678901+00', 2, 9, 3, 7, 4, 'orders', 'order', '{"a": 2, "b": 1.00}',
           '[{"attempt": 1}, {"attempt": 2}]', 'key-17', '2026-01-01', '{"trace": "4bf9"}', 'customer-17'
    FROM redrive.ring r;
    INSERT INTO redrive.unique_keys (queue, key, job_id) VALUES ('orders', 'key-17', 7);
    INSERT INTO redrive.dead_letters
        (id, queue, kind, state, cause, error_class, error_message, payload, generation, group_id, enqueued_at)
    VALUES (7, 'orders', 'order', 'redriving', 'rejected', 'E', 'e', '{}', 2, 1, '2026-01-02 03:04:05.678901+00')"#;

/// The job, wherever it is; `changing` are the fields that steps may change.
const STATE: &str = r"
    SELECT ARRAY[j.queue, j.kind, j.payload, j.max_attempts::text, j.enqueued_at::text, j.unique_key, j.headers,
                 j.group_key] AS carried,
           concat_ws(' ', j.place, 'attempt=' || j.attempt, 'crashes=' || j.crashes, 'refunds=' || j.refunds,
                     'generation=' || j.generation, 'priority=' || j.priority,
                     'history=' || coalesce(jsonb_array_length(j.history), 0),
                     CASE j.outage_since::date WHEN '2026-01-01' THEN 'outage' ELSE j.outage_since::text END) AS changing
    FROM (
        SELECT p.place, (p.job).id, (p.job).queue, (p.job).kind, (p.job).priority, (p.job).payload::text, (p.job).attempt,
               (p.job).max_attempts, (p.job).generation, (p.job).crashes, (p.job).refunds, (p.job).enqueued_at,
               (p.job).history, ((p.job).meta).unique_key, (p.job).outage_since, ((p.job).meta).headers::text,
               ((p.job).meta).group_key
        FROM (
            SELECT 'ready' AS place, redrive.ready_job(j) AS job FROM redrive.jobs j
            UNION ALL
            SELECT 'delayed', redrive.delayed_job(d) FROM redrive.jobs_delayed d
            UNION ALL
            SELECT 'leased', x FROM redrive.leases l CROSS JOIN LATERAL redrive.jobs_of(l) x WHERE x.id <> ALL (l.done)
        ) p
        UNION ALL
        SELECT state || ' letter: ' || cause, id, queue, kind, priority, payload::text, attempts, max_attempts,
               generation, crashes, NULL, enqueued_at, redrive.full_history(l), unique_key, NULL, headers::text,
               group_key
        FROM redrive.dead_letters l WHERE l.state <> 'redriving'
    ) j
    WHERE j.id = $1";

/// Values of an earlier death, in every column that a death replaces.
const STALE: &str = r#"
    UPDATE redrive.dead_letters
    SET error_class = 'stale', error_message = 'stale', error_detail = 'stale', payload = '"stale"',
        priority = 99, attempts = 99, max_attempts = 99, crashes = 99,
        worker_id = repeat('9', 32)::uuid, host = 'stale', version = 'stale',
        failure_key = 'stale', unique_key = 'stale', headers = '{"stale": "yes"}', group_key = 'stale',
        pid = 99, run_ms = 99 + 0 * run_ms, died_at = '1999-09-09', changed_at = '1999-09-09'
    WHERE state = 'redriving'"#;

/// The columns of an open letter with such a value, and its failure group if that is of another error.
/// Three columns keep what was before.
const LEFT: &str = "
    SELECT coalesce(array_agg(x.name ORDER BY x.name), '{}')
    FROM (
        SELECT c.key
        FROM redrive.dead_letters l
        CROSS JOIN LATERAL jsonb_each_text(to_jsonb(l)) AS c
        WHERE l.id = $1 AND l.state = 'open' AND c.key NOT IN ('earlier_attempts', 'events', 'history')
            AND (c.value LIKE '%stale%' OR c.value = '99' OR c.value LIKE '1999%' OR c.value LIKE '99999999-%')
        UNION ALL
        SELECT 'group of ' || g.error_class
        FROM redrive.dead_letters l
        JOIN redrive.groups g ON g.id = l.group_id
        WHERE l.id = $1 AND l.state = 'open' AND g.error_class <> l.error_class
    ) x (name)";

/// A job and the steps that it takes.
struct Life {
    client: Client,
    worker: Uuid,
    lease: Uuid,
    carried: Vec<Option<String>>,
}

impl Life {
    fn begin(test: &TestDatabase) -> Life {
        let mut client = test.client();
        client.sql(NEW_JOB);
        let carried = client.ask(STATE, &[&JOB]);
        let (worker, lease) = (Uuid::new_v4(), Uuid::nil());
        Life {
            client,
            worker,
            lease,
            carried,
        }
    }

    /// Asserts that the job is at one place, with these changing fields and all others unchanged.
    #[track_caller]
    fn is(&mut self, changing: &str) {
        let (carried, found): (Vec<Option<String>>, String) = self.client.row(STATE, &[&JOB]);
        assert_eq!(found, changing);
        assert_eq!(carried, self.carried);
        assert_eq!(self.client.ask::<Vec<String>>(LEFT, &[&JOB]), [""; 0]);
    }

    fn hand(&self) -> Hand<'static> {
        Hand {
            queue: "orders",
            id: self.worker,
        }
    }

    fn run(&mut self, name: &str, parameters: &[&(dyn ToSql + Sync)]) {
        self.client.change(statement(name), parameters);
    }

    fn sql(&mut self, text: &str) {
        self.client.sql(text);
    }

    fn claim(&mut self) {
        self.hand().claims(&mut self.client);
        // A suspect gets a lease with a random id.
        let held = "SELECT lease_id FROM redrive.leases WHERE 7 = ANY (ids)";
        self.lease = self.client.ask(held, &[]);
    }

    fn claim_one(&mut self) {
        self.lease = Uuid::new_v4();
        let segment: i16 = self.client.ask("SELECT segment FROM redrive.ring", &[]);
        let (worker, lease, none) = (self.worker, self.lease, None::<Vec<String>>);
        let values: [&(dyn ToSql + Sync); 6] = [&"orders", &none, &none, &segment, &lease, &worker];
        self.run("claim_one", &values);
    }

    fn release(&mut self, started: &[i64]) {
        self.hand().releases(&mut self.client, None, Some(started));
    }

    /// Reaps the leases of the worker, which has no registration.
    fn reap(&mut self, crashes: u32) {
        let limits = ReapLimits {
            crashes,
            delay_ms: 5000,
            ..ReapLimits::default()
        };
        reap_within(&mut self.client, Duration::ZERO, limits);
    }

    fn settle(&mut self, verdict: &str, delay_ms: i64) {
        let cause = (verdict == "dead").then_some("rejected");
        let settlement = Settlement {
            queue: "orders",
            lease: self.lease,
            verdicts: &[(JOB, verdict, cause)],
            delay_ms,
            counts: &[],
        };
        settlement.write(&mut self.client);
    }

    fn promote(&mut self) {
        self.sql("UPDATE redrive.jobs_delayed SET run_at = clock_timestamp() - interval '1 s'");
        self.hand().promotes(&mut self.client);
    }

    fn cancel(&mut self) {
        let nobody = None::<&str>;
        self.run("cancel_job", &[&JOB, &nobody, &nobody, &false]);
    }

    /// Changes the job as a bulk operation does.
    fn change(&mut self, change: &str, further: &str) {
        let places = "NULL, NULL, 10, 'maria', 'to see', NULL";
        self.sql(&format!(
            "SELECT redrive.change_jobs('{change}', '{{\"queue\": \"orders\"}}', {places}{further})"
        ));
    }

    /// Redrives the letter, which then holds values that the next death must replace.
    fn redrive(&mut self) {
        self.sql(r#"SELECT redrive.redrive('{"queue": "orders"}', 'mended', 'maria')"#);
        self.sql(STALE);
    }
}

#[test]
fn every_step_carries_every_field_of_a_job() {
    let test = TestDatabase::migrated();
    let mut job = Life::begin(&test);
    job.is("ready attempt=2 crashes=0 refunds=4 generation=3 priority=7 history=2 outage");

    // Claims and releases.
    job.claim();
    job.is("leased attempt=3 crashes=0 refunds=4 generation=3 priority=7 history=2 outage");
    job.release(&[JOB]);
    job.is("ready attempt=2 crashes=0 refunds=5 generation=3 priority=7 history=2 outage");
    job.claim_one();
    job.is("leased attempt=3 crashes=0 refunds=5 generation=3 priority=7 history=2 outage");
    job.release(&[]);
    job.is("ready attempt=2 crashes=0 refunds=5 generation=3 priority=7 history=2 outage");
    job.sql("SELECT redrive.enqueue('orders', 'order', '{}')");
    job.claim();
    job.settle("unrun", 0);
    job.is("ready attempt=2 crashes=0 refunds=5 generation=3 priority=7 history=2 outage");
    job.release(&[]);
    job.sql("DELETE FROM redrive.jobs WHERE id <> 7");
    job.sql("SELECT redrive.move_stragglers(ARRAY[r.segment], 1000) FROM redrive.ring r");
    job.is("ready attempt=2 crashes=0 refunds=5 generation=3 priority=7 history=2 outage");

    // Lost workers.
    job.claim();
    job.reap(3);
    job.is("ready attempt=2 crashes=1 refunds=5 generation=3 priority=7 history=3 outage");
    job.claim();
    job.is("leased attempt=3 crashes=1 refunds=5 generation=3 priority=7 history=3 outage");
    job.reap(3);
    job.is("delayed attempt=2 crashes=2 refunds=5 generation=3 priority=7 history=4 outage");
    job.promote();
    job.is("ready attempt=2 crashes=2 refunds=5 generation=3 priority=7 history=4 outage");

    // Verdicts and priorities.
    job.claim();
    job.settle("outage", 1000);
    job.is("delayed attempt=2 crashes=0 refunds=5 generation=3 priority=7 history=5 outage");
    job.promote();
    job.claim();
    job.settle("retry", 0);
    job.is("ready attempt=3 crashes=0 refunds=5 generation=3 priority=7 history=6");
    job.claim();
    job.settle("retry", 60_000);
    job.is("delayed attempt=4 crashes=0 refunds=5 generation=3 priority=7 history=7");
    job.change("set_priority", ", priority => -3");
    job.promote();
    job.is("ready attempt=4 crashes=0 refunds=5 generation=3 priority=-3 history=7");
    job.change("set_priority", ", priority => 8");
    job.is("ready attempt=4 crashes=0 refunds=5 generation=3 priority=8 history=7");
    job.claim();
    job.settle("snooze", 1000);
    job.is("delayed attempt=4 crashes=0 refunds=5 generation=3 priority=8 history=7");

    // Deaths and redrives.
    job.cancel();
    job.is("open letter: manual attempt=4 crashes=0 generation=3 priority=8 history=7");
    job.redrive();
    job.is("ready attempt=0 crashes=0 refunds=0 generation=4 priority=8 history=0");
    job.claim();
    job.settle("dead", 0);
    job.is("open letter: rejected attempt=1 crashes=0 generation=4 priority=8 history=8");
    job.redrive();
    job.claim();
    job.reap(1);
    job.is("open letter: worker_lost attempt=1 crashes=1 generation=5 priority=8 history=9");
    job.redrive();
    job.sql("UPDATE redrive.jobs SET meta.refunds = 10, meta.attempt = 8");
    job.claim();
    job.release(&[JOB]);
    job.is("open letter: exhausted attempt=9 crashes=0 generation=6 priority=8 history=9");
    job.redrive();
    job.claim();
    job.cancel();
    job.release(&[]);
    job.is("open letter: manual attempt=0 crashes=0 generation=7 priority=8 history=9");
}

#[test]
fn bulk_operations_carry_every_field_of_a_job() {
    let test = TestDatabase::migrated();
    let mut job = Life::begin(&test);
    let edit = r#", ids => '{7}', unedited => ARRAY['{"a": 2, "b": 1.00}'], edited => ARRAY['{"a": 2, "b": 1.00}']"#;
    job.change("set_priority", ", priority => 9");
    job.is("ready attempt=2 crashes=0 refunds=4 generation=3 priority=9 history=2 outage");
    job.change("edit", edit);
    job.claim();
    job.settle("outage", 60_000);
    job.is("delayed attempt=2 crashes=0 refunds=4 generation=3 priority=9 history=3 outage");
    job.change("set_priority", ", priority => -8");
    job.change("edit", edit);
    job.is("delayed attempt=2 crashes=0 refunds=4 generation=3 priority=-8 history=3 outage");
    job.change("run_now", "");
    job.is("ready attempt=2 crashes=0 refunds=4 generation=3 priority=-8 history=3 outage");
    job.change("cancel", "");
    job.is("open letter: manual attempt=2 crashes=0 generation=3 priority=-8 history=3");
}
