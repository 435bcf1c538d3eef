-- Purpose: removes the rate limit of a queue, of a kind in it, or of each group, for an operator.
-- Called by: pipeline/rate_limit.rs.
-- $1 text  queue
-- $2 text  kind; NULL: all jobs of the queue
-- $3 text  operator   $4 text  reason
-- $5 boolean  whether it is a limit of each group
-- Locks: the rows of the limit, of its bucket or buckets, and of the group policy.
-- Index relied on: the primary keys of rate_limits, rate_buckets, group_buckets and group_policies.
-- Rows: always one: whether there was a limit.
SELECT redrive.remove_rate_limit($1, $2, $5, $3, $4) AS was_limited
