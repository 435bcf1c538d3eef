-- Purpose: opens a breaker after consecutive outages or a flood of letters. If the breaker is already
--          open, adds the kinds and the outages to it. Forgets breakers that have been closed for 30 days,
--          because handlers may name a dependency for each host.
-- Called by: pipeline/breaker.rs, for a worker's settler.
-- $1 text      breaker
-- $2 text      cause: outage, flood
-- $3 text      message of the last outage
-- $4 text[]    affected kinds; empty if the breaker is for a queue
-- $5 bigint    consecutive outages
-- $6 bigint    delay before the first probe, in milliseconds
-- Locks: the rows of the breaker and of forgotten ones, skipping locked ones. NOTIFY takes the server's notification lock at commit, once per
--        process and outage.
-- Index relied on: the primary key of breakers.
-- Rows: always one.
WITH tripped AS (
    INSERT INTO redrive.breakers AS b (name, state, cause, message, kinds, outages, delay_ms, probe_at)
    VALUES ($1, 'open', $2, $3, $4, $5, $6, clock_timestamp() + $6::bigint * interval '1 millisecond')
    ON CONFLICT (name) DO UPDATE
    SET state = CASE b.state WHEN 'closed' THEN 'open' ELSE b.state END,
        cause = CASE b.state WHEN 'closed' THEN excluded.cause ELSE b.cause END,
        message = CASE WHEN b.state = 'closed' OR b.cause = excluded.cause THEN excluded.message ELSE b.message END,
        kinds = ARRAY(SELECT DISTINCT k.kind FROM unnest(b.kinds || excluded.kinds) AS k (kind) ORDER BY 1),
        outages = excluded.outages + CASE b.state WHEN 'closed' THEN 0 ELSE b.outages END,
        delay_ms = CASE b.state WHEN 'closed' THEN excluded.delay_ms ELSE b.delay_ms END,
        opened_at = CASE b.state WHEN 'closed' THEN excluded.opened_at ELSE b.opened_at END,
        probe_at = CASE b.state WHEN 'closed' THEN excluded.probe_at ELSE b.probe_at END,
        changed_at = clock_timestamp()
    RETURNING b.name
),
forgotten AS (
    DELETE FROM redrive.breakers o
    WHERE o.name IN (
        SELECT c.name FROM redrive.breakers c
        WHERE c.state = 'closed' AND c.changed_at < statement_timestamp() - interval '30 days' AND c.name <> $1
        FOR UPDATE SKIP LOCKED)
)
SELECT pg_notify('redrive_breaker', t.name) IS NULL AS told
FROM tripped t
