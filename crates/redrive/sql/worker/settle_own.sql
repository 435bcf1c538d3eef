-- Purpose: settles a job as done in its handler's transaction, so that the handler's writes and the
--          end of the job commit or roll back together.
-- Called by: pipeline/settle.rs, after the handler has run and before its follow-ups are stored.
-- $1 uuid      lease, which holds only this job
-- $2 bigint    job
-- $3 integer   its generation
-- $4 boolean   whether it has a unique key
-- $5 boolean   whether it has a group
-- $6 timestamptz begin of the transaction, which the handler must not have ended
-- $7 text[], $8 text[], $9 smallint[], $10 bigint[], $11 double precision[]
--              counter changes: key, label, bucket, count, sum; see pipeline/tallies.rs
-- Locks: the lease row, the letter of a redriven job, its unique key and its slot, until the commit, which follows.
-- Index relied on: the primary keys of leases and dead_letters; unique_keys_by_job; group_slots_by_job.
-- Rows: one if the lease is held, with the id of the transaction. Zero rows: the lease is lost.
SELECT pg_catalog.pg_current_xact_id()::text AS xid
WHERE redrive.settle_own($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
