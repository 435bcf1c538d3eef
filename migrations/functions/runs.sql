-- Purpose: Redrive runs: redrives that survive the process that started them.

-- Records the outcome of a member in the statement that ends its job. The first state after `redriving` is
-- the outcome. `reopen` has set `alike`. A job that was diverted did not run: its letter counts as skipped, not as sent.
CREATE OR REPLACE FUNCTION redrive.record_run_outcomes() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM became b WHERE b.run_id IS NOT NULL AND b.state <> 'redriving') THEN
        RETURN NULL;
    END IF;
    WITH told AS (
        UPDATE redrive.run_letters m
        SET outcome = CASE
            WHEN b.state = 'recovered' THEN 'recovered'
            WHEN b.cause = 'diverted' THEN 'skipped_diverted'
            WHEN b.alike > 0 THEN 'died_alike'
            ELSE 'died_differently'
        END
        FROM became b
        WHERE b.run_id IS NOT NULL AND b.state <> 'redriving'
            AND m.run_id = b.run_id AND m.ordinal = b.run_ordinal AND m.outcome IS NULL
        RETURNING m.run_id, m.outcome
    )
    INSERT INTO redrive.run_deltas (run_id, sent, skipped, recovered, died_alike, died_differently)
    SELECT t.run_id, -count(*) FILTER (WHERE t.outcome = 'skipped_diverted'),
           count(*) FILTER (WHERE t.outcome = 'skipped_diverted'),
           count(*) FILTER (WHERE t.outcome = 'recovered'),
           count(*) FILTER (WHERE t.outcome = 'died_alike'),
           count(*) FILTER (WHERE t.outcome = 'died_differently')
    FROM told t
    GROUP BY t.run_id;
    RETURN NULL;
END
$$;
