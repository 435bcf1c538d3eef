-- Purpose: moves up to $4 ready jobs of a queue into a lease and returns them.
--          Charges an attempt to each, in the statement that hands it out.
-- Called by: claim.rs, by a worker's fetcher.
-- $1 text       queue
-- $2 text[]     kinds this worker handles; NULL: all
-- $3 text[]     kinds whose jobs get a lease each (handlers with their own transaction)
-- $4 bigint     how many at most
-- $5 bigint     bytes of payload after which no further job is taken
-- $6 integer    how many suspects (jobs that lost a worker) may be among them: 0 or 1
-- $7 uuid       id of the lease, made by the client for this call
-- $8 uuid       worker
-- $9 smallint[], $10 bigint[], $11 smallint[]
--               where to look: ranges of the claim index, in order, each from after
--               (-priority, id) to below -priority; see claim/mark.rs
-- $12 text[]    kinds to leave where they are, because a breaker is open; NULL: none
-- Locks: row locks on the jobs it takes; rows locked by others are skipped.
-- Index relied on: jobs_for_claim, by range, merged over the segments. Sequential scans must
--                  be off: an empty table teaches the planner a plan that a full one dies of.
-- Rows: the jobs, in no order; the lease of each (NULL: $7), its priority, generation and crashes
--       (NULL: 0), whether it has a unique key (NULL: no), and for how long it has been in an
--       outage (NULL: it is in none). Zero rows: nothing is ready for this worker.
WITH picked AS MATERIALIZED (
    SELECT found.segment, found.tid, found.bytes, found.suspect
    FROM unnest($9::smallint[], $10::bigint[], $11::smallint[])
        WITH ORDINALITY AS range (from_rank, from_id, to_rank, ordinal)
    CROSS JOIN LATERAL (
        SELECT j.segment, j.ctid AS tid, pg_column_size(j.payload) AS bytes,
               j.crashes > 0 AS suspect
        FROM redrive.jobs j
        WHERE j.queue = $1
            AND (-j.priority, j.id) > (range.from_rank, range.from_id)
            AND -j.priority < range.to_rank
            AND ($2::text[] IS NULL OR j.kind = ANY ($2::text[]))
            AND (j.crashes = 0 OR $6::integer > 0)
            AND ($12::text[] IS NULL OR j.kind <> ALL ($12::text[]))
        ORDER BY -j.priority, j.id
        LIMIT $4
        FOR UPDATE SKIP LOCKED
    ) found
    LIMIT $4
),
-- Whether all of them may be had, which is cheap to ask and nearly always so.
whole AS MATERIALIZED (
    SELECT array_agg(p.tid) FILTER (WHERE p.segment = 0) AS of_0,
           array_agg(p.tid) FILTER (WHERE p.segment = 1) AS of_1,
           array_agg(p.tid) FILTER (WHERE p.segment = 2) AS of_2,
           array_agg(p.tid) FILTER (WHERE p.segment = 3) AS of_3,
           sum(p.bytes) <= $5 AND count(*) FILTER (WHERE p.suspect) <= $6 AS fits
    FROM picked p
),
-- Read only when it does not fit: what would be too many bytes or one suspect too many stays
-- where it is.
part AS MATERIALIZED (
    SELECT array_agg(p.tid) FILTER (WHERE p.segment = 0) AS of_0,
           array_agg(p.tid) FILTER (WHERE p.segment = 1) AS of_1,
           array_agg(p.tid) FILTER (WHERE p.segment = 2) AS of_2,
           array_agg(p.tid) FILTER (WHERE p.segment = 3) AS of_3
    FROM (
        SELECT picked.segment, picked.tid, picked.suspect,
               sum(picked.bytes) OVER so_far - picked.bytes AS bytes_before,
               count(*) FILTER (WHERE picked.suspect) OVER so_far AS suspects
        FROM picked
        WINDOW so_far AS (ROWS UNBOUNDED PRECEDING)
    ) p
    WHERE p.bytes_before < $5 AND (NOT p.suspect OR p.suspects <= $6)
),
-- One DELETE per segment, by an array of ctids: joined to the partitioned parent it costs a
-- third more, and joined row by row it asks for the size of the table at each.
taken_0 AS (
    DELETE FROM redrive.jobs_0 j
    WHERE j.ctid = ANY (CASE WHEN (SELECT w.fits FROM whole w) THEN (SELECT w.of_0 FROM whole w)
                            ELSE (SELECT p.of_0 FROM part p) END)
    RETURNING j.ready_at, j.id, j.kind, j.priority, j.payload, j.attempt + 1 AS attempt, j.max_attempts,
              j.generation, j.crashes, j.refunds, j.enqueued_at, j.history, j.unique_key, j.outage_since,
              CASE WHEN j.crashes > 0 OR j.kind = ANY ($3::text[]) THEN gen_random_uuid() END AS own_lease
),
taken_1 AS (
    DELETE FROM redrive.jobs_1 j
    WHERE j.ctid = ANY (CASE WHEN (SELECT w.fits FROM whole w) THEN (SELECT w.of_1 FROM whole w)
                            ELSE (SELECT p.of_1 FROM part p) END)
    RETURNING j.ready_at, j.id, j.kind, j.priority, j.payload, j.attempt + 1 AS attempt, j.max_attempts,
              j.generation, j.crashes, j.refunds, j.enqueued_at, j.history, j.unique_key, j.outage_since,
              CASE WHEN j.crashes > 0 OR j.kind = ANY ($3::text[]) THEN gen_random_uuid() END AS own_lease
),
taken_2 AS (
    DELETE FROM redrive.jobs_2 j
    WHERE j.ctid = ANY (CASE WHEN (SELECT w.fits FROM whole w) THEN (SELECT w.of_2 FROM whole w)
                            ELSE (SELECT p.of_2 FROM part p) END)
    RETURNING j.ready_at, j.id, j.kind, j.priority, j.payload, j.attempt + 1 AS attempt, j.max_attempts,
              j.generation, j.crashes, j.refunds, j.enqueued_at, j.history, j.unique_key, j.outage_since,
              CASE WHEN j.crashes > 0 OR j.kind = ANY ($3::text[]) THEN gen_random_uuid() END AS own_lease
),
taken_3 AS (
    DELETE FROM redrive.jobs_3 j
    WHERE j.ctid = ANY (CASE WHEN (SELECT w.fits FROM whole w) THEN (SELECT w.of_3 FROM whole w)
                            ELSE (SELECT p.of_3 FROM part p) END)
    RETURNING j.ready_at, j.id, j.kind, j.priority, j.payload, j.attempt + 1 AS attempt, j.max_attempts,
              j.generation, j.crashes, j.refunds, j.enqueued_at, j.history, j.unique_key, j.outage_since,
              CASE WHEN j.crashes > 0 OR j.kind = ANY ($3::text[]) THEN gen_random_uuid() END AS own_lease
),
-- Each reads the four itself: a copy of the rows costs more.
taken AS NOT MATERIALIZED (
    TABLE taken_0 UNION ALL TABLE taken_1 UNION ALL TABLE taken_2 UNION ALL TABLE taken_3
),
-- The others share one, in the order of the disk: whatever is said of a job there names its id.
leased AS (
    INSERT INTO redrive.leases (lease_id, worker_id, queue, jobs)
    SELECT coalesce(t.own_lease, $7), $8, $1,
           array_agg(ROW(t.id, t.kind, t.priority, t.payload, t.attempt, t.max_attempts, t.generation,
                         t.crashes, t.refunds, t.enqueued_at, t.history, t.unique_key,
                         t.outage_since)::redrive.leased_job)
    FROM taken t
    GROUP BY t.own_lease
),
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, words, counts)
    SELECT m.segment, $1, '{claimed}', ARRAY[c.jobs]
    FROM (SELECT count(*) AS jobs FROM taken) c
    CROSS JOIN redrive.metric_ring m
    WHERE c.jobs > 0
)
-- A NULL is the cheapest thing to send, so what nearly all jobs have in common is one.
SELECT t.own_lease, t.id, t.kind, nullif(t.priority, 0) AS priority, t.payload, t.attempt, t.max_attempts,
       nullif(t.generation, 0) AS generation, nullif(t.crashes, 0) AS crashes, t.enqueued_at,
       t.ready_at, statement_timestamp() AS claimed_at,
       CASE WHEN t.unique_key IS NOT NULL THEN true END AS is_unique,
       CASE WHEN t.outage_since IS NOT NULL
            THEN (extract(epoch FROM statement_timestamp() - t.outage_since) * 1000)::bigint END AS outage_ms
FROM taken t
