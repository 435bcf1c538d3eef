-- Purpose: moves delayed jobs of a queue whose time has come into `jobs`, oldest due first.
-- Called by: promote.rs, by a worker's fetcher.
-- $1 text      queue
-- $2 bigint    how many at most
-- Locks: row locks on the jobs it moves; rows locked by others are skipped.
-- Index relied on: jobs_delayed_for_promote. The rows are deleted by ctid, as those of a claim:
--                  a join planned while the table was empty would nest loops over all of it.
-- Rows: always one: how many moved, and in how many milliseconds the next one is due
--       (NULL: none is delayed).
WITH due AS MATERIALIZED (
    SELECT d.ctid AS tid
    FROM redrive.jobs_delayed d
    WHERE d.queue = $1 AND d.run_at <= statement_timestamp()
    ORDER BY d.run_at, d.id
    LIMIT $2
    FOR UPDATE SKIP LOCKED
),
gone AS (
    DELETE FROM redrive.jobs_delayed d
    WHERE d.ctid = ANY (ARRAY(SELECT due.tid FROM due))
    RETURNING d.id, d.run_at, d.enqueued_at, d.attempt, d.max_attempts, d.generation, d.priority,
              d.crashes, d.refunds, d.queue, d.kind, d.payload, d.history, d.unique_key,
              d.outage_since
),
ready AS (
    INSERT INTO redrive.jobs
        (segment, id, ready_at, enqueued_at, attempt, max_attempts, generation, priority, crashes,
         refunds, queue, kind, payload, history, unique_key, outage_since)
    SELECT r.segment, g.id, g.run_at, g.enqueued_at, g.attempt, g.max_attempts, g.generation,
           g.priority, g.crashes, g.refunds, g.queue, g.kind, g.payload, g.history, g.unique_key,
           g.outage_since
    FROM gone g
    CROSS JOIN redrive.ring r
    RETURNING 1
)
SELECT (SELECT count(*) FROM ready) AS moved,
       (
           SELECT greatest(0, extract(epoch FROM d.run_at - clock_timestamp()) * 1000)::bigint
           FROM redrive.jobs_delayed d
           WHERE d.queue = $1 AND d.run_at > statement_timestamp()
           ORDER BY d.run_at
           LIMIT 1
       ) AS next_due_ms
