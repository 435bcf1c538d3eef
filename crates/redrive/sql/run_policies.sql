-- Purpose: runs one tick of a policy that is due, under its lease.
-- Called by: policy/tick.rs, by any worker, every few seconds, until it answers nothing.
-- $1 uuid      the worker that runs it
-- $2 bigint    lease in milliseconds
-- Locks: the row of the policy and the letters it sends back; what is locked is skipped.
-- Index relied on: dead_letters_open_for_redrive or dead_letters_for_list.
-- Rows: one for a tick. Zero rows: no policy is due, or those that are belong to somebody else.
SELECT r.policy, r.letters, r.mode, r.trouble
FROM redrive.run_policies($1, $2::bigint * interval '1 millisecond') r
