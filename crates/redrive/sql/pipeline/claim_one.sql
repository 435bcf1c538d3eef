-- Purpose: moves one ready job of a queue into a new lease and returns it, usually the job that an
--          idle worker was just notified about. It does the same as claim.sql but starts in a third
--          of the time. The same statement charges an attempt to the job.
-- Called by: pipeline/claim.rs, for a fetcher that was notified.
-- $1 text     queue
-- $2 text[]   kinds that this worker handles; NULL: all
-- $3 text[]   kinds to skip because a breaker is open; NULL: none
-- $4 smallint segment to search: the one that receives new jobs, or did until a moment ago
-- $5 uuid     id of the lease, chosen by the client for this call
-- $6 uuid     worker
-- Locks: the row of the job; rows locked by other sessions are skipped.
-- Index relied on: jobs_for_claim, of this segment only.
-- Rows: the job, with the columns of claim.sql. Zero rows: this segment has no ready job for the
--       worker, apart from suspects. claim.sql finds suspects and jobs in other segments.
WITH picked AS MATERIALIZED (
    SELECT j.ctid AS tid
    FROM redrive.jobs j
    WHERE j.segment = $4::smallint AND j.queue = $1
        AND ($2::text[] IS NULL OR j.kind = ANY ($2::text[]))
        AND ($3::text[] IS NULL OR j.kind <> ALL ($3::text[]))
        AND j.crashes = 0
    ORDER BY -j.priority, j.id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
),
taken AS (
    DELETE FROM redrive.jobs j
    WHERE j.segment = $4::smallint AND j.ctid = (SELECT p.tid FROM picked p)
    RETURNING j.ready_at, j.id, j.kind, j.priority, j.payload, j.attempt + 1 AS attempt, j.max_attempts,
              j.generation, j.crashes, j.refunds, j.enqueued_at, j.history, j.unique_key, j.outage_since,
              j.headers, j.group_key
),
leased AS (
    INSERT INTO redrive.leases (lease_id, worker_id, queue, jobs)
    SELECT $5, $6, $1,
           ARRAY[ROW(t.id, t.kind, t.priority, t.payload, t.attempt, t.max_attempts, t.generation,
                     t.crashes, t.refunds, t.enqueued_at, t.history, t.unique_key,
                     t.outage_since, t.headers, t.group_key)::redrive.leased_job]
    FROM taken t
),
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
    SELECT m.segment, $1, '{claimed}', '{1}'
    FROM taken t
    CROSS JOIN redrive.metric_ring m
)
SELECT NULL::uuid AS own_lease, t.id, t.kind, nullif(t.priority, 0) AS priority, t.payload, t.attempt,
       t.max_attempts, nullif(t.generation, 0) AS generation, NULL::smallint AS crashes, t.enqueued_at,
       t.ready_at, statement_timestamp() AS claimed_at,
       CASE WHEN t.unique_key IS NOT NULL THEN true END AS is_unique,
       CASE WHEN t.outage_since IS NOT NULL
            THEN (extract(epoch FROM statement_timestamp() - t.outage_since) * 1000)::bigint END AS outage_ms
FROM taken t
