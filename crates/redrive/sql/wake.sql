-- Purpose: tells waiting workers of a queue that jobs came, if any waits.
-- Called by: copy.rs, in the transaction of the copy.
-- $1 text      queue
-- Locks: the server's notification lock at commit, only when a worker waits.
-- Index relied on: workers is small.
-- Rows: one when somebody was told, else none.
SELECT pg_notify('redrive_ready', $1)
FROM redrive.workers w
WHERE w.queue = $1 AND w.waiting AND w.expires_at > statement_timestamp()
LIMIT 1
