-- Purpose: removes a retention rule.
-- Called by: dlq/retention.rs.
-- $1 text queue; NULL: the rule for all queues  $2 text state  $3 text operator  $4 text reason
-- Locks: the rule.
-- Index relied on: none; retention is small.
-- Rows: always one: whether the rule existed.
SELECT redrive.remove_retention($1, $2, $3, $4) AS found
