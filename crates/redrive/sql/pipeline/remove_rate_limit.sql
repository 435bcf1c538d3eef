-- Purpose: removes the rate limit of a queue, or of a kind in it, for an operator.
-- Called by: pipeline/rate_limit.rs.
-- $1 text  queue
-- $2 text  kind; NULL: all jobs of the queue
-- $3 text  operator   $4 text  reason
-- Locks: the rows of the limit and of its bucket.
-- Index relied on: the primary keys of rate_limits and rate_buckets.
-- Rows: always one: whether there was a limit.
SELECT redrive.remove_rate_limit($1, $2, $3, $4) AS was_limited
