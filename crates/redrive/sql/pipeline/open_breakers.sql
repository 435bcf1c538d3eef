-- Purpose: lists the breakers that are not closed, for a worker.
-- Called by: pipeline/breaker.rs, for a worker's renewer: at start, at each renewal and when notified.
-- Locks: none.
-- Index relied on: none; breakers is small.
-- Rows: one per breaker, with the milliseconds until its next probe (NULL: it has no automatic
--       probe). Zero rows: all breakers are closed.
SELECT b.name, b.cause, b.kinds, b.delay_ms,
       CASE WHEN isfinite(b.probe_at)
            THEN greatest(0, extract(epoch FROM b.probe_at - clock_timestamp()) * 1000)::bigint END AS probe_in_ms
FROM redrive.breakers b
WHERE b.state <> 'closed'
