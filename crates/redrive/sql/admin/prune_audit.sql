-- Purpose: deletes a batch of old audit records, and records that.
-- Called by: admin/audit.rs, once per batch.
-- $1 bigint    age in milliseconds, at least 30 days
-- $2 bigint    maximum number of records
-- $3 text      operator       $4 text  reason
-- Locks: the records it deletes.
-- Index relied on: the primary key.
-- Rows: always one: the number of records deleted. Zero: no record is old enough.
SELECT redrive.prune_audit($1::bigint * interval '1 millisecond', $2, $3, $4) AS pruned
