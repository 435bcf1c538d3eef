-- Purpose: stores up to which id a worker has found no job to claim, so that a new process need not read
--          these jobs again, and returns the newest id.
-- Called by: pipeline/claim/measure.rs, for a worker's fetcher, every few seconds while its queue is large.
-- $1 text      queue
-- $2 text[]    kinds that this worker handles; NULL: all
-- $3 text[]    kinds that it leaves out; NULL: none
-- $4 integer[] ranks       $5 bigint[]  the mark of each
-- Locks: the rows of these marks, in the order of their ranks.
-- Index relied on: the primary key of claim_marks, which is small.
-- Rows: always one.
WITH stored AS (
    INSERT INTO redrive.claim_marks AS m (queue, claims, rank, id)
    SELECT $1::text, md5(concat($2::text[]::text, '-', $3::text[]::text)), n.rank, n.id
    FROM unnest($4::integer[], $5::bigint[]) n (rank, id)
    WHERE n.id > 0
    ORDER BY n.rank
    ON CONFLICT (queue, claims, rank) DO UPDATE
    SET id = excluded.id, noted_at = excluded.noted_at
    WHERE m.id < excluded.id OR m.noted_at < excluded.noted_at - interval '10 minutes'
),
forgotten AS (
    DELETE FROM redrive.claim_marks m
    WHERE m.noted_at < statement_timestamp() - interval '1 day'
)
SELECT p.last_value AS newest_id
FROM redrive.job_id p
