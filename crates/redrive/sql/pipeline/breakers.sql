-- Purpose: lists breakers for operators, those that are not closed first.
-- Index relied on: none; breakers is small.
-- Rows: one per breaker that has opened at least once. Zero rows: none has opened.
SELECT b.name, b.state, b.cause, b.message, b.kinds, b.outages, b.probes, b.delay_ms AS wait,
       b.opened_at, b.changed_at, CASE WHEN isfinite(b.probe_at) THEN b.probe_at END AS probe_at
FROM redrive.breakers b
ORDER BY b.state = 'closed', b.opened_at DESC, b.name
