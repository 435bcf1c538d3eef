-- Purpose: lists the breakers that are not closed and the paused queues, and the rate limits, for a worker.
-- Called by: pipeline/breaker.rs, for a worker's renewer: at start, at each renewal and when notified.
-- Locks: none.
-- Index relied on: none; breakers, queue_pauses and rate_limits are small.
-- Rows: one per breaker, with the milliseconds until its next probe (NULL: it has no automatic
--       probe), and one per paused queue, with the cause `pause` and the milliseconds until it ends (NULL: an
--       operator must resume it), and one per rate limit, with the cause `rate`, its kind (empty: the whole queue),
--       and the microseconds within which a job must start once it has a token. Zero rows: all breakers are closed, no
--       queue is paused, and there is no limit.
SELECT b.name, b.cause, b.kinds, b.delay_ms,
       CASE WHEN isfinite(b.probe_at)
            THEN greatest(0, extract(epoch FROM b.probe_at - clock_timestamp()) * 1000)::bigint END AS probe_in_ms,
       NULL::bigint AS hold_us
FROM redrive.breakers b
WHERE b.state <> 'closed'
UNION ALL
SELECT 'queue:' || p.queue, 'pause', '{}', 0,
       ceil(extract(epoch FROM p.ends_at - clock_timestamp()) * 1000)::bigint, NULL
FROM redrive.paused_queues p
UNION ALL
SELECT 'queue:' || l.queue, 'rate', ARRAY[l.kind], 0, NULL,
       floor(redrive.token_hold(l) * 1000000)::bigint
FROM redrive.rate_limits l
