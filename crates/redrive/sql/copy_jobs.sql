-- Purpose: bulk enqueue of ready jobs.
-- Called by: copy.rs; the columns there are in this order.
-- Locks: row locks on what it inserts.
-- Index relied on: none.
-- Rows: none.
COPY redrive.jobs (id, segment, queue, kind, payload, priority, max_attempts) FROM STDIN BINARY
