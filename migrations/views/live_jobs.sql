-- Purpose: Every job that is live or kept, with its state.

-- A live job is in exactly one of three places; the place is its state. Finished jobs that their handlers keep are in
-- the fourth. The columns have the same types in each, so that the planner reads only the places that a condition on the
-- state allows. No lease_id, which proves that a worker holds a lease.
CREATE OR REPLACE VIEW redrive.all_jobs AS
    SELECT p.id, p.queue, p.kind, p.state, p.priority, p.payload, p.attempt, p.max_attempts, p.generation, p.crashes,
           p.run_at, p.enqueued_at, p.history, p.worker_id, p.claimed_at, (p.meta).unique_key, p.outage_since,
           (p.meta).headers, (p.meta).group_key
    FROM (
        SELECT 'ready'::text AS state, j.ready_at AS run_at, NULL::uuid AS worker_id, NULL::timestamptz AS claimed_at, j.*
        FROM redrive.jobs r
        CROSS JOIN LATERAL (SELECT (redrive.ready_job(r)).*) j
        UNION ALL
        SELECT 'delayed'::text, j.ready_at, NULL::uuid, NULL::timestamptz, j.*
        FROM redrive.jobs_delayed d
        CROSS JOIN LATERAL (SELECT (redrive.delayed_job(d)).*) j
        UNION ALL
        SELECT 'leased'::text, l.claimed_at, l.worker_id, l.claimed_at, j.*
        FROM redrive.leases l
        CROSS JOIN LATERAL redrive.jobs_of(l) j
        WHERE j.id <> ALL (l.done)
        UNION ALL
        SELECT 'done'::text, d.done_at, NULL::uuid, d.started_at, d.id, d.done_at, d.enqueued_at, d.attempt,
               d.max_attempts, d.generation, NULL::smallint, d.priority, 0::smallint, 0::smallint, d.queue::text,
               d.kind::text, 'null'::json, NULL::jsonb, NULL::timestamptz, NULL::redrive.job_meta
        FROM redrive.done_jobs d
        WHERE d.keep_until > statement_timestamp()
    ) p;

CREATE OR REPLACE VIEW redrive.live_jobs AS
    SELECT * FROM redrive.all_jobs j WHERE j.state <> 'done';

COMMENT ON VIEW redrive.live_jobs IS 'Every live job with its state: ready, delayed or leased.';
COMMENT ON VIEW redrive.all_jobs IS 'Every job that is live or kept, with its state: ready, delayed, leased or done.';
