-- Purpose: assigns a failure group to an owner; see redrive.assign_group.
-- Called by: dlq/group.rs.
-- $1 bigint    group
-- $2 text      owner; NULL: none
-- $3 text      operator
-- $4 text      reason
-- Locks: the row of the group.
-- Index relied on: the primary key of groups.
-- Rows: always one: whether the group exists.
SELECT redrive.assign_group($1, $2, $3, $4) AS is_known
