-- Purpose: stores ready jobs in bulk.
-- Called by: pipeline/copy.rs, which writes the columns in this order.
-- Locks: the rows it inserts.
-- Rows: none.
COPY redrive.jobs (id, segment, rank, queue, kind, payload, meta) FROM STDIN BINARY
