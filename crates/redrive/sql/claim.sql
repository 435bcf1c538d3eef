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
-- Rows: the jobs, with their ordinal in their lease, in no order; whether each has a unique key,
--       and for how long it has been in an outage (NULL: it is in none). Zero rows: nothing is
--       ready for this worker.
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
-- What would be too many bytes or one suspect too many stays where it is.
kept AS MATERIALIZED (
    SELECT p.segment, p.tid
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
    WHERE j.ctid = ANY (ARRAY(SELECT k.tid FROM kept k WHERE k.segment = 0))
    RETURNING j.id, j.kind, j.priority, j.payload, j.attempt, j.max_attempts, j.generation,
              j.crashes, j.refunds, j.enqueued_at, j.history, j.unique_key, j.outage_since, j.ready_at
),
taken_1 AS (
    DELETE FROM redrive.jobs_1 j
    WHERE j.ctid = ANY (ARRAY(SELECT k.tid FROM kept k WHERE k.segment = 1))
    RETURNING j.id, j.kind, j.priority, j.payload, j.attempt, j.max_attempts, j.generation,
              j.crashes, j.refunds, j.enqueued_at, j.history, j.unique_key, j.outage_since, j.ready_at
),
taken_2 AS (
    DELETE FROM redrive.jobs_2 j
    WHERE j.ctid = ANY (ARRAY(SELECT k.tid FROM kept k WHERE k.segment = 2))
    RETURNING j.id, j.kind, j.priority, j.payload, j.attempt, j.max_attempts, j.generation,
              j.crashes, j.refunds, j.enqueued_at, j.history, j.unique_key, j.outage_since, j.ready_at
),
taken_3 AS (
    DELETE FROM redrive.jobs_3 j
    WHERE j.ctid = ANY (ARRAY(SELECT k.tid FROM kept k WHERE k.segment = 3))
    RETURNING j.id, j.kind, j.priority, j.payload, j.attempt, j.max_attempts, j.generation,
              j.crashes, j.refunds, j.enqueued_at, j.history, j.unique_key, j.outage_since, j.ready_at
),
taken AS (
    SELECT t.id, t.kind, t.priority, t.payload, t.attempt + 1 AS attempt, t.max_attempts,
           t.generation, t.crashes, t.refunds, t.enqueued_at, t.history, t.unique_key, t.outage_since, t.ready_at,
           CASE WHEN t.crashes > 0 OR t.kind = ANY ($3::text[]) THEN gen_random_uuid() ELSE $7::uuid END AS lease_id,
           CASE
               WHEN t.crashes > 0 OR t.kind = ANY ($3::text[]) THEN 1
               ELSE (count(*) FILTER (WHERE t.crashes = 0 AND t.kind <> ALL ($3::text[])) OVER in_order)::integer
           END AS ordinal
    FROM (
        TABLE taken_0 UNION ALL TABLE taken_1 UNION ALL TABLE taken_2 UNION ALL TABLE taken_3
    ) t
    WINDOW in_order AS (ORDER BY -t.priority, t.id ROWS UNBOUNDED PRECEDING)
),
-- The heap gives rows in the order of the disk; an ordinal is a place in this array.
leased AS (
    INSERT INTO redrive.leases (lease_id, worker_id, queue, jobs)
    SELECT t.lease_id, $8, $1,
           array_agg(ROW(t.id, t.kind, t.priority, t.payload, t.attempt, t.max_attempts, t.generation,
                         t.crashes, t.refunds, t.enqueued_at, t.history, t.unique_key,
                         t.outage_since)::redrive.leased_job
                     ORDER BY t.ordinal)
    FROM taken t
    GROUP BY t.lease_id
),
counted AS (
    INSERT INTO redrive.metric_deltas (segment, queue, words, counts)
    SELECT m.segment, $1, '{claimed}', ARRAY[c.jobs]
    FROM (SELECT count(*) AS jobs FROM taken) c
    CROSS JOIN redrive.metric_ring m
    WHERE c.jobs > 0
)
SELECT t.lease_id, t.ordinal, t.id, t.kind, t.priority, t.payload, t.attempt, t.max_attempts,
       t.generation, t.crashes, t.enqueued_at, t.ready_at,
       statement_timestamp() AS claimed_at,
       t.unique_key IS NOT NULL AS is_unique,
       (extract(epoch FROM statement_timestamp() - t.outage_since) * 1000)::bigint AS outage_ms
FROM taken t
