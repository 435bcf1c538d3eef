-- Purpose: Every live job with its state.

-- Every live job, in exactly one of three places; the place is its state. The columns have the same types in each, so
-- that the planner reads only the places that a condition on the state allows.
CREATE OR REPLACE VIEW redrive.live_jobs AS
    SELECT j.id, j.queue::text AS queue, j.kind::text AS kind, 'ready'::text AS state, j.priority::smallint AS priority,
           j.payload, j.attempt::integer AS attempt, j.max_attempts::integer AS max_attempts,
           j.generation::integer AS generation, j.crashes::smallint AS crashes, j.ready_at AS run_at,
           j.enqueued_at, j.history, NULL::uuid AS worker_id, NULL::uuid AS lease_id,
           NULL::timestamptz AS claimed_at, j.unique_key, j.outage_since,
           j.headers::jsonb AS headers, j.group_key::text AS group_key
    FROM redrive.jobs j
    UNION ALL
    SELECT d.id, d.queue::text, d.kind::text, 'delayed'::text, d.priority::smallint, d.payload,
           d.attempt::integer, d.max_attempts::integer, d.generation::integer, d.crashes::smallint,
           d.run_at::timestamptz, d.enqueued_at, d.history, NULL::uuid, NULL::uuid, NULL::timestamptz,
           d.unique_key, d.outage_since, d.headers::jsonb, d.group_key::text
    FROM redrive.jobs_delayed d
    UNION ALL
    SELECT j.id, j.queue::text, j.kind::text, 'leased'::text, j.priority::smallint, j.payload,
           j.attempt::integer, j.max_attempts::integer, j.generation::integer, j.crashes::smallint, l.claimed_at,
           j.enqueued_at, j.history, l.worker_id, l.lease_id, l.claimed_at, j.unique_key, j.outage_since,
           j.headers::jsonb, j.group_key::text
    FROM redrive.leases l
    CROSS JOIN LATERAL redrive.jobs_of(l) j
    WHERE j.id <> ALL (l.done);

COMMENT ON VIEW redrive.live_jobs IS 'Every live job with its state: ready, delayed or leased.';
REVOKE ALL ON redrive.live_jobs FROM PUBLIC;
