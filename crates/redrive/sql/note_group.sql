-- Purpose: changes the note of a failure group; see redrive.note_group.
-- Called by: group.rs.
-- $1 bigint    group
-- $2 text      the note; NULL takes it away
-- $3 text      who, for the audit
-- $4 text      why, for the audit
-- Locks: the row of the group.
-- Index relied on: the primary key of groups.
-- Rows: always one: whether there is such a group.
SELECT redrive.note_group($1, $2, $3, $4) AS is_known
