-- Purpose: Taking over a redrive run, and the step that its driver repeats.

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

-- Returns, for each queue with a live worker, how long the oldest job has been ready that was never redriven and
-- that a worker handles; 0: none waits. Returns nothing for a run with a rate. It reads at most 100 jobs of each
-- queue, in the order of claims, in the segment that receives new jobs. The settings keep a plan that was cached
-- while the segment was empty from reading all of it.
CREATE OR REPLACE FUNCTION redrive.live_waits(run bigint) RETURNS TABLE (queue text, waited_ms bigint)
    LANGUAGE sql STABLE
    SET enable_seqscan = off
AS $$
    SELECT w.queue::text,
           coalesce(greatest(0, extract(epoch FROM statement_timestamp() - head.ready_at) * 1000), 0)::bigint
    FROM (
        SELECT h.queue, bool_or(h.kinds IS NULL) AS takes_all,
               array_agg(n.kind) FILTER (WHERE n.kind IS NOT NULL) AS kinds
        FROM redrive.workers h
        LEFT JOIN LATERAL unnest(h.kinds) AS n (kind) ON true
        WHERE h.expires_at > statement_timestamp()
        GROUP BY h.queue
    ) w
    CROSS JOIN LATERAL (
        SELECT min(few.ready_at) AS ready_at
        FROM (
            SELECT coalesce((j.meta).ready_at, j.enqueued_at) AS ready_at, j.kind, (j.meta).generation
            FROM redrive.jobs j
            WHERE j.segment = (SELECT r.segment FROM redrive.ring r) AND j.queue = w.queue
            ORDER BY j.rank, j.id
            LIMIT 100
        ) few
        WHERE few.generation IS NULL AND (w.takes_all OR few.kind = ANY (w.kinds))
    ) head
    WHERE EXISTS (SELECT FROM redrive.redrive_runs r WHERE r.id = live_waits.run AND r.rate IS NULL)
$$;

-- Returns a running run with exact numbers as it goes on: as it is, in its next stage, or halted with the reason: more
-- letters died again than it tolerates. Without a canary, it judges the outcomes since its start, later since the last
-- window of 200 began, as soon as there are 20 of them.
--
-- A canary goes first, alone. Then the run sends four and then sixteen times as many letters, awaits the outcomes of each
-- stage, and sends the rest at the full rate. One death halts a canary of nine, and two halt one of ten. A stage is over
-- when at most the tolerated share has died or is still running, so that one slow job does not delay it.
CREATE OR REPLACE FUNCTION redrive.paced(run redrive.redrive_runs) RETURNS redrive.redrive_runs
    LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    sent      CONSTANT bigint := run.sent - run.stage_sent;
    recovered CONSTANT bigint := run.recovered - run.stage_recovered;
    died      CONSTANT bigint := run.died_alike + run.died_differently - run.stage_died;
    untried   CONSTANT bigint := greatest(0, least(run.stage_to, run.total) - run.cursor);
    is_over   boolean;
BEGIN
    IF run.state = 'running' THEN
        run.halted_because := CASE
            WHEN run.stage_to IS NULL AND recovered + died >= 20 AND died * 100 > (recovered + died) * run.tolerated
                THEN format('%s of the last %s letters died again', died, recovered + died)
            WHEN run.stage_to IS NOT NULL AND died * 100 > (sent + untried) * run.tolerated
                THEN format('%s of the %s letters of the %s died again', died, sent + untried,
                    CASE run.stage WHEN 0 THEN 'canary' ELSE 'stage' END)
            END;
        is_over := CASE WHEN run.stage_to IS NULL THEN recovered + died >= 200
            ELSE untried = 0 AND (sent - recovered) * 100 <= sent * run.tolerated END;
    END IF;
    IF run.halted_because IS NOT NULL THEN
        run.state := 'halted';
    ELSIF is_over THEN
        run.stage := run.stage + 1;
        run.stage_to := CASE WHEN run.canary > 0 THEN
            run.cursor + run.canary * CASE run.stage WHEN 1 THEN 4 WHEN 2 THEN 16 END END;
        run.stage_sent := run.sent;
        run.stage_recovered := run.recovered;
        run.stage_died := run.died_alike + run.died_differently;
    END IF;
    RETURN run;
END
$$;

