-- Purpose: counts the runs and the failures of a worker's chores.
-- Called by: worker/chores.rs, after a look if a chore has failed or done work.
-- $1 text      queue of the worker
-- $2 text[]    keys of the counters           $3 text[]    chores
-- $4 smallint[] buckets of histograms         $5 bigint[]  counts
-- $6 float8[]  sums in seconds
-- Rows: none.
INSERT INTO redrive.metric_deltas (queue, keys, labels, buckets, counts, sums) VALUES ($1, $2, $3, $4, $5::bigint[], $6)
