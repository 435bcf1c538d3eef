-- Purpose: notifies the workers of a queue about new jobs if one is waiting.
-- Called by: pipeline/copy.rs, in the transaction of the copy.
-- $1 text      queue
-- Locks: the server's notification lock at commit, but only if a worker is waiting.
-- Index relied on: none; workers is small.
-- Rows: one if a notification was sent. Zero rows: no worker is waiting.
SELECT pg_notify('redrive_ready', $1)
FROM redrive.workers w
WHERE w.queue = $1 AND w.waiting AND w.expires_at > statement_timestamp()
LIMIT 1
