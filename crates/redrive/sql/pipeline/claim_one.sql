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
-- Locks: the row of the job; rows locked by other sessions are skipped. The keys of
--        jobs that hold them until they start.
-- Index relied on: jobs_for_claim, of this segment only.
-- Rows: the lease, with the columns of claim.sql. Zero rows: this segment has no ready job for the
--       worker, apart from suspects. claim.sql finds suspects and jobs in other segments.
WITH picked AS MATERIALIZED (
    SELECT j.ctid AS tid
    FROM redrive.jobs j
    WHERE j.segment = $4::smallint AND j.segment < 8 AND j.queue = $1
        AND ($2::text[] IS NULL OR j.kind = ANY ($2::text[]))
        AND ($3::text[] IS NULL OR j.kind <> ALL ($3::text[]))
        AND j.crashes = 0
    ORDER BY (j.generation > 0)::integer - 2 * j.priority, j.id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
),
taken AS (
    DELETE FROM redrive.jobs j
    WHERE j.segment = $4::smallint AND j.segment < 8 AND j.ctid = (SELECT p.tid FROM picked p)
    RETURNING j.*,
              j.attempt = 0 AND j.priority = 0 AND j.max_attempts = 5 AND j.generation = 0
                  AND j.ready_at BETWEEN j.enqueued_at - interval '1 ms' AND j.enqueued_at + interval '1 ms'
                  AND num_nonnulls(j.history, j.unique_key, j.outage_since, j.headers, j.group_key) = 0
                  AND j.refunds = 0 AS is_plain
),
leased AS (
    INSERT INTO redrive.leases AS l
        (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, ready_at, priorities, attempts, max_attempts,
         generations, refunds, histories, unique_keys, outages_since, headers, group_keys)
    SELECT $5, $6, $1, ARRAY[t.id], ARRAY[t.kind::text], ARRAY[t.payload], ARRAY[t.enqueued_at],
           CASE WHEN NOT t.is_plain THEN ARRAY[t.ready_at] END,
           CASE WHEN NOT t.is_plain THEN ARRAY[t.priority::smallint] END,
           CASE WHEN NOT t.is_plain THEN ARRAY[t.attempt + 1] END,
           CASE WHEN NOT t.is_plain THEN ARRAY[t.max_attempts::integer] END,
           CASE WHEN NOT t.is_plain THEN ARRAY[t.generation::integer] END,
           CASE WHEN NOT t.is_plain THEN ARRAY[t.refunds::smallint] END,
           CASE WHEN NOT t.is_plain THEN ARRAY[t.history] END,
           CASE WHEN NOT t.is_plain THEN ARRAY[t.unique_key] END,
           CASE WHEN NOT t.is_plain THEN ARRAY[t.outage_since] END,
           CASE WHEN NOT t.is_plain THEN ARRAY[t.headers::jsonb] END,
           CASE WHEN NOT t.is_plain THEN ARRAY[t.group_key::text] END
    FROM taken t
    RETURNING l.lease_id, l.ids, l.kinds, l.payloads, l.enqueued_at, l.ready_at, l.priorities, l.attempts,
              l.max_attempts, l.generations, l.crashes, l.unique_keys, l.outages_since, l.headers,
              l.group_keys
),
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
    SELECT m.segment, $1, '{claimed}', '{1}'
    FROM leased l
    CROSS JOIN redrive.metric_ring m
)
SELECT l.lease_id, l.ids, l.kinds, l.payloads, l.enqueued_at, l.ready_at, l.priorities, l.attempts, l.max_attempts,
       l.generations, l.crashes,
       -- Only a lease with headers and keys calls the function.
       CASE WHEN l.headers IS NOT NULL AND array_remove(l.unique_keys, NULL) <> '{}'
           THEN redrive.free_started_keys(l.ids, l.unique_keys, l.headers) ELSE l.unique_keys END AS unique_keys,
       l.outages_since, l.headers, l.group_keys,
       statement_timestamp() AS claimed_at
FROM leased l
