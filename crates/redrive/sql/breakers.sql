-- Purpose: lists breakers for a person, those that are not closed first.
-- Called by: breaker.rs.
-- Locks: none.
-- Index relied on: breakers is small.
-- Rows: one a breaker that was ever open.
SELECT b.name, b.state, b.why, b.message, b.kinds, b.outages, b.openings, b.probes, b.delay_ms,
       b.opened_at, b.changed_at, CASE WHEN isfinite(b.probe_at) THEN b.probe_at END AS probe_at
FROM redrive.breakers b
ORDER BY b.state = 'closed', b.opened_at DESC, b.name
