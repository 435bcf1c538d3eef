-- Purpose: sets the note of a failure group; see redrive.note_group.
-- Called by: dlq/group.rs.
-- $1 bigint    group
-- $2 text      note; NULL: remove it
-- $3 text      operator
-- $4 text      reason
-- Locks: the row of the group.
-- Index relied on: the primary key of groups.
-- Rows: always one: whether the group exists.
SELECT redrive.note_group($1, $2, $3, $4) AS is_known
