-- Purpose: removes a policy.
-- Called by: dlq/policy.rs.
-- $1 text name  $2 text operator  $3 text reason
-- Locks: the policy; it waits for a tick in progress.
-- Index relied on: policies_name_key.
-- Rows: always one: whether the policy existed.
SELECT redrive.remove_policy($1, $2, $3) AS found
