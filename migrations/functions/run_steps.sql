-- Purpose: Steps of a redrive run, taken by its driver.

-- Makes the caller the driver of a running run without a driver; a NULL `wanted` matches any run, and of several the
-- least recently driven. Returns the run and the term, or NULL.
-- Locks: the row of the run; a run whose row is locked by its driver is skipped. Index: redrive_runs_running, or the
-- primary key.
CREATE OR REPLACE FUNCTION redrive.take_run(
    wanted bigint, new_driver uuid, lease_ms integer, OUT id bigint, OUT term bigint
)
    LANGUAGE sql VOLATILE
AS $$
    UPDATE redrive.redrive_runs r
    SET driver = new_driver, term = r.term + 1,
        driver_expires_at = clock_timestamp() + lease_ms * interval '1 millisecond'
    WHERE r.id = (
        SELECT c.id FROM redrive.redrive_runs c
        WHERE c.state = 'running' AND (wanted IS NULL OR c.id = wanted)
            AND (c.driver IS NULL OR c.driver_expires_at < statement_timestamp())
        ORDER BY c.driver_expires_at NULLS FIRST, c.next_at, c.id
        LIMIT 1
        FOR UPDATE SKIP LOCKED)
    RETURNING r.id, r.term
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
    gone_ids bigint[];
    gone_at  bigint[];
    sent     bigint;
BEGIN
    SELECT coalesce(array_agg(m.letter_id ORDER BY m.ordinal), '{}'), coalesce(array_agg(m.ordinal ORDER BY m.ordinal), '{}')
    INTO ids, ordinals
    FROM redrive.run_letters m
    WHERE m.run_id = r.id AND m.ordinal > after AND m.ordinal <= send_members.upto;
    SELECT coalesce(array_agg(b.id), '{}'), coalesce(array_agg(b.ordinal), '{}')
    INTO gone_ids, gone_at
    FROM redrive.send_back(
        ids, redrive.act_event(CASE WHEN r.forced THEN 'forced' ELSE 'redriven' END, r.person, r.reason,
            jsonb_build_object('run', r.id, 'queue', r.to_queue)),
        r.to_queue, r.priority, r.max_attempts, r.forced, r.id, ordinals, delay_ms => r.delay_ms,
        as_of => r.created_at) b
    WHERE b.result = 'sent';
    sent := cardinality(gone_ids);
    IF sent < cardinality(ids) THEN
        -- EXCEPT is hashed or sorted; a join of two arrays might use nested loops.
        UPDATE redrive.run_letters m
        SET outcome = 'skipped_' || f.result
        FROM (
            SELECT x.ordinal, (redrive.refused_letters(ARRAY[x.id], r.forced, r.to_queue, r.created_at)).result
            FROM (
                SELECT * FROM unnest(ids, ordinals) AS a (id, ordinal)
                EXCEPT
                SELECT * FROM unnest(gone_ids, gone_at) AS g (id, ordinal)
            ) x
        ) f
        WHERE m.run_id = r.id AND m.ordinal = f.ordinal;
    END IF;
    IF sent > 0 THEN
        PERFORM redrive.record_act('redrive', r.person, r.reason, r.filter, sent, jsonb_build_object('run', r.id));
    END IF;
    RETURN sent;
END
$$;

-- Takes one step in a chunk that no other connection works on. The driver may work on several chunks at
-- once. The step locks the row of the run in share mode, so that only a change of term (a pause, a cancel,
-- another driver) waits for it; then it locks the row of the chunk. Letters, jobs, the cursor, the numbers
-- and the audit change in one transaction.
--
-- `status`: `lost`, or the state of the run if it is not running; `sent`; or `busy` if this driver already
-- works on every chunk.
CREATE OR REPLACE FUNCTION redrive.drive_chunk(
    run bigint, my_driver uuid, my_term bigint, lease_ms integer, max_letters bigint,
    OUT status text, OUT sent_now bigint
)
    LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    r        redrive.redrive_runs;
    mine     redrive.run_chunks;
    until    bigint;
BEGIN
    sent_now := 0;
    SELECT c.* INTO r FROM redrive.redrive_runs c WHERE c.id = run FOR KEY SHARE;
    IF NOT FOUND OR r.driver IS DISTINCT FROM my_driver OR r.term <> my_term OR r.state <> 'running' THEN
        status := CASE WHEN r.state = 'running' OR r.id IS NULL THEN 'lost' ELSE r.state END;
        RETURN;
    END IF;
    SELECT s.* INTO mine FROM redrive.run_chunks s
    WHERE s.run_id = run
    ORDER BY s.upto LIMIT 1
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        status := 'busy';
        RETURN;
    END IF;
    until := least(mine.cursor + max_letters, mine.upto);
    IF until = mine.upto THEN
        DELETE FROM redrive.run_chunks s WHERE s.run_id = run AND s.upto = mine.upto;
    ELSE
        UPDATE redrive.run_chunks s SET cursor = until WHERE s.run_id = run AND s.upto = mine.upto;
    END IF;
    sent_now := redrive.send_members(r, mine.cursor, until);
    INSERT INTO redrive.run_deltas (run_id, tried, sent, skipped)
    VALUES (run, until - mine.cursor, sent_now, until - mine.cursor - sent_now);

    -- Lock the row of the run before writing it, and skip it if locked, so that two steps cannot deadlock.
    PERFORM FROM redrive.redrive_runs c
    WHERE c.id = run
        AND (c.started_at IS NULL OR c.driver_expires_at < clock_timestamp() + lease_ms * interval '0.5 milliseconds')
    FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE redrive.redrive_runs c
        SET started_at = coalesce(c.started_at, clock_timestamp()), progress_at = clock_timestamp(),
            driver_expires_at = clock_timestamp() + lease_ms * interval '1 millisecond'
        WHERE c.id = run;
    END IF;
    PERFORM FROM redrive.run_deltas d WHERE d.run_id = run OFFSET 199 LIMIT 1;
    IF FOUND THEN
        PERFORM FROM redrive.redrive_runs c WHERE c.id = run FOR NO KEY UPDATE SKIP LOCKED;
    END IF;
    IF FOUND THEN
        PERFORM redrive.fold_run(run);
    END IF;
    status := 'sent';
END
$$;
