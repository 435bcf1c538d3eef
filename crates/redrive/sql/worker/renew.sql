-- Purpose: renews all leases of a worker for one lease time. The first call registers the worker.
-- Called by: worker/renewer.rs, at start and every third of the lease time.
-- $1 uuid worker   $2 text queue   $3 text host   $4 integer process id   $5 text version
-- $6 integer slots $7 text[] kinds (NULL: all)    $8 bigint lease time in milliseconds
-- Locks: the worker's row.
-- Index relied on: the primary key of workers, which is small; leases_for_reap.
-- Rows: always one: the leases committed before this statement, the worker's jobs that an operator cancelled,
--       and whether live workers of the queue have another version of the program.
WITH renewed AS (
    INSERT INTO redrive.workers AS w
        (worker_id, queue, host, pid, version, slots, kinds, expires_at)
    VALUES ($1, $2::text, $3, $4, $5, $6, $7, clock_timestamp() + $8::bigint * interval '1 millisecond')
    ON CONFLICT (worker_id) DO UPDATE SET expires_at = excluded.expires_at
)
SELECT coalesce(array_agg(l.lease_id), '{}') AS leases,
       coalesce((
           SELECT array_agg(c.id)
           FROM redrive.leases asked
           CROSS JOIN LATERAL unnest(asked.cancelled) AS c (id)
           WHERE asked.worker_id = $1
       ), '{}') AS cancelled,
       EXISTS (
           SELECT FROM redrive.workers other
           WHERE other.queue = $2 AND other.version <> $5 AND other.expires_at > statement_timestamp()
       ) AS sees_other_version
FROM redrive.leases l
WHERE l.worker_id = $1
