-- Purpose: sets the mode of a policy.
-- Called by: dlq/policy.rs.
-- $1 text name  $2 text mode  $3 text operator  $4 text reason
-- Locks: the policy; it waits for a tick in progress.
-- Index relied on: policies_name_key.
-- Rows: always one: whether the policy exists.
SELECT redrive.set_policy_mode($1, $2, $3, $4) AS found
