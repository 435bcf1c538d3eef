-- Purpose: returns what the groups of a queue mean.
-- $1 text      queue
-- Index relied on: the primary key of group_policies.
-- Rows: one, or zero if the queue never had a policy.
SELECT p.mode, p.job_limit, p.on_death
FROM redrive.group_policies p
WHERE p.queue = $1
