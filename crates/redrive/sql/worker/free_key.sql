-- Purpose: frees the unique key of a job that ends in its handler's transaction. This is the last
--          write of the transaction, so no other session waits for the key while the handler runs.
-- Called by: worker/handlers.rs, for a job with a unique key, before the commit.
-- $1 bigint    job
-- Locks: the row of the key, until the commit.
-- Index relied on: unique_keys_by_job.
-- Rows: none.
DELETE FROM redrive.unique_keys k
WHERE k.job_id = $1
