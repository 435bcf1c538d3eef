-- Purpose: sets how long letters of a state of a queue are kept.
-- Called by: retention.rs.
-- $1 text queue; NULL: every one  $2 text state  $3 bigint milliseconds to keep  $4 text action
-- $5 boolean also delete what is open  $6 text person  $7 text why
-- Locks: the rule.
-- Index relied on: retention_one_rule.
-- Rows: always one: the id.
SELECT redrive.set_retention($1, $2, $3::bigint * interval '1 millisecond', $4, $5, $6, $7) AS id
