-- Purpose: Every live job with its state.

-- Every live job, in exactly one of three places; the place is its state. The columns have the same types in each, so
-- that the planner reads only the places that a condition on the state allows.
CREATE OR REPLACE VIEW redrive.live_jobs AS
    SELECT j.id, j.queue, j.kind, 'ready'::text AS state, j.priority, j.payload, j.attempt, j.max_attempts, j.generation,
           j.crashes, j.ready_at AS run_at, j.enqueued_at, j.history, NULL::uuid AS worker_id, NULL::uuid AS lease_id,
           NULL::timestamptz AS claimed_at, j.unique_key, j.outage_since, j.headers, j.group_key
    FROM redrive.jobs r
    CROSS JOIN LATERAL (SELECT (redrive.ready_job(r)).*) j
    UNION ALL
    SELECT j.id, j.queue, j.kind, 'delayed'::text, j.priority, j.payload, j.attempt, j.max_attempts, j.generation,
           j.crashes, j.ready_at, j.enqueued_at, j.history, NULL::uuid, NULL::uuid, NULL::timestamptz, j.unique_key,
           j.outage_since, j.headers, j.group_key
    FROM redrive.jobs_delayed d
    CROSS JOIN LATERAL (SELECT (redrive.delayed_job(d)).*) j
    UNION ALL
    SELECT j.id, j.queue, j.kind, 'leased'::text, j.priority, j.payload, j.attempt, j.max_attempts, j.generation,
           j.crashes, l.claimed_at, j.enqueued_at, j.history, l.worker_id, l.lease_id, l.claimed_at, j.unique_key,
           j.outage_since, j.headers, j.group_key
    FROM redrive.leases l
    CROSS JOIN LATERAL redrive.jobs_of(l) j
    WHERE j.id <> ALL (l.done);

COMMENT ON VIEW redrive.live_jobs IS 'Every live job with its state: ready, delayed or leased.';
REVOKE ALL ON redrive.live_jobs FROM PUBLIC;
