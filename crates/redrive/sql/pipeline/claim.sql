-- Purpose: moves up to $4 ready jobs of a queue into leases and returns these. The same statement
--          charges one attempt to each job.
-- Called by: pipeline/claim.rs, for a worker's fetcher.
-- $1 text       queue
-- $2 text[]     kinds that this worker handles; NULL: all
-- $3 text[]     kinds whose jobs each get a separate lease (handlers with their own transaction)
-- $4 bigint     maximum number of jobs
-- $5 bigint     payload bytes after which the claim takes no further job
-- $6 integer    maximum crashes of a job, that is, workers that it lost; 0: no suspect
-- $7 uuid       id of the lease, chosen by the client for this call; further leases have random ids
-- $8 uuid       worker
-- $9 integer[], $10 bigint[], $11 bigint[]
--               ranges of the claim index to scan, in order, each starting after
--               (rank, id) and ending before a rank; see pipeline/claim/mark.rs
-- $12 text[]    kinds to skip because a breaker is open; NULL: none
-- $13 integer   crashes from which a suspect is the only suspect of its claim
-- Locks: the rows of the jobs it takes; rows locked by other sessions are skipped. The keys of
--        jobs that hold them until they start.
-- Index relied on: jobs_for_claim, as range scans merged over the segments. Sequential scans must
--                  be off: a plan cached on an empty table is far too slow on a full one.
-- Rows: one per lease: its arrays, of which a NULL array means that all jobs have the default; see
--       migrations/functions/leases.sql. The jobs are unordered. Zero rows: no job is ready for this worker.
WITH picked AS MATERIALIZED (
    SELECT array_agg(f.segment) AS segments, array_agg(f.tid) AS tids, array_agg(f.bytes) AS bytes,
           array_agg(f.crashes) AS crashes, array_agg(f.is_alone) AS are_alone,
           -- Nearly always one lease can hold all jobs.
           min(f.segment) = max(f.segment) AND sum(f.bytes) <= $5 AND NOT bool_or(f.is_alone) AS fit
    FROM (
        SELECT found.segment, found.tid, found.bytes, found.crashes, found.is_alone
        FROM unnest($9::integer[], $10::bigint[], $11::bigint[])
            WITH ORDINALITY AS range (from_rank, from_id, to_rank, ordinal)
        CROSS JOIN LATERAL (
            SELECT j.segment, j.ctid AS tid, pg_column_size(j.payload) AS bytes, coalesce((j.meta).crashes, 0::smallint) AS crashes,
                   coalesce((j.meta).crashes, 0) > 0 OR j.kind = ANY ($3::text[]) AS is_alone
            FROM redrive.jobs j
            WHERE j.queue = $1 AND j.segment < 8
                AND (j.rank, j.id) > (range.from_rank, range.from_id)
                AND j.rank < range.to_rank
                AND ($2::text[] IS NULL OR j.kind = ANY ($2::text[]))
                AND coalesce((j.meta).crashes, 0) <= $6::integer
                AND ($12::text[] IS NULL OR j.kind <> ALL ($12::text[]))
            ORDER BY j.rank, j.id
            LIMIT $4
            FOR UPDATE SKIP LOCKED
        ) found
        LIMIT $4
    ) f
)
SELECT l.lease_id, l.ids, l.kinds, l.payloads, l.enqueued_at, (l.started).*, statement_timestamp() AS claimed_at
FROM picked p
CROSS JOIN LATERAL redrive.lease_jobs(
    $1, $8, CASE WHEN p.fit THEN $7::uuid END, p.segments, p.tids, p.bytes, p.crashes, p.are_alone, $5, $13
) l
WHERE p.tids IS NOT NULL
