-- Purpose: ends a probe: closes the breaker, reopens it with twice the delay, or returns the grant
--          because the job did not run. Such a probe has shown nothing, so the next one comes soon.
-- Called by: pipeline/probe.rs, for a worker's settler.
-- $1 text      breaker
-- $2 bigint    number of the probe; a mismatch means that the breaker has moved on
-- $3 text      close, reopen, give_back
-- $4 bigint    maximum delay, in milliseconds
-- $5 bigint    delay after give_back, in milliseconds
-- Locks: the row of the breaker. NOTIFY takes the server's notification lock at commit.
-- Index relied on: the primary key of breakers.
-- Rows: one. Zero rows: the worker lost the grant; nothing changed.
WITH ended AS (
    UPDATE redrive.breakers b
    SET state = CASE $3 WHEN 'close' THEN 'closed' ELSE 'open' END,
        outages = b.outages + CASE $3 WHEN 'reopen' THEN 1 ELSE 0 END,
        delay_ms = CASE $3 WHEN 'reopen' THEN least(2 * b.delay_ms, $4::bigint) ELSE b.delay_ms END,
        changed_at = clock_timestamp(),
        probe_at = CASE WHEN $3 <> 'close'
            THEN clock_timestamp()
                 + CASE $3 WHEN 'give_back' THEN $5::bigint ELSE least(2 * b.delay_ms, $4::bigint) END
                 * (0.8 + 0.4 * random()) * interval '1 millisecond' END
    WHERE b.name = $1 AND b.probes = $2 AND b.state = 'half_open'
    RETURNING b.name
)
SELECT pg_notify('redrive_breaker', e.name) IS NULL AS told
FROM ended e
