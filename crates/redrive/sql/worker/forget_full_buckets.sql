-- Purpose: deletes buckets of groups that are full, because a group without a bucket has all tokens.
-- Called by: worker/chores.rs, for any worker.
-- $1 integer  maximum number of buckets
-- Locks: the rows of the buckets; those that another session has locked are skipped.
-- Index relied on: group_buckets_by_time, for each queue with a policy.
-- Rows: always one: the number of deleted buckets.
SELECT redrive.forget_full_buckets($1) AS folded
