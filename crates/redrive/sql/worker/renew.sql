-- Purpose: renews all leases of a worker for one lease time. The first call registers the worker, with a row for each of its
--          queues.
-- Called by: worker/renewer.rs, at start and every third of the lease time.
-- $1 uuid[] rows of the worker      $2 text[] queue of each      $3 text host   $4 integer process id   $5 text version
-- $6 integer[] slots of each        $7 json[] array of the kinds of each (NULL: all)
-- $8 bigint[] lease time of each in milliseconds                    $9 uuid[] pool of slots of each
-- $10 integer[] jobs that a slot of each runs at once
-- Locks: the worker's rows, in the order of their ids.
-- Index relied on: the primary key of workers, which is small; leases_for_reap.
-- Rows: one per row of the worker: the leases committed before this statement, the jobs that an operator cancelled, and
--       whether live workers of the queue have another version of the program.
WITH renewed AS (
    INSERT INTO redrive.workers AS w
        (worker_id, queue, host, pid, version, slots, pool, slot_jobs, kinds, expires_at)
    SELECT u.worker_id, u.queue, $3, $4, $5, u.slots, u.pool, u.slot_jobs,
           CASE WHEN u.kinds IS NOT NULL THEN ARRAY(SELECT json_array_elements_text(u.kinds)) END,
           clock_timestamp() + u.lease_ms * interval '1 millisecond'
    FROM unnest($1::uuid[], $2::text[], $6::integer[], $7::json[], $8::bigint[], $9::uuid[], $10::integer[])
        AS u (worker_id, queue, slots, kinds, lease_ms, pool, slot_jobs)
    ORDER BY u.worker_id
    ON CONFLICT (worker_id) DO UPDATE SET expires_at = excluded.expires_at
)
SELECT u.worker_id,
       ARRAY(SELECT l.lease_id FROM redrive.leases l WHERE l.worker_id = u.worker_id) AS leases,
       ARRAY(
           SELECT c.id
           FROM redrive.leases asked
           CROSS JOIN LATERAL unnest(asked.cancelled) AS c (id)
           WHERE asked.worker_id = u.worker_id
       ) AS cancelled,
       EXISTS (
           SELECT FROM redrive.workers other
           WHERE other.queue = u.queue AND other.version <> $5 AND other.expires_at > statement_timestamp()
       ) AS sees_other_version
FROM unnest($1::uuid[], $2::text[]) AS u (worker_id, queue)
