-- Purpose: The step of a redrive run that its driver repeats.

-- Returns, for each queue with a live worker, how long the oldest job has been ready that was never redriven and
-- that a worker handles; 0: none waits. Returns nothing for a run with a rate. It reads at most 100 jobs of each
-- queue, in the order of claims, in the segment that receives new jobs. The settings keep a plan that was cached
-- while the segment was empty from reading all of it.
CREATE OR REPLACE FUNCTION redrive.live_waits(run bigint) RETURNS TABLE (queue text, waited_ms bigint)
    LANGUAGE sql STABLE
    SET enable_seqscan = off
    SET enable_bitmapscan = off
    SET jit = off
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

-- Takes one step of a run: applies what the driver decided after the previous step (a halt or the next
-- stage), then sends the letters that are due by the rate, at most `max_letters`. The step is one transaction
-- under the lock of the run's row. A driver whose term is over changes nothing.
--
-- `status`: `lost` (another driver, or no such run), the state of the run if it is not running, `sent`,
-- `waiting`, or `busy` (see drive_chunk). `wait_ms`: time until the next step. `chunks`: how many chunks
-- are left for other connections of the driver, counted up to 2.
CREATE OR REPLACE FUNCTION redrive.drive_run(
    run bigint, my_driver uuid, my_term bigint, lease_ms integer, max_letters bigint,
    halt text, next_stage integer, next_stage_to bigint,
    OUT status text, OUT wait_ms bigint, OUT sent_now bigint,
    OUT canary bigint, OUT stage integer, OUT stage_to bigint, OUT stage_sent bigint,
    OUT stage_recovered bigint, OUT stage_died bigint,
    OUT total bigint, OUT cursor bigint, OUT sent bigint, OUT skipped bigint, OUT recovered bigint,
    OUT died bigint, OUT chunks bigint, OUT tolerated integer, OUT sample integer
)
    LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    r        redrive.redrive_runs;
    moment   timestamptz;
    bound    bigint;
    due      bigint;
    ids      bigint[] := '{}';
    ordinals bigint[] := '{}';
    retried  boolean := false;
