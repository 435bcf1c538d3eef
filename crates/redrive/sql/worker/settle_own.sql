-- Purpose: settles a job as done in its handler's transaction, so that the handler's writes and the
--          end of the job commit or roll back together.
-- Called by: worker/handlers.rs, before the handler runs.
-- $1 uuid      lease, which holds only this job
-- $2 bigint    job
-- $3 integer   its generation
-- $4 text      its kind
-- $5 integer   its attempt
-- $6 smallint  histogram bucket of the attempt
-- $7 double precision time it waited to be claimed, in seconds
-- $8 smallint  histogram bucket of that time
-- $9 timestamptz time of its first enqueue
-- Locks: the lease row, until the handler's transaction ends; reap.sql and release.sql skip it.
-- Index relied on: the primary keys of leases and dead_letters.
-- Rows: one if the lease is held. Zero rows: the lease is lost.
SELECT true AS settled
WHERE redrive.settle_own($1, $2, $3, $4, $5, $6, $7, $8, $9)
