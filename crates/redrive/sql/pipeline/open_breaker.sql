-- Purpose: opens a breaker for an operator.
-- Called by: pipeline/breaker.rs.
-- $1 text      breaker
-- $2 bigint    duration in milliseconds; NULL: until it is closed
-- $3 text      operator   $4 text  reason
-- Locks: the row of the breaker.
-- Index relied on: the primary key of breakers.
-- Rows: always one: the id of the audit record.
SELECT redrive.open_breaker($1, $2::bigint * interval '1 millisecond', $3, $4) AS act
