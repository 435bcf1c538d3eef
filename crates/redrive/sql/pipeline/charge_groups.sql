-- Purpose: takes a token of its group for each claimed job, under a rate limit of each group.
-- Called by: pipeline/group_tokens.rs, for a worker's fetcher, after a claim of jobs that wait for no group, in its
--            transaction.
-- $1 text      queue
-- $2 text[]    group of each job
-- $3 bigint[]  jobs
-- Locks: the rows of the buckets; one that another session has locked grants no token.
-- Index relied on: the primary keys of group_buckets and rate_limits.
-- Rows: one per job: whether it has a token; the microseconds from the start of this statement until the token was
--       taken; those within which it must start after that (NULL: there is no limit any more); and, without a token,
--       those until its group may have one.
SELECT t.job_id, t.is_granted, t.taken_us, t.hold_us, t.wait_us
FROM redrive.take_group_tokens($1, $2::text[], $3::bigint[]) t
