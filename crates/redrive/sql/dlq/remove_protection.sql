-- Purpose: removes the protection of a queue; see redrive.remove_protection.
-- Called by: dlq/protection.rs.
-- $1 text      queue
-- $2 text      operator       $3 text  reason
-- Locks: the row of the queue in protections.
-- Index relied on: the primary key of protections.
-- Rows: always one: whether the queue had a protection.
SELECT redrive.remove_protection($1, $2, $3) AS is_known
