-- Purpose: moves up to $4 ready jobs of a queue into a lease and returns them. The same statement
--          charges one attempt to each job.
-- Called by: pipeline/claim.rs, for a worker's fetcher.
-- $1 text       queue
-- $2 text[]     kinds that this worker handles; NULL: all
-- $3 text[]     kinds whose jobs each get a separate lease (handlers with their own transaction)
-- $4 bigint     maximum number of jobs
-- $5 bigint     payload bytes after which the claim takes no further job
-- $6 integer    maximum crashes of a job, that is, workers that it lost; 0: no suspect
-- $7 uuid       id of the lease, chosen by the client for this call
-- $8 uuid       worker
-- $9 smallint[], $10 bigint[], $11 smallint[]
--               ranges of the claim index to scan, in order, each starting after
--               (-priority, id) and ending before -priority; see pipeline/claim/mark.rs
-- $12 text[]    kinds to skip because a breaker is open; NULL: none
-- $13 integer   crashes from which a suspect is the only suspect of its claim
-- Locks: the rows of the jobs it takes; rows locked by other sessions are skipped.
-- Index relied on: jobs_for_claim, as range scans merged over the segments. Sequential scans must
--                  be off: a plan cached on an empty table is far too slow on a full one.
-- Rows: the jobs, unordered, each with its lease (NULL: $7), priority, generation and crashes
--       (NULL: 0), whether it has a unique key (NULL: no), and the duration of its outage (NULL: no
--       outage). Zero rows: no job is ready for this worker.
WITH picked AS MATERIALIZED (
    SELECT found.segment, found.tid, found.bytes, found.crashes
    FROM unnest($9::smallint[], $10::bigint[], $11::smallint[])
        WITH ORDINALITY AS range (from_rank, from_id, to_rank, ordinal)
    CROSS JOIN LATERAL (
        SELECT j.segment, j.ctid AS tid, pg_column_size(j.payload) AS bytes, j.crashes
        FROM redrive.jobs j
        WHERE j.queue = $1
            AND (-j.priority, j.id) > (range.from_rank, range.from_id)
            AND -j.priority < range.to_rank
            AND ($2::text[] IS NULL OR j.kind = ANY ($2::text[]))
            AND j.crashes <= $6::integer
            AND ($12::text[] IS NULL OR j.kind <> ALL ($12::text[]))
        ORDER BY -j.priority, j.id
        LIMIT $4
        FOR UPDATE SKIP LOCKED
    ) found
    LIMIT $4
),
-- Nearly always the limits on bytes and suspects admit all picked jobs, and checking that is cheap.
whole AS MATERIALIZED (
    SELECT sum(p.bytes) <= $5
               AND (max(p.crashes) < $13::integer OR count(*) FILTER (WHERE p.crashes > 0) = 1) AS fits
    FROM picked p
),
-- Evaluated only if they do not: leaves out the jobs beyond the limits.
part AS MATERIALIZED (
    SELECT p.segment, p.tid
    FROM (
        SELECT picked.segment, picked.tid, picked.crashes,
               sum(picked.bytes) OVER so_far - picked.bytes AS bytes_before,
               count(*) FILTER (WHERE picked.crashes > 0) OVER so_far AS suspects
        FROM picked
        WINDOW so_far AS (ROWS UNBOUNDED PRECEDING)
    ) p
    WHERE p.bytes_before < $5
        -- The first suspect decides: it is the only one, or those that must be alone are left out.
        AND (p.crashes = 0 OR CASE
            WHEN (SELECT f.crashes FROM picked f WHERE f.crashes > 0 LIMIT 1) >= $13::integer THEN p.suspects = 1
            ELSE p.crashes < $13::integer
        END)
),
-- By an array of ctids. A join with the partitioned parent costs a third more, and a join row by row
-- looks up the size of the table for each row.
taken AS MATERIALIZED (
    SELECT j.ready_at, j.id, j.kind, j.priority, j.payload, j.attempt + 1 AS attempt, j.max_attempts,
           j.generation, j.crashes, j.refunds, j.enqueued_at, j.history, j.unique_key, j.outage_since,
           j.headers, j.group_key,
           CASE WHEN j.crashes > 0 OR j.kind = ANY ($3::text[]) THEN gen_random_uuid() END AS own_lease
    FROM (
        SELECT c.segment, array_agg(c.tid) AS tids
        FROM (
            SELECT p.segment, p.tid FROM picked p WHERE (SELECT w.fits FROM whole w)
            UNION ALL
            SELECT p.segment, p.tid FROM part p WHERE NOT (SELECT w.fits FROM whole w)
        ) c
        GROUP BY c.segment
    ) chosen
    CROSS JOIN LATERAL redrive.take_jobs(chosen.segment, chosen.tids) j
),
-- All other jobs share one lease. Their order is irrelevant, because later statements name jobs by id.
leased AS (
    INSERT INTO redrive.leases (lease_id, worker_id, queue, jobs)
    SELECT coalesce(t.own_lease, $7), $8, $1,
           array_agg(ROW(t.id, t.kind, t.priority, t.payload, t.attempt, t.max_attempts, t.generation,
                         t.crashes, t.refunds, t.enqueued_at, t.history, t.unique_key,
                         t.outage_since, t.headers, t.group_key)::redrive.leased_job)
    FROM taken t
    GROUP BY t.own_lease
),
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
    SELECT m.segment, $1, '{claimed}', ARRAY[c.jobs]
    FROM (SELECT count(*) AS jobs FROM taken) c
    CROSS JOIN redrive.metric_ring m
    WHERE c.jobs > 0
)
-- The most common value of a column is sent as NULL, which costs the least.
SELECT t.own_lease, t.id, t.kind, nullif(t.priority, 0) AS priority, t.payload, t.attempt, t.max_attempts,
       nullif(t.generation, 0) AS generation, nullif(t.crashes, 0) AS crashes, t.enqueued_at,
       t.ready_at, statement_timestamp() AS claimed_at,
       CASE WHEN t.unique_key IS NOT NULL THEN true END AS is_unique,
       CASE WHEN t.outage_since IS NOT NULL
            THEN (extract(epoch FROM statement_timestamp() - t.outage_since) * 1000)::bigint END AS outage_ms
FROM taken t
