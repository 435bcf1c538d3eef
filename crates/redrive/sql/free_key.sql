-- Purpose: frees the unique key of a job that its handler's own transaction ends. The last write of
--          that transaction, so that nobody waits for the key while the handler runs.
-- Called by: worker/handlers.rs, for a job that has a key, before the commit.
-- $1 bigint    job
-- Locks: the row of the key, until the commit.
-- Index relied on: unique_keys_by_job.
-- Rows: none.
DELETE FROM redrive.unique_keys k
WHERE k.job_id = $1
