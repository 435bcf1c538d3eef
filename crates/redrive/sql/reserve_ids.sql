-- Purpose: takes ids off the sequence for a bulk enqueue, and tells the current segment.
-- Called by: copy.rs.
-- $1 bigint    how many
-- Locks: none.
-- Index relied on: none.
-- Rows: one an id.
SELECT nextval('redrive.job_id') AS id, r.segment
FROM redrive.ring r
CROSS JOIN generate_series(1, $1::bigint)
