-- Purpose: Breakers: jobs are not claimed while something that they need is down.

-- Opens a breaker by hand, which holds back its jobs: for `duration`, after which a probe decides; or, if NULL,
-- until it is closed. Returns the id of the audit record.
CREATE OR REPLACE FUNCTION redrive.open_breaker(
    name text, duration interval DEFAULT NULL, person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    PERFORM redrive.check_name(CASE WHEN open_breaker.name LIKE 'queue:%' THEN 'queue' ELSE 'dependency' END,
        regexp_replace(open_breaker.name, '^queue:', ''));
    PERFORM redrive.refuse(CASE WHEN open_breaker.duration <= '0' OR open_breaker.duration > '3650 days'
        THEN 'the duration is out of range; it must be positive and at most 3650 days' END);
    INSERT INTO redrive.breakers AS b (name, state, cause, message, delay_ms, probe_at)
    VALUES (open_breaker.name, 'open', 'operator', left(open_breaker.reason, 1024), 1000,
            coalesce(clock_timestamp() + open_breaker.duration, 'infinity'))
    ON CONFLICT ON CONSTRAINT breakers_pkey DO UPDATE
    SET state = 'open', cause = 'operator', message = excluded.message, delay_ms = excluded.delay_ms,
        outages = CASE b.state WHEN 'closed' THEN 0 ELSE b.outages END,
        opened_at = CASE b.state WHEN 'closed' THEN excluded.opened_at ELSE b.opened_at END,
        probe_at = excluded.probe_at, changed_at = clock_timestamp();
    RETURN redrive.record_gate('open_breaker', open_breaker.person, open_breaker.reason, jsonb_build_object(
        'breaker', open_breaker.name, 'duration', open_breaker.duration));
END
$$;

-- Closes a breaker by hand, even if workers opened it. Returns whether it was open.
CREATE OR REPLACE FUNCTION redrive.close_breaker(name text, person text DEFAULT NULL, reason text DEFAULT NULL)
    RETURNS boolean
    LANGUAGE sql VOLATILE
AS $$
    WITH closed AS (
        UPDATE redrive.breakers b
        SET state = 'closed', probe_at = NULL, changed_at = clock_timestamp()
        WHERE b.name = $1 AND b.state <> 'closed'
        RETURNING b.name
    )
    SELECT count(redrive.record_gate('close_breaker', $2, $3, jsonb_build_object('breaker', c.name))) > 0 FROM closed c
$$;
