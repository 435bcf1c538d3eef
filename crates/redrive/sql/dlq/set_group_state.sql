-- Purpose: sets the state of a failure group; see redrive.set_group_state.
-- Called by: dlq/group.rs.
-- $1 bigint    group
-- $2 text      state: open, acknowledged, resolved, ignored
-- $3 text      operator
-- $4 text      reason
-- Locks: the row of the group.
-- Index relied on: the primary key of groups.
-- Rows: always one: whether the group exists.
SELECT redrive.set_group_state($1, $2, $3, $4) AS is_known
