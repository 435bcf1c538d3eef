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
        AND coalesce((j.meta).crashes, 0) = 0
    ORDER BY j.rank, j.id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
),
taken AS (
    DELETE FROM redrive.jobs j
    WHERE j.segment = $4::smallint AND j.segment < 8 AND j.ctid = (SELECT p.tid FROM picked p)
    RETURNING j.id, j.kind, j.payload, j.enqueued_at, j.meta::redrive.job_meta AS meta
),
leased AS (
    INSERT INTO redrive.leases AS l (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, metas)
    SELECT $5, $6, $1, ARRAY[t.id], ARRAY[t.kind::text], ARRAY[t.payload], ARRAY[t.enqueued_at],
           CASE WHEN NOT t.meta IS NULL THEN ARRAY[t.meta] END
    FROM taken t
    RETURNING l.lease_id, l.ids, l.kinds, l.payloads, l.enqueued_at, l.metas
),
counted AS (
    INSERT INTO redrive.metric_deltas (queue, keys, counts)
    SELECT $1, '{claimed}', '{1}'
    FROM leased l
)
SELECT l.lease_id, l.ids, l.kinds, l.payloads, l.enqueued_at, (l.started).*,
       statement_timestamp() AS claimed_at
FROM (
    SELECT r.*, CASE WHEN r.metas IS NOT NULL THEN redrive.start_jobs(r.ids, r.enqueued_at, r.metas) END AS started
    FROM leased r
) l
