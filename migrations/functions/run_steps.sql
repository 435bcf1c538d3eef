-- Purpose: Steps of a redrive run, taken by its driver.

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

-- Sends the members of a run from the one after `after` to `upto` back, records why others were not sent, and writes the
-- audit. Returns the number sent. A letter that has died since the run was created was sent back by another operation.
CREATE OR REPLACE FUNCTION redrive.send_members(r redrive.redrive_runs, after bigint, upto bigint) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    ids      bigint[];
    ordinals bigint[];
    done     bigint[];
BEGIN
    SELECT coalesce(array_agg(m.letter_id ORDER BY m.ordinal), '{}'), coalesce(array_agg(m.ordinal ORDER BY m.ordinal), '{}')
    INTO ids, ordinals
    FROM redrive.run_letters m
    WHERE m.run_id = r.id AND m.ordinal > after AND m.ordinal <= send_members.upto;
    done := ARRAY(
        SELECT b.ordinal
        FROM redrive.send_back(
            ids, redrive.act_event(CASE WHEN r.forced THEN 'forced' ELSE 'redriven' END, r.person, r.reason,
                jsonb_build_object('run', r.id, 'queue', r.to_queue)),
            r.to_queue, r.priority, r.max_attempts, r.forced, r.id, ordinals, delay_ms => r.delay_ms,
            as_of => r.created_at) b
        WHERE b.result = 'sent');
    IF cardinality(done) < cardinality(ids) THEN
        UPDATE redrive.run_letters m
        SET outcome = 'skipped_' || (
            SELECT f.result FROM redrive.refused_letters(ARRAY[m.letter_id], r.forced, r.to_queue, r.created_at) f)
        -- EXCEPT is hashed or sorted; a join of two arrays might use nested loops.
        WHERE m.run_id = r.id AND m.ordinal IN (SELECT unnest(ordinals) EXCEPT SELECT unnest(done));
    END IF;
    IF done <> '{}' THEN
        PERFORM redrive.record_act('redrive', r.person, r.reason, r.filter, cardinality(done), jsonb_build_object('run', r.id));
    END IF;
    RETURN cardinality(done);
END
$$;
