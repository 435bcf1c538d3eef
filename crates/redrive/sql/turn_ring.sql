-- Purpose: one step of the ring: truncate a drained segment, turn, or move stragglers on. Also says
--          where a worker may look for jobs.
-- Called by: worker/chores.rs, every second or so while there is work.
-- $1 bigint    bytes after which a segment has churned enough
-- $2 integer   stragglers it may move
-- $3 uuid      worker
-- Locks: ACCESS EXCLUSIVE on one drained segment, waited for at most 50 ms.
-- Index relied on: none; workers is small.
-- Rows: always one: truncated, turned, moved or nothing; the segment that new jobs went to before
--       this step; and how many other workers of the queue claim what this one claims.
SELECT redrive.turn_ring($1, $2) AS step,
       (SELECT r.segment FROM redrive.ring r) AS segment,
       (
           SELECT count(*)
           FROM redrive.workers me
           JOIN redrive.workers other
               ON other.queue = me.queue AND other.worker_id <> me.worker_id
               AND other.kinds IS NOT DISTINCT FROM me.kinds
           WHERE me.worker_id = $3 AND NOT other.waiting
               AND other.expires_at > statement_timestamp()
       ) AS others
