-- Purpose: opens a breaker by hand.
-- Called by: breaker.rs.
-- $1 text      breaker
-- $2 bigint    for how long, in milliseconds; NULL: until it is closed
-- $3 text      who      $4 text  why
-- Locks: the row of the breaker.
-- Index relied on: the primary key of breakers.
-- Rows: always one: the id of the act in the audit.
SELECT redrive.open_breaker($1, $2::bigint * interval '1 millisecond', $3, $4) AS act
