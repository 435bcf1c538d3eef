-- Purpose: moves up to $4 jobs that wait for their group into leases and returns these. It charges one attempt to each
--          job, as claim.sql does, and takes a slot for each if the groups of the queue are ordered or limited.
-- Called by: pipeline/claim/groups.rs, for the fetcher of a worker whose queue has a policy for groups.
-- $1 text       queue
-- $2 text[]     kinds that this worker handles; NULL: all
-- $3 text[]     kinds whose jobs each get a separate lease (handlers with their own transaction)
-- $4 bigint     maximum number of jobs
-- $5 bigint     payload bytes after which the claim takes no further job
-- $6 uuid       id of the lease, chosen by the client for this call; further leases have random ids
-- $7 uuid       worker
-- $8 text[]     kinds to skip because a breaker is open; NULL: none
-- $9 text       group after which the walk over the groups starts; NULL: the first one
-- $10 bigint    id after which jobs count as arrived; NULL: all have been seen
-- $11 text[]    groups in which this process has just freed a slot
-- $12 integer   maximum number of groups to walk over, and of arrived jobs
-- Locks: the rows of the jobs it takes; rows locked by other sessions are skipped, and no other row takes their place,
--        because that would break the order. It waits for another claim that takes the same slot until that commits.
-- Index relied on: jobs_waiting_by_group, one descent per group; jobs_waiting_by_id; the primary key of group_slots. It
--                  names the partition, because a condition on the segment would make another index look better.
-- Rows: at least one. Each has where the next walk starts (NULL: the first group) and the last arrived job, and the
--       columns of claim.sql for one lease; these are NULL in a single row: no group has a job for this worker.
WITH RECURSIVE policy AS MATERIALIZED (
    SELECT coalesce(max(p.mode) IN ('ordered', 'limit'), false) AS is_bounded, coalesce(max(p.job_limit), 1) AS job_limit,
           -- A job that the worker cannot run stops an ordered group, and is passed over in others.
           CASE max(p.mode) WHEN 'ordered' THEN 1 ELSE 1000 END AS depth
    FROM redrive.group_policies p
    WHERE p.queue = $1
),
walk (key, n) AS (
    (
        SELECT j.group_key::text, 1
        FROM redrive.jobs_waiting j
        WHERE j.queue = $1 AND j.group_key > coalesce($9::text, '')
        ORDER BY j.group_key
        LIMIT 1
    )
    UNION ALL
    SELECT (
               SELECT j.group_key::text
               FROM redrive.jobs_waiting j
               WHERE j.queue = $1 AND j.group_key > w.key
               ORDER BY j.group_key
               LIMIT 1
           ), w.n + 1
    FROM walk w
    WHERE w.key IS NOT NULL AND w.n < $12::integer
),
arrived AS MATERIALIZED (
    SELECT j.group_key::text AS key, j.id
    FROM redrive.jobs_waiting j
    WHERE j.queue = $1 AND j.id + 0 > $10::bigint
    ORDER BY j.id + 0
    LIMIT $12::integer
),
-- The groups of the walk come first, because a group whose jobs keep arriving must not keep them waiting.
candidates AS MATERIALIZED (
    SELECT c.key, min(c.place) AS place, bool_or(c.is_walk) AS is_walk, count(*) OVER () AS keys
    FROM (
        SELECT w.key, w.n AS place, true AS is_walk FROM walk w WHERE w.key IS NOT NULL
        UNION ALL
        SELECT a.key, $12::integer + 1, false FROM arrived a
        UNION ALL
        SELECT f.key, $12::integer + 2, false FROM unnest($11::text[]) AS f (key)
    ) c
    GROUP BY c.key
),
-- Each group gives an equal share. The first jobs of all groups come before the second ones.
picked AS MATERIALIZED (
    SELECT f.tid, f.id, f.key, f.slot, f.is_walk, f.is_alone, sum(f.bytes) OVER so_far - f.bytes AS bytes_before
    FROM (
        SELECT h.tid, h.id, h.bytes, h.kind = ANY ($3::text[]) AS is_alone, c.key, c.place, c.is_walk, h.nth,
               u.free[h.nth]::smallint AS slot
        FROM policy p
        CROSS JOIN candidates c
        CROSS JOIN LATERAL (
            SELECT CASE WHEN p.is_bounded THEN ARRAY(
                       SELECT n.slot
                       FROM generate_series(1, p.job_limit) AS n (slot)
                       WHERE n.slot <> ALL (ARRAY(
                           SELECT s.slot FROM redrive.group_slots s WHERE s.queue = $1 AND s.group_key = c.key))
                       ORDER BY n.slot
                   ) END AS free,
                   -- Of a former policy, slots above the limit may be in use.
                   CASE WHEN p.is_bounded THEN p.job_limit - (
                       SELECT count(*) FROM redrive.group_slots s WHERE s.queue = $1 AND s.group_key = c.key
                   ) ELSE $4::bigint END AS room
        ) u
        CROSS JOIN LATERAL (
            SELECT k.tid, k.id, k.kind, k.bytes, row_number() OVER (ORDER BY k.id)::integer AS nth
            FROM (
                SELECT o.tid, o.id, o.kind, o.bytes
                FROM (
                    SELECT j.ctid AS tid, j.id, j.kind, pg_column_size(j.payload) AS bytes
                    FROM redrive.jobs_waiting j
                    WHERE j.queue = $1 AND j.group_key = c.key
                    ORDER BY j.id
                    LIMIT p.depth
                ) o
                WHERE ($2::text[] IS NULL OR o.kind = ANY ($2::text[]))
                    AND ($8::text[] IS NULL OR o.kind <> ALL ($8::text[]))
                ORDER BY o.id
                LIMIT least(u.room, ($4::bigint + c.keys - 1) / c.keys)
            ) k
        ) h
        WHERE u.room > 0
        ORDER BY h.nth, c.place, c.key
        LIMIT $4
    ) f
    WINDOW so_far AS (ORDER BY f.nth, f.place, f.key ROWS UNBOUNDED PRECEDING)
),
locked AS MATERIALIZED (
    SELECT j.ctid AS tid
    FROM redrive.jobs_waiting j
    WHERE j.ctid = ANY (ARRAY(SELECT p.tid FROM picked p WHERE p.bytes_before < $5))
    FOR UPDATE SKIP LOCKED
),
-- The snapshot may miss a slot that another process has taken, or a job with a lower id. The primary key does not.
taken AS (
    INSERT INTO redrive.group_slots AS s (queue, group_key, slot, job_id)
    SELECT $1, p.key, p.slot, p.id
    FROM picked p
    WHERE (p.tid IN (SELECT k.tid FROM locked k)) IS TRUE AND p.slot IS NOT NULL
    -- In a fixed order, so that two claims cannot deadlock.
    ORDER BY p.key, p.slot
    ON CONFLICT DO NOTHING
    RETURNING s.job_id
),
planned AS (
    SELECT CASE WHEN r.alone IS NULL THEN $6::uuid ELSE gen_random_uuid() END AS lease_id, r.tids
    FROM (
        SELECT CASE WHEN p.is_alone THEN p.id END AS alone, array_agg(p.tid) AS tids
        FROM picked p
        WHERE CASE WHEN p.slot IS NULL THEN (p.tid IN (SELECT k.tid FROM locked k))
                   ELSE (p.id IN (SELECT t.job_id FROM taken t)) END
        GROUP BY 1
    ) r
),
leased AS (
    INSERT INTO redrive.leases AS l
        (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, ready_at, priorities, attempts,
         max_attempts, generations, crashes, refunds, histories, unique_keys, outages_since, headers,
         group_keys)
    SELECT c.lease_id, $7, $1, t.*
    FROM planned c
    CROSS JOIN LATERAL (
        SELECT array_agg(j.id), array_agg(j.kind::text), array_agg(j.payload), array_agg(j.enqueued_at),
               array_agg(j.ready_at), array_agg(j.priority::smallint), array_agg(j.attempt + 1),
               array_agg(j.max_attempts::integer), array_agg(j.generation::integer),
               array_agg(j.crashes::smallint), array_agg(j.refunds::smallint), array_agg(j.history),
               array_agg(j.unique_key), array_agg(j.outage_since), array_agg(j.headers::jsonb),
               array_agg(j.group_key::text)
        FROM redrive.take_jobs(8::smallint, c.tids) j
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
       statement_timestamp() AS claimed_at, n.walked_to, n.arrived_to
FROM (
    SELECT CASE
               -- The claim is full, so the next walk starts after the last group that gave a job.
               WHEN (SELECT count(*) FROM picked p WHERE p.is_walk) >= $4
                   THEN (SELECT max(p.key COLLATE "C") FROM picked p WHERE p.is_walk)
               ELSE (SELECT w.key FROM walk w WHERE w.n >= $12::integer)
           END AS walked_to,
           coalesce((SELECT max(a.id) FROM arrived a), $10, (SELECT q.last_value FROM redrive.job_id q)) AS arrived_to
) n
LEFT JOIN leased l ON true
