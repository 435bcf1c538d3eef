-- Purpose: removes a policy.
-- Called by: policy.rs.
-- $1 text name  $2 text person  $3 text why
-- Locks: the policy; it waits for a tick that is running.
-- Index relied on: policies_name_key.
-- Rows: always one: whether there was a policy of that name.
SELECT redrive.remove_policy($1, $2, $3) AS found
