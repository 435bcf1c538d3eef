-- Purpose: ends the transactions of handlers that outlast their deadline or the stop of their worker, so that the next
--          attempt does not wait for their locks. They cannot settle their jobs any more.
-- $1 integer[] processes of their sessions   $2 timestamptz[] begins of the transactions
-- Rows: one per session that was told to end. A session that has begun another transaction is left alone.
SELECT pg_terminate_backend(a.pid) AS told
FROM pg_stat_activity a
JOIN unnest($1::integer[], $2::timestamptz[]) AS t (pid, began) ON t.pid = a.pid AND t.began = a.xact_start