BEGIN
    sent_now := 0;
    wait_ms := 0;
    chunks := 0;
    -- Check before any lock: two connections that share the lock of the run for a chunk could not upgrade
    -- it. A finished chunk is visible until its step commits. A halt needs no chunk, and waits for the steps
    -- of the other connection.
    IF halt IS NULL AND EXISTS (SELECT FROM redrive.run_chunks s WHERE s.run_id = run) THEN
        SELECT d.status, d.sent_now INTO status, sent_now
        FROM redrive.drive_chunk(run, my_driver, my_term, lease_ms, max_letters) d;
        IF status NOT IN ('sent', 'busy') THEN
            RETURN;
        END IF;
        chunks := (SELECT count(*) FROM (SELECT FROM redrive.run_chunks s WHERE s.run_id = run LIMIT 2) few);
    ELSE
        SELECT c.* INTO r FROM redrive.redrive_runs c WHERE c.id = run FOR UPDATE;
        moment := clock_timestamp();
        IF NOT FOUND OR r.driver IS DISTINCT FROM my_driver OR r.term <> my_term THEN
            status := CASE WHEN r.state = 'running' OR r.id IS NULL THEN 'lost' ELSE r.state END;
            RETURN;
        END IF;

        IF redrive.fold_run(run) > 0 THEN
            SELECT c.* INTO r FROM redrive.redrive_runs c WHERE c.id = run;
        END IF;
        IF r.state = 'running' AND halt IS NOT NULL THEN
            r.state := 'halted';
            r.halted_because := halt;
            PERFORM redrive.record_act('halt_run', r.person, halt, r.filter, 0, jsonb_build_object('run', run));
        ELSIF r.state = 'running' THEN
            IF next_stage = r.stage + 1 THEN
                r.stage := next_stage;
                r.stage_to := next_stage_to;
                r.stage_sent := r.sent;
                r.stage_recovered := r.recovered;
                r.stage_died := r.died_alike + r.died_differently;
            END IF;
            r.started_at := coalesce(r.started_at, moment);
            -- It is further ahead only if the clock was set back.
            r.next_at := least(r.next_at, moment + interval '1 second');
            bound := least(r.total, coalesce(r.stage_to, r.total));
            IF r.rate IS NULL THEN
                due := max_letters;
            ELSE
                -- How many letters are due by the rate. A late driver catches up by at most one second.
                r.next_at := greatest(r.next_at, moment - interval '1 second');
                due := floor(extract(epoch FROM moment - r.next_at) * r.rate) + 1;
                due := CASE WHEN r.next_at > moment THEN 0 ELSE least(due, max_letters) END;
            END IF;

            IF r.cursor < bound AND due > 0 THEN
                SELECT array_agg(m.letter_id ORDER BY m.ordinal), array_agg(m.ordinal ORDER BY m.ordinal)
                INTO ids, ordinals
                FROM redrive.run_letters m
                WHERE m.run_id = run AND m.ordinal > r.cursor AND m.ordinal <= least(r.cursor + due, bound);
                r.cursor := least(r.cursor + due, bound);
            ELSIF r.cursor = r.total AND r.sweeps < 5 AND moment >= r.next_at THEN
                -- Retry members that were locked, once per second.
                SELECT coalesce(array_agg(m.letter_id), '{}'), coalesce(array_agg(m.ordinal), '{}')
                INTO ids, ordinals
                FROM (
                    SELECT o.letter_id, o.ordinal FROM redrive.run_letters o
                    WHERE o.run_id = run AND o.outcome IN ('skipped_locked', 'skipped_claimed')
                    ORDER BY o.ordinal LIMIT max_letters
                ) m;
                retried := cardinality(ids) > 0;
                r.sweeps := CASE WHEN retried THEN r.sweeps + 1 ELSE 5 END;
            END IF;

            IF cardinality(ids) > 0 THEN
                IF retried THEN
                    UPDATE redrive.run_letters m SET outcome = NULL
                    WHERE m.run_id = run AND m.ordinal = ANY (ordinals);
                    r.skipped := r.skipped - cardinality(ids);
                END IF;
                sent_now := redrive.send_members(r, ids, ordinals);
                r.skipped := r.skipped + cardinality(ids) - sent_now;
                r.sent := r.sent + sent_now;
                IF retried THEN
                    r.next_at := moment + interval '1 second';
                ELSIF r.rate IS NOT NULL THEN
                    r.next_at := r.next_at + cardinality(ids) * (interval '1 second' / r.rate);
                END IF;
            END IF;
            IF r.cursor = r.total AND (r.skipped = 0 OR r.sweeps >= 5) THEN
                r.state := 'finished';
                r.stage_to := NULL;
            END IF;
            wait_ms := greatest(0, ceil(extract(epoch FROM r.next_at - clock_timestamp()) * 1000));
        END IF;

        IF r.state IN ('halted', 'finished') AND r.ended_at IS NULL THEN
            r.ended_at := clock_timestamp();
        END IF;
        UPDATE redrive.redrive_runs c
        SET state = r.state, halted_because = r.halted_because, started_at = r.started_at,
            ended_at = r.ended_at, stage = r.stage, stage_to = r.stage_to, stage_sent = r.stage_sent,
            stage_recovered = r.stage_recovered, stage_died = r.stage_died, next_at = r.next_at,
            cursor = r.cursor, sweeps = r.sweeps, sent = r.sent, skipped = r.skipped,
            progress_at = CASE
                WHEN (c.cursor, c.sent, c.skipped) = (r.cursor, r.sent, r.skipped) THEN c.progress_at
                ELSE clock_timestamp() END,
            driver = CASE WHEN r.state = 'running' THEN r.driver END,
            driver_expires_at = CASE WHEN r.state = 'running'
                THEN clock_timestamp() + lease_ms * interval '1 millisecond' END
        WHERE c.id = run;

        status := CASE WHEN r.state <> 'running' THEN r.state WHEN cardinality(ids) > 0 THEN 'sent' ELSE 'waiting' END;
    END IF;
    SELECT n.total, n.cursor, n.sent, n.skipped, n.recovered, n.died_alike + n.died_differently,
           c.canary, c.stage, c.stage_to, c.stage_sent, c.stage_recovered, c.stage_died, c.tolerated, c.sample
    INTO total, cursor, sent, skipped, recovered, died,
         canary, stage, stage_to, stage_sent, stage_recovered, stage_died, tolerated, sample
    FROM redrive.runs n JOIN redrive.redrive_runs c ON c.id = n.id WHERE n.id = run;
END
$$;
