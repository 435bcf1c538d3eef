-- Purpose: moves up to $4 ready jobs of a large queue into leases and returns these. It differs from claim.sql
--          only in what it reads: ids of single ranks. A scan for these stops at their last id. For the range of
--          claim.sql, (rank, id) < (rank, last id), PostgreSQL 15 reads on to the end of the rank.
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
--               parts of the claim index to scan, in order: the ids of a rank after one and up to another;
--               see pipeline/claim/windows.rs
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
           array_agg(f.crashes) AS crashes, array_agg(f.is_alone) AS are_alone, bool_and(f.is_plain) AS are_plain,
           -- Nearly always one lease can hold all jobs.
           min(f.segment) = max(f.segment) AND sum(f.bytes) <= $5 AND NOT bool_or(f.is_alone) AS fit
    FROM (
        SELECT found.segment, found.tid, found.bytes, found.crashes, found.is_alone, found.is_plain
        FROM unnest($9::integer[], $10::bigint[], $11::bigint[])
            WITH ORDINALITY AS range (rank, from_id, to_id, ordinal)
        CROSS JOIN LATERAL (
            SELECT j.segment, j.ctid AS tid, pg_column_size(j.payload) AS bytes, j.crashes::smallint AS crashes,
                   j.crashes > 0 OR j.kind = ANY ($3::text[]) AS is_alone,
                   j.attempt = 0 AND j.priority = 0 AND j.max_attempts = 5 AND j.generation = 0 AND j.crashes = 0
                       AND j.refunds = 0
                       AND j.ready_at BETWEEN j.enqueued_at - interval '1 ms' AND j.enqueued_at + interval '1 ms'
                       AND num_nonnulls(j.history, j.unique_key, j.outage_since, j.headers, j.group_key) = 0
                       AS is_plain
            FROM redrive.jobs j
            WHERE j.queue = $1 AND j.segment < 8
                AND (j.generation > 0)::integer - 2 * j.priority = range.rank
                AND j.id > range.from_id
                AND j.id <= range.to_id
                AND ($2::text[] IS NULL OR j.kind = ANY ($2::text[]))
                AND j.crashes <= $6::integer
                AND ($12::text[] IS NULL OR j.kind <> ALL ($12::text[]))
            ORDER BY (j.generation > 0)::integer - 2 * j.priority, j.id
            LIMIT $4
            FOR UPDATE SKIP LOCKED
        ) found
        LIMIT $4
    ) f
),
-- The leases: one if it can hold all jobs. If not, each segment has one, each suspect has its own, and so does each
-- job of the kinds of $3.
planned AS (
    SELECT $7::uuid AS lease_id, p.segments[1] AS segment, p.tids, p.are_plain
    FROM picked p
    WHERE p.fit
    UNION ALL
    SELECT gen_random_uuid(), u.segment, array_agg(u.tid), false
    FROM (
        SELECT w.segment, w.tid, w.crashes, CASE WHEN w.is_alone THEN w.place END AS alone,
               sum(w.bytes) OVER so_far - w.bytes AS bytes_before,
               count(*) FILTER (WHERE w.crashes > 0) OVER so_far AS suspects
        FROM picked p
        CROSS JOIN LATERAL unnest(p.segments, p.tids, p.bytes, p.crashes, p.are_alone)
            WITH ORDINALITY AS w (segment, tid, bytes, crashes, is_alone, place)
        WHERE NOT p.fit
        WINDOW so_far AS (ORDER BY w.place ROWS UNBOUNDED PRECEDING)
    ) u
    WHERE u.bytes_before < $5
        -- The first suspect decides: it is the only one, or those that must be alone are left out.
        AND (u.crashes = 0 OR CASE
            WHEN (SELECT (array_remove(p.crashes, 0::smallint))[1] FROM picked p) >= $13::integer THEN u.suspects = 1
            ELSE u.crashes < $13::integer
        END)
    GROUP BY u.segment, u.alone
),
-- By an array of ctids. A join with the partitioned parent costs a third more, and a join row by row
-- looks up the size of the table for each row. The order of the jobs is irrelevant, because later
-- statements name jobs by id.
leased AS (
    INSERT INTO redrive.leases AS l
        (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, ready_at, priorities, attempts,
         max_attempts, generations, crashes, refunds, histories, unique_keys, outages_since, headers,
         group_keys)
    SELECT c.lease_id, $8, $1, t.*
    FROM planned c
    CROSS JOIN LATERAL (
        SELECT array_agg(j.id), array_agg(j.kind::text), array_agg(j.payload), array_agg(j.enqueued_at),
               array_agg(j.ready_at) FILTER (WHERE NOT c.are_plain),
               array_agg(j.priority::smallint) FILTER (WHERE NOT c.are_plain),
               array_agg(j.attempt + 1) FILTER (WHERE NOT c.are_plain),
               array_agg(j.max_attempts::integer) FILTER (WHERE NOT c.are_plain),
               array_agg(j.generation::integer) FILTER (WHERE NOT c.are_plain),
               array_agg(j.crashes::smallint) FILTER (WHERE NOT c.are_plain),
               array_agg(j.refunds::smallint) FILTER (WHERE NOT c.are_plain),
               array_agg(j.history) FILTER (WHERE NOT c.are_plain),
               array_agg(j.unique_key) FILTER (WHERE NOT c.are_plain),
               array_agg(j.outage_since) FILTER (WHERE NOT c.are_plain),
               array_agg(j.headers::jsonb) FILTER (WHERE NOT c.are_plain),
               array_agg(j.group_key::text) FILTER (WHERE NOT c.are_plain)
        FROM redrive.take_jobs(c.segment, c.tids) j
    ) t
    RETURNING l.lease_id, l.job_count, l.ids, l.kinds, l.payloads, l.enqueued_at, l.ready_at, l.priorities,
              l.attempts, l.max_attempts, l.generations, l.crashes, l.unique_keys, l.outages_since, l.headers,
              l.group_keys
),
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, keys, counts)
    SELECT m.segment, $1, '{claimed}', ARRAY[c.jobs]
    FROM (SELECT sum(l.job_count) AS jobs FROM leased l) c
    CROSS JOIN redrive.metric_ring m
    WHERE c.jobs > 0
)
SELECT l.lease_id, l.ids, l.kinds, l.payloads, l.enqueued_at, l.ready_at, l.priorities, l.attempts, l.max_attempts,
       l.generations, l.crashes,
       -- Only a lease with headers and keys calls the function.
       CASE WHEN l.headers IS NOT NULL AND array_remove(l.unique_keys, NULL) <> '{}'
           THEN redrive.free_started_keys(l.ids, l.unique_keys, l.headers) ELSE l.unique_keys END AS unique_keys,
       l.outages_since, l.headers, l.group_keys,
       statement_timestamp() AS claimed_at
FROM leased l
