-- Purpose: pauses a policy, makes it act, or only tell.
-- Called by: policy.rs.
-- $1 text name  $2 text mode  $3 text person  $4 text why
-- Locks: the policy; it waits for a tick that is running.
-- Index relied on: policies_name_key.
-- Rows: always one: whether there is a policy of that name.
SELECT redrive.set_policy_mode($1, $2, $3, $4) AS found
