-- Purpose: closes a breaker by hand.
-- Called by: breaker.rs.
-- $1 text      breaker
-- $2 text      who      $3 text  why
-- Locks: the row of the breaker.
-- Index relied on: the primary key of breakers.
-- Rows: always one: whether it was open.
SELECT redrive.close_breaker($1, $2, $3) AS was_open
