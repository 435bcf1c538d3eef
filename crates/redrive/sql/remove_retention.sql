-- Purpose: removes a rule of retention.
-- Called by: retention.rs.
-- $1 text queue; NULL: the rule for every one  $2 text state  $3 text person  $4 text why
-- Locks: the rule.
-- Index relied on: retention is small.
-- Rows: always one: whether there was such a rule.
SELECT redrive.remove_retention($1, $2, $3, $4) AS found
