-- Purpose: closes a breaker for an operator.
-- Called by: pipeline/breaker.rs.
-- $1 text      breaker
-- $2 text      operator   $3 text  reason
-- Locks: the row of the breaker.
-- Index relied on: the primary key of breakers.
-- Rows: always one: whether the breaker was open.
SELECT redrive.close_breaker($1, $2, $3) AS was_open
