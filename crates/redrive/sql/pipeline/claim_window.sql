-- Purpose: moves up to $4 ready jobs of a large queue into leases and returns these. It differs from claim.sql
--          only in what it reads: ids of single ranks. A scan for these stops at their last id. For the range of
--          claim.sql, (rank, id) < (rank, last id), PostgreSQL 15 reads on to the end of the rank.
-- Called by: pipeline/claim.rs, for a worker's fetcher.
-- $1 text, $2 text[], $3 text[], $4 bigint, $5 bigint, $6 integer, $7 uuid, $8 uuid, $12 text[] and $13 integer: as there
-- $9 integer[], $10 bigint[], $11 bigint[]
--               parts of the claim index to scan, in order: the ids of a rank after one and up to another;
--               see pipeline/claim/windows.rs
-- Locks: as there, and the index, too.
-- Rows: as there.
WITH picked AS MATERIALIZED (
    SELECT array_agg(f.segment) AS segments, array_agg(f.tid) AS tids, array_agg(f.bytes) AS bytes,
           array_agg(f.crashes) AS crashes, array_agg(f.is_alone) AS are_alone,
           -- Nearly always one lease can hold all jobs.
           min(f.segment) = max(f.segment) AND sum(f.bytes) <= $5 AND NOT bool_or(f.is_alone) AS fit
    FROM (
        SELECT found.segment, found.tid, found.bytes, found.crashes, found.is_alone
        FROM unnest($9::integer[], $10::bigint[], $11::bigint[])
            WITH ORDINALITY AS range (rank, from_id, to_id, ordinal)
        CROSS JOIN LATERAL (
            SELECT j.segment, j.ctid AS tid, pg_column_size(j.payload) AS bytes, coalesce((j.meta).crashes, 0::smallint) AS crashes,
                   coalesce((j.meta).crashes, 0) > 0 OR j.kind = ANY ($3::text[]) AS is_alone
            FROM redrive.jobs j
            WHERE j.queue = $1 AND j.segment < 8
                AND j.rank = range.rank
                AND j.id > range.from_id
                AND j.id <= range.to_id
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
