-- Purpose: keeps finished jobs for a time, in the transaction that settles them.
-- Called by: pipeline/done_jobs.rs, after the settle.
-- $1 text[]    queue of each job
-- $2 bigint[]  id      $3 text[] kind      $4 smallint[] priority
-- $5 integer[] attempt that succeeded      $6 integer[] attempt budget      $7 integer[] generation
-- $8 timestamptz[] first enqueue
-- $9 bigint[]  run time in milliseconds    $10 bigint[] how long to keep it, in milliseconds
-- Rows: none.
INSERT INTO redrive.done_jobs (slot, queue, id, kind, priority, attempt, max_attempts, generation, enqueued_at, started_at,
                               done_at, keep_until)
SELECT redrive.done_slot(t.keep_until), j.queue, j.id, j.kind, j.priority, j.attempt, j.max_attempts, j.generation,
       j.enqueued_at, t.done_at - j.run_ms * interval '1 millisecond', t.done_at, t.keep_until
FROM unnest($1::text[], $2::bigint[], $3::text[], $4::smallint[], $5::integer[], $6::integer[], $7::integer[],
            $8::timestamptz[], $9::bigint[], $10::bigint[])
    AS j (queue, id, kind, priority, attempt, max_attempts, generation, enqueued_at, run_ms, keep_ms)
CROSS JOIN LATERAL (
    SELECT clock_timestamp() AS done_at, clock_timestamp() + j.keep_ms * interval '1 millisecond' AS keep_until
) t
