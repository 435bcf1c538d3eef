-- Purpose: runs one step of the ring: notes or truncates a drained segment, makes a clean segment
--          current, or moves stragglers. Also returns what the worker needs to choose where to claim.
-- Called by: worker/chores.rs, about every second while there is work.
-- $1 bigint    size of the current segment, in bytes, from which the ring turns
-- $2 integer   maximum stragglers to move
-- $3 uuid      worker
-- Locks: the row of the current segment in ring_segments, skipped if another session holds it; ACCESS
--        EXCLUSIVE on one drained segment, after waiting at most 50 ms, and not at all while a reader holds the segment.
-- Index relied on: none; workers is small.
-- Rows: always one: the step (drained, truncated, turned, moved or nothing), the segment that received new
--       jobs before it, and the number of other busy workers with the same queue and kinds.
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
