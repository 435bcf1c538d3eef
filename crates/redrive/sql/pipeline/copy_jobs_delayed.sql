-- Purpose: stores delayed jobs in bulk.
-- Called by: pipeline/copy.rs, which writes the columns in this order.
-- Locks: the rows it inserts.
-- Rows: none.
COPY redrive.jobs_delayed (id, run_at, queue, kind, payload, meta) FROM STDIN BINARY
