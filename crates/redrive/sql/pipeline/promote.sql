-- Purpose: moves the due jobs of a queue from jobs_delayed to jobs, the longest overdue first.
-- Called by: pipeline/promote.rs, for a worker's fetcher.
-- $1 text      queue
-- $2 bigint    maximum number of jobs
-- Locks: the rows of the jobs it moves; rows locked by other sessions are skipped.
-- Index relied on: jobs_delayed_for_promote. The rows are deleted by ctid, as in claim.sql, because
--                  a join planned on an empty table would run nested loops over the whole table.
-- Rows: always one: the number of jobs moved, and the milliseconds until the next job is due (NULL:
--       no job is delayed).
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
              d.outage_since, d.headers, d.group_key
),
ready AS (
    INSERT INTO redrive.jobs
        (segment, id, ready_at, enqueued_at, attempt, max_attempts, generation, priority, crashes,
         refunds, queue, kind, payload, history, unique_key, outage_since, headers, group_key)
    SELECT (SELECT r.segment FROM redrive.ring r), g.id, g.run_at, g.enqueued_at, g.attempt, g.max_attempts, g.generation,
           g.priority, g.crashes, g.refunds, g.queue, g.kind, g.payload, g.history, g.unique_key,
           g.outage_since, g.headers, g.group_key
    FROM gone g
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
