-- Purpose: takes ids off the sequence for a bulk enqueue, and tells the current segment and time.
-- Called by: copy.rs.
-- $1 bigint    how many
-- Locks: none.
-- Index relied on: none.
-- Rows: always one.
SELECT (SELECT r.segment FROM redrive.ring r) AS segment,
       clock_timestamp() AS now,
       array_agg(nextval('redrive.job_id')) AS ids
FROM generate_series(1, $1::bigint)
