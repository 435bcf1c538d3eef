-- Purpose: sets how long a queue keeps its letters in a given state.
-- Called by: dlq/retention.rs.
-- $1 text queue; NULL: all  $2 text state  $3 bigint milliseconds to keep  $4 text action
-- $5 boolean also delete open letters  $6 text operator  $7 text reason
-- Locks: the rule.
-- Index relied on: retention_one_rule.
-- Rows: always one: the id of the rule.
SELECT redrive.set_retention($1, $2, $3::bigint * interval '1 millisecond', $4, $5, $6, $7) AS id
