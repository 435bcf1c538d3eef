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

-- Returns a running run with exact numbers as it goes on: as it is, in its next stage, or halted with the reason.
--
-- One rule applies throughout: a run halts when more letters die again than it tolerates, a tenth by default. Without a
-- canary, it judges the outcomes since its start, later since the last window of 200 began, as soon as there are 20 of
-- them.
--
-- A canary goes first, alone. If it recovers, the run ramps up: it sends four and then sixteen times as many letters, awaits
-- the outcomes of each stage, and then sends the rest at the full rate. One death halts a canary of nine, and two deaths
-- halt a canary of ten. A stage is over when at most the tolerated share has died or is still running, so that one slow job
-- does not delay it.
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

-- Takes one step of a run: halts it or begins its next stage, and otherwise sends the letters that are due by the rate, at
-- most `max_letters`. The step is one transaction under the lock of the run's row. A driver whose term is over changes
-- nothing.
--
-- `status`: `lost` (another driver, or no such run), the state of the run if it is not running, `sent`,
-- `waiting`, or `busy` (see drive_chunk). `wait_ms`: time until the next step. `chunks`: how many chunks
-- are left for other connections of the driver, counted up to 2.
CREATE OR REPLACE FUNCTION redrive.drive_run(
    run bigint, my_driver uuid, my_term bigint, lease_ms integer, max_letters bigint,
    OUT status text, OUT wait_ms bigint, OUT sent_now bigint, OUT chunks bigint
)
    LANGUAGE plpgsql VOLATILE
AS $$
#variable_conflict use_column
DECLARE
    r        redrive.redrive_runs;
    next     redrive.redrive_runs;
    moment   timestamptz;
    bound    bigint;
    due      bigint;
    tried    bigint := 0;
BEGIN
    sent_now := 0;
    wait_ms := 0;
    chunks := 0;
    -- Check before any lock: two connections that share the lock of the run for a chunk could not upgrade
    -- it. A finished chunk is visible until its step commits. A halt needs no chunk, and waits for the steps
    -- of the other connection.
    SELECT c.* INTO r FROM redrive.redrive_runs c WHERE c.id = run;
    SELECT n.cursor, n.sent, n.recovered, n.died_alike, n.died_differently
    INTO r.cursor, r.sent, r.recovered, r.died_alike, r.died_differently
    FROM redrive.runs n WHERE n.id = run;
    next := redrive.paced(r);
    IF next.state = 'running' AND EXISTS (SELECT FROM redrive.run_chunks s WHERE s.run_id = run) THEN
        IF next.stage > r.stage THEN
            -- A window is over. The other connection may have seen it, too.
            PERFORM FROM redrive.redrive_runs c
            WHERE c.id = run AND c.driver = my_driver AND c.term = my_term AND c.stage = r.stage
            FOR NO KEY UPDATE SKIP LOCKED;
            IF FOUND THEN
                UPDATE redrive.redrive_runs c
                SET stage = next.stage, stage_sent = next.stage_sent, stage_recovered = next.stage_recovered,
                    stage_died = next.stage_died
                WHERE c.id = run;
            END IF;
        END IF;
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
        IF r.state = 'running' THEN
            r := redrive.paced(r);
            IF r.state = 'halted' THEN
                PERFORM redrive.record_act('halt_run', r.person, r.halted_because, r.filter, 0, jsonb_build_object('run', run));
            -- Until outcomes came before the lock, it was to halt.
            ELSIF NOT EXISTS (SELECT FROM redrive.run_chunks s WHERE s.run_id = run) THEN
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
                    tried := least(due, bound - r.cursor);
                    sent_now := redrive.send_members(r, r.cursor, r.cursor + tried);
                    r.cursor := r.cursor + tried;
                    r.skipped := r.skipped + tried - sent_now;
                    r.sent := r.sent + sent_now;
                    IF r.rate IS NOT NULL THEN
                        r.next_at := r.next_at + tried * (interval '1 second' / r.rate);
                    END IF;
                END IF;
                IF r.cursor = r.total THEN
                    r.state := 'finished';
                    r.stage_to := NULL;
                END IF;
                wait_ms := greatest(0, ceil(extract(epoch FROM r.next_at - clock_timestamp()) * 1000));
            END IF;
        END IF;

        IF r.state IN ('halted', 'finished') AND r.ended_at IS NULL THEN
            r.ended_at := clock_timestamp();
        END IF;
        UPDATE redrive.redrive_runs c
        SET state = r.state, halted_because = r.halted_because, started_at = r.started_at,
            ended_at = r.ended_at, stage = r.stage, stage_to = r.stage_to, stage_sent = r.stage_sent,
            stage_recovered = r.stage_recovered, stage_died = r.stage_died, next_at = r.next_at,
            cursor = r.cursor, sent = r.sent, skipped = r.skipped,
            progress_at = CASE
                WHEN (c.cursor, c.sent, c.skipped) = (r.cursor, r.sent, r.skipped) THEN c.progress_at
                ELSE clock_timestamp() END,
            driver = CASE WHEN r.state = 'running' THEN r.driver END,
            driver_expires_at = CASE WHEN r.state = 'running'
                THEN clock_timestamp() + lease_ms * interval '1 millisecond' END
        WHERE c.id = run;

        status := CASE WHEN r.state <> 'running' THEN r.state WHEN tried > 0 THEN 'sent' ELSE 'waiting' END;
    END IF;
END
$$;
