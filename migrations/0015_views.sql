-- Purpose: Views for people and tools: `live_jobs`, `letters`, `queues`.
-- Locks: none; everything here is new.
-- Safe while workers of the previous version run: there is no previous version.
-- breaking: yes

-- Every live job, in exactly one of three places; the place is its state.
CREATE VIEW redrive.live_jobs AS
    SELECT j.id, j.queue::text AS queue, j.kind, 'ready'::text AS state, j.priority, j.payload,
           j.attempt, j.max_attempts, j.generation, j.crashes, j.ready_at AS run_at,
           j.enqueued_at, j.history, NULL::uuid AS worker_id, NULL::uuid AS lease_id,
           NULL::timestamptz AS claimed_at, j.unique_key, j.outage_since,
           j.headers, j.group_key
    FROM redrive.jobs j
    UNION ALL
    SELECT d.id, d.queue, d.kind, 'delayed', d.priority, d.payload,
           d.attempt, d.max_attempts, d.generation, d.crashes, d.run_at,
           d.enqueued_at, d.history, NULL, NULL, NULL, d.unique_key, d.outage_since,
           d.headers, d.group_key
    FROM redrive.jobs_delayed d
    UNION ALL
    SELECT j.id, l.queue, j.kind, 'leased', j.priority, j.payload,
           j.attempt, j.max_attempts, j.generation, j.crashes, l.claimed_at,
           j.enqueued_at, j.history, l.worker_id, l.lease_id, l.claimed_at, j.unique_key, j.outage_since,
           j.headers, j.group_key
    FROM redrive.leases l
    CROSS JOIN LATERAL redrive.jobs_of(l) j
    WHERE j.id <> ALL (l.done);

COMMENT ON VIEW redrive.live_jobs IS 'Every live job with its state: ready, delayed or leased.';

CREATE VIEW redrive.letters AS
    SELECT l.id, l.queue::text AS queue, l.kind::text AS kind, l.state, l.cause, l.error_class,
           l.error_message, coalesce(l.error_detail, d.detail) AS error_detail, l.payload, l.raw,
           l.content_type, l.headers, l.source, l.position, l.seen, l.priority, l.attempts, l.earlier_attempts,
           l.max_attempts, l.generation, l.crashes,
           CASE WHEN l.run_ms IS NULL THEN l.history ELSE l.history || jsonb_build_object(
               'generation', l.generation, 'attempt', l.attempts, 'outcome', l.cause, 'run_ms', l.run_ms,
               'error_class', l.error_class, 'error_message', left(l.error_message, 1000),
               'worker', l.worker_id, 'host', l.host, 'version', l.version, 'pid', l.pid,
               'ended_at', l.died_at) END AS history,
           l.worker_id, l.host, l.version,
           l.discard_reason, l.enqueued_at, l.died_at, l.changed_at,
           l.group_id, l.pid, l.deaths, l.alike, l.edits, l.events, l.run_id, l.run_ordinal, l.policy_id,
           l.detail_id, l.unique_key, l.group_key, l.audit_id, l.redacted, l.failure_key, l.failed_redrives
    FROM redrive.dead_letters l
    LEFT JOIN redrive.details d ON d.id = l.detail_id;

COMMENT ON VIEW redrive.letters IS 'Every dead letter in any state.';

-- The numbers of every queue, as `redrive stats` shows them. It exposes no payload or error text.
CREATE VIEW redrive.queues AS
    WITH ready AS (
        SELECT j.queue::text AS queue, count(*) AS jobs, min(j.ready_at) AS oldest
        FROM redrive.jobs j
        GROUP BY 1
    ),
    delayed AS (
        SELECT d.queue::text AS queue, count(*) AS jobs
        FROM redrive.jobs_delayed d
        GROUP BY 1
    ),
    leased AS (
        SELECT l.queue::text AS queue, sum(l.job_count - cardinality(l.done)) AS jobs
        FROM redrive.leases l
        GROUP BY 1
    ),
    served AS (
        SELECT w.queue::text AS queue, count(*) AS workers, sum(w.slots) AS slots
        FROM redrive.workers w
        WHERE w.expires_at > statement_timestamp()
        GROUP BY 1
    ),
    dead AS (
        SELECT g.queue::text AS queue, sum(g.open) AS open, sum(g.redriving) AS redriving,
               sum(g.recovered) AS recovered, sum(g.discarded) AS discarded, sum(g.quarantined) AS quarantined
        FROM redrive.failure_groups g
        GROUP BY 1
    )
    SELECT queue,
           coalesce(ready.jobs, 0)::bigint AS ready,
           coalesce(delayed.jobs, 0)::bigint AS delayed,
           coalesce(leased.jobs, 0)::bigint AS leased,
           ready.oldest AS oldest_ready,
           coalesce(served.workers, 0)::bigint AS workers,
           coalesce(served.slots, 0)::bigint AS slots,
           coalesce(dead.open, 0)::bigint AS open,
           coalesce(dead.redriving, 0)::bigint AS redriving,
           coalesce(dead.recovered, 0)::bigint AS recovered,
           coalesce(dead.discarded, 0)::bigint AS discarded,
           coalesce(dead.quarantined, 0)::bigint AS quarantined
    FROM ready
    FULL JOIN delayed USING (queue)
    FULL JOIN leased USING (queue)
    FULL JOIN served USING (queue)
    FULL JOIN dead USING (queue);

COMMENT ON VIEW redrive.queues IS 'The numbers of every queue, counted row by row; meant for people, not for polling.';