-- Takes one step of a run: halts it or begins its next stage, and otherwise sends the letters of one chunk that are due by
-- the rate, at most `max_letters`. A driver that lost the run changes nothing.
--
-- The driver may take steps over several connections at once. A step locks the row of the run in share mode, so that only
-- a change of the driver (by a pause, a cancel, another driver) waits for it, then the row of a chunk. The row of the run is
-- written last, and not at all while another connection writes it.
--
-- `status`: `lost` (another driver, or no such run), the state of the run if it is not running, `sent`, `waiting`, or
-- `busy` if other connections of the driver work on every chunk or write the row. `wait_ms`: time until the next step.
-- `chunks`: how many chunks are left, counted up to 2.
CREATE OR REPLACE FUNCTION redrive.drive_run(
    run bigint, my_driver uuid, lease_ms integer, max_letters bigint,
    OUT status text, OUT wait_ms bigint, OUT sent_now bigint, OUT chunks bigint
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    r         redrive.redrive_runs;
    mine      redrive.run_chunks;
    moment    timestamptz;
    old_stage integer;
    due       bigint := 0;
    ids       bigint[];
    ordinals  bigint[];
    done      bigint[];
BEGIN
    sent_now := 0;
    wait_ms := 0;
    chunks := 0;
    SELECT c.* INTO r FROM redrive.redrive_runs c WHERE c.id = run FOR KEY SHARE;
    IF NOT FOUND OR r.driver IS DISTINCT FROM my_driver OR r.state <> 'running' THEN
        status := CASE WHEN r.state = 'running' OR r.id IS NULL THEN 'lost' ELSE r.state END;
        RETURN;
    END IF;
    SELECT n.cursor, n.sent, n.recovered, n.died_alike, n.died_differently
    INTO r.cursor, r.sent, r.recovered, r.died_alike, r.died_differently
    FROM redrive.runs n WHERE n.id = run;
    old_stage := r.stage;
    moment := clock_timestamp();
    r := redrive.paced(r);
    -- It is further ahead only if the clock was set back.
    r.next_at := least(r.next_at, moment + interval '1 second');
    IF r.state = 'running' THEN
        SELECT s.* INTO mine FROM redrive.run_chunks s
        WHERE s.run_id = run
        ORDER BY s.upto LIMIT 1
        FOR UPDATE SKIP LOCKED;
        IF mine.run_id IS NOT NULL THEN
            IF r.rate IS NULL THEN
                due := max_letters;
            ELSIF r.next_at <= moment THEN
                -- How many letters are due by the rate. A late driver catches up by at most one second.
                r.next_at := greatest(r.next_at, moment - interval '1 second');
                due := floor(extract(epoch FROM moment - r.next_at) * r.rate) + 1;
            END IF;
            due := greatest(0, least(due, max_letters, least(mine.upto, r.stage_to) - mine.cursor));
        END IF;
        IF due > 0 THEN
            IF mine.cursor + due = mine.upto THEN
                DELETE FROM redrive.run_chunks s WHERE s.run_id = run AND s.upto = mine.upto;
            ELSE
                UPDATE redrive.run_chunks s SET cursor = s.cursor + due WHERE s.run_id = run AND s.upto = mine.upto;
            END IF;
            SELECT coalesce(array_agg(m.letter_id ORDER BY m.ordinal), '{}'), coalesce(array_agg(m.ordinal ORDER BY m.ordinal), '{}')
            INTO ids, ordinals
            FROM redrive.run_letters m
            WHERE m.run_id = run AND m.ordinal > mine.cursor AND m.ordinal <= mine.cursor + due;
            -- A letter that has died since the run was created was sent back by another operation.
            done := ARRAY(
                SELECT b.ordinal
                FROM redrive.send_back(
                    ids, redrive.act_event(CASE WHEN r.forced THEN 'forced' ELSE 'redriven' END, r.person, r.reason,
                        jsonb_build_object('run', run, 'queue', r.to_queue)),
                    r.to_queue, r.priority, r.max_attempts, r.forced, run, ordinals, delay_ms => r.delay_ms,
                    as_of => r.created_at) b
                WHERE b.result = 'sent');
            sent_now := cardinality(done);
            IF sent_now < cardinality(ids) THEN
                UPDATE redrive.run_letters m
                SET outcome = 'skipped_' || (
                    SELECT f.result FROM redrive.refused_letters(ARRAY[m.letter_id], r.forced, r.to_queue, r.created_at) f)
                -- EXCEPT is hashed or sorted; a join of two arrays might use nested loops.
                WHERE m.run_id = run AND m.ordinal IN (SELECT unnest(ordinals) EXCEPT SELECT unnest(done));
            END IF;
            IF sent_now > 0 THEN
                PERFORM redrive.record_act('redrive', r.person, r.reason, r.filter, sent_now, jsonb_build_object('run', run));
            END IF;
            INSERT INTO redrive.run_deltas (run_id, tried, sent, skipped) VALUES (run, due, sent_now, due - sent_now);
            r.next_at := r.next_at + coalesce(due * (interval '1 second' / r.rate), '0');
        END IF;
        chunks := (SELECT count(*) FROM (SELECT FROM redrive.run_chunks s WHERE s.run_id = run LIMIT 2) few);
        IF chunks = 0 THEN
            r.state := 'finished';
            r.stage_to := NULL;
        END IF;
        wait_ms := greatest(0, ceil(extract(epoch FROM r.next_at - clock_timestamp()) * 1000));
    END IF;
    status := CASE WHEN due > 0 THEN 'sent' WHEN mine.run_id IS NULL THEN 'busy' ELSE 'waiting' END;

    -- Another connection may have halted the run or begun the stage since.
    PERFORM FROM redrive.redrive_runs c
    WHERE c.id = run AND c.state = 'running' AND c.stage = old_stage
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    PERFORM redrive.fold_run(run);
    UPDATE redrive.redrive_runs c
    SET state = r.state, halted_because = r.halted_because, started_at = coalesce(c.started_at, moment),
        ended_at = CASE WHEN r.state <> 'running' THEN clock_timestamp() END, stage = r.stage, stage_to = r.stage_to,
        stage_sent = r.stage_sent, stage_recovered = r.stage_recovered, stage_died = r.stage_died, next_at = r.next_at,
        driver = CASE WHEN r.state = 'running' THEN c.driver END,
        driver_expires_at = CASE WHEN r.state = 'running'
            THEN clock_timestamp() + lease_ms * interval '1 millisecond' END
    WHERE c.id = run;
    IF r.state = 'halted' THEN
        PERFORM redrive.record_act('halt_run', r.person, r.halted_because, r.filter, 0, jsonb_build_object('run', run));
    END IF;
    status := CASE r.state WHEN 'running' THEN status ELSE r.state END;
END
$$;
