-- Purpose: Taking over a redrive run.

-- Makes the caller the driver of a running run without a driver; a NULL `wanted` matches any run, and of several the
-- least recently driven. Returns the run, or NULL.
-- Locks: the row of the run; a run whose row is locked by its driver is skipped. Index: redrive_runs_running, or the
-- primary key.
CREATE OR REPLACE FUNCTION redrive.take_run(wanted bigint, new_driver uuid, lease_ms integer) RETURNS bigint
    LANGUAGE sql VOLATILE
AS $$
    UPDATE redrive.redrive_runs r
    SET driver = new_driver, driver_expires_at = clock_timestamp() + lease_ms * interval '1 millisecond'
    WHERE r.id = (
        SELECT c.id FROM redrive.redrive_runs c
        WHERE c.state = 'running' AND (wanted IS NULL OR c.id = wanted)
            AND (c.driver IS NULL OR c.driver_expires_at < statement_timestamp())
        ORDER BY c.driver_expires_at NULLS FIRST, c.next_at, c.id
        LIMIT 1
        FOR UPDATE SKIP LOCKED)
    RETURNING r.id
$$;
