-- Purpose: the breakers that are not closed, for a worker.
-- Called by: breaker.rs, by a worker's pulse: at its start, at each renewal and when notified.
-- Locks: none.
-- Index relied on: breakers is small.
-- Rows: one a breaker, with the milliseconds until the next probe (NULL: none by itself). Zero
--       rows: all is well.
SELECT b.name, b.why, b.kinds, b.delay_ms,
       CASE WHEN isfinite(b.probe_at)
            THEN greatest(0, extract(epoch FROM b.probe_at - clock_timestamp()) * 1000)::bigint END AS probe_in_ms
FROM redrive.breakers b
WHERE b.state <> 'closed'
