-- Purpose: lists the breakers that are not closed, the paused queues, the queues whose jobs may wait for their
--          group, and the rate limits, for a worker.
-- Called by: worker/renewer.rs, at start, at each renewal and when notified.
-- Index relied on: none; breakers, queue_pauses, group_policies and rate_limits are small.
-- Rows: one per breaker, with the milliseconds until its next probe (NULL: it has no automatic
--       probe), and one per paused queue, with the cause `pause` and the milliseconds until it ends (NULL: an
--       operator must resume it), one per queue with a policy for groups, with the cause `groups`, and one per rate
--       limit, with the cause `rate`, or `group_rate` if it is one of each group, its kind (no element: all jobs),
--       and when it was set. Zero rows: there is none of these.
SELECT b.name, b.cause, b.kinds,
       CASE WHEN isfinite(b.probe_at)
            THEN greatest(0, extract(epoch FROM b.probe_at - clock_timestamp()) * 1000)::bigint END AS probe_in,
       NULL::timestamptz AS set_at
FROM redrive.breakers b
WHERE b.state <> 'closed'
UNION ALL
SELECT 'queue:' || p.queue, 'pause', '{}',
       ceil(extract(epoch FROM p.ends_at - clock_timestamp()) * 1000)::bigint, NULL
FROM redrive.paused_queues p
UNION ALL
SELECT 'queue:' || g.queue, 'groups', '{}', NULL, NULL
FROM redrive.group_policies g
UNION ALL
SELECT 'queue:' || l.queue, CASE WHEN l.each_group THEN 'group_rate' ELSE 'rate' END, array_remove(ARRAY[l.kind], ''), NULL,
       l.set_at
FROM redrive.rate_limits l
