-- Purpose: bulk enqueue of delayed jobs.
-- Called by: copy.rs; the columns there are in this order.
-- Locks: row locks on what it inserts.
-- Index relied on: none.
-- Rows: none.
COPY redrive.jobs_delayed (id, run_at, queue, kind, payload, priority, max_attempts) FROM STDIN BINARY
