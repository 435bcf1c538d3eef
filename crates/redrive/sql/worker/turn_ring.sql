-- Purpose: runs one step of the ring: notes or truncates a drained segment, makes a clean segment
--          current, or moves stragglers. Also returns where the worker claims after a notification, and
--          how much a claim may have to read.
-- Called by: worker/chores.rs, about every second while there is work.
-- $1 bigint    size of the current segment, in bytes, from which the ring turns
-- $2 integer   maximum stragglers to move
-- Locks: the row of the current segment in ring_segments, skipped if another session holds it; ACCESS
--        EXCLUSIVE on one drained segment, after waiting at most 50 ms, and not at all while a reader
--        holds the segment.
-- Rows: always one: the step (drained, truncated, turned, moved or nothing), the segment that received
--       new jobs before it, and the size of all segments.
SELECT redrive.turn_ring($1, $2) AS step,
       (SELECT r.segment FROM redrive.ring r) AS segment,
       (
           SELECT coalesce(sum(pg_relation_size(i.inhrelid)), 0)::bigint
           FROM pg_inherits i
           WHERE i.inhparent = 'redrive.jobs'::regclass AND i.inhrelid <> 'redrive.jobs_waiting'::regclass
       ) AS bytes
