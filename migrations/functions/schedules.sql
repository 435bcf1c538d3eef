-- Purpose: Schedules: jobs that are enqueued, and policies that redrive, by a cron line or at an interval.

-- Returns a cron line with single blanks, after checking it and its zone as far as PostgreSQL can, or the interval. Whoever
-- has computed the next tick knows the zone, and leaves it out.
CREATE OR REPLACE FUNCTION redrive.checked_rhythm(cron text, zone text, every interval) RETURNS text
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    line text := btrim(regexp_replace(cron, E'\\s+', ' ', 'g'));
BEGIN
    PERFORM redrive.refuse('a schedule ' || CASE
        WHEN (line IS NULL) = (every IS NULL) THEN 'needs either a cron line or an interval'
        WHEN every NOT BETWEEN '1 second' AND '366 days' OR extract(year FROM every) <> 0 OR extract(month FROM every) <> 0
            THEN 'needs an interval of 1 second to 366 days, without months and years'
        WHEN every IS NOT NULL AND zone IS NOT NULL THEN 'needs no time zone for an interval'
        WHEN line !~ E'^(@[A-Za-z]+|\\S+( \\S+){4,5})$' OR octet_length(line) > 256
            THEN 'needs a cron line of five fields, or of six with the seconds first'
        WHEN NOT EXISTS (SELECT FROM pg_timezone_names z WHERE z.name = checked_rhythm.zone) AND zone IS NOT NULL
            THEN 'needs a time zone such as Europe/Berlin, not ' || quote_literal(zone)
    END);
    RETURN line;
END
$$;

-- Adds a schedule with either a cron line or an interval, or changes the one of this name. Returns `created`, `changed` or
-- `unchanged`; only a change is recorded in the audit. A new schedule starts at `next_at`, and so does a changed rhythm,
-- unless that has passed; another change keeps the next tick, and a pause stays.
--
-- Without `next_at`, an interval starts now. PostgreSQL cannot read a cron line: the next worker does. It starts the
-- schedule, counting from this call, or stores the mistake in `last_error`.
CREATE OR REPLACE FUNCTION redrive.schedule(
    name text, queue text, kind text, payload json, cron text DEFAULT NULL, zone text DEFAULT NULL,
    every interval DEFAULT NULL, priority integer DEFAULT 0, max_attempts integer DEFAULT 5,
    headers jsonb DEFAULT NULL, missed text DEFAULT 'once', overlap text DEFAULT 'allow',
    next_at timestamptz DEFAULT NULL, person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS text
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    line   text := redrive.checked_rhythm(
        schedule.cron, CASE WHEN schedule.next_at IS NULL THEN schedule.zone END, schedule.every);
    result text;
BEGIN
    PERFORM redrive.check_name('schedule', schedule.name), redrive.check_name('queue', schedule.queue),
            redrive.check_name('kind', schedule.kind);
    PERFORM redrive.refuse('a schedule ' || CASE
        WHEN payload IS NULL OR octet_length(payload::text) > 1048576 THEN 'needs a payload of at most 1048576 bytes'
        WHEN priority IS NULL OR priority NOT BETWEEN -1000 AND 1000 THEN 'needs a priority between -1000 and 1000'
        WHEN max_attempts IS NULL OR max_attempts NOT BETWEEN 1 AND 1000 THEN 'needs 1 to 1000 attempts'
        WHEN jsonb_typeof(headers) <> 'object' OR octet_length(headers::text) > 64000
            THEN 'needs headers that are a JSON object of at most 64000 bytes'
        -- The library reserves them, and sets the expiry.
        WHEN schedule.next_at IS NULL AND redrive.have_reserved_header(headers)
            THEN 'cannot have a header whose name starts with redrive-, except redrive-payload-version with a whole number from 1'
        WHEN missed IS NULL OR missed NOT IN ('skip', 'once', 'all') THEN 'needs the policy skip, once or all for missed ticks'
        WHEN overlap IS NULL OR overlap NOT IN ('allow', 'skip') THEN 'needs the overlap allow or skip'
    END);
    PERFORM redrive.refuse(format('%L is a policy; remove it first', s.name))
    FROM redrive.schedules s WHERE s.name = schedule.name AND s.policy IS NOT NULL;
    INSERT INTO redrive.schedules AS s
        (name, cron, zone, every, queue, kind, payload, priority, max_attempts, headers, missed, overlap, next_at)
    VALUES (schedule.name, line, CASE WHEN line IS NOT NULL THEN coalesce(schedule.zone, 'UTC') END, schedule.every,
            schedule.queue, schedule.kind, schedule.payload, schedule.priority, schedule.max_attempts, schedule.headers,
            schedule.missed, schedule.overlap,
            coalesce(schedule.next_at, date_trunc('milliseconds', clock_timestamp()) + schedule.every))
    ON CONFLICT ON CONSTRAINT schedules_pkey DO UPDATE
    SET cron = excluded.cron, zone = excluded.zone, every = excluded.every, queue = excluded.queue,
        kind = excluded.kind, payload = excluded.payload, priority = excluded.priority,
        max_attempts = excluded.max_attempts, headers = excluded.headers, missed = excluded.missed, overlap = excluded.overlap,
        next_at = CASE WHEN (s.cron, s.zone, s.every) IS NOT DISTINCT FROM (excluded.cron, excluded.zone, excluded.every)
                       THEN s.next_at
                       WHEN excluded.next_at > greatest(s.last_at, clock_timestamp()) THEN excluded.next_at END,
        version = s.version + 1, retry_at = NULL, last_error = NULL, changed_at = clock_timestamp()
    WHERE (s.cron, s.zone, s.every, s.queue, s.kind, s.payload::text, s.priority, s.max_attempts, s.headers, s.missed, s.overlap)
        IS DISTINCT FROM
          (excluded.cron, excluded.zone, excluded.every, excluded.queue, excluded.kind, excluded.payload::text,
           excluded.priority, excluded.max_attempts, excluded.headers, excluded.missed, excluded.overlap)
    RETURNING CASE s.version WHEN 1 THEN 'created' ELSE 'changed' END INTO result;
    IF NOT FOUND THEN
        RETURN 'unchanged';
    END IF;
    PERFORM redrive.record_act('set_schedule', person, reason, NULL, 0, jsonb_strip_nulls(jsonb_build_object(
        'schedule', schedule.name, 'result', result, 'cron', line, 'zone', schedule.zone, 'every', schedule.every,
        'queue', schedule.queue, 'kind', schedule.kind, 'missed', schedule.missed, 'overlap', schedule.overlap)));
    PERFORM pg_notify('redrive_schedule', '');
    RETURN result;
END
$$;

-- Pauses or resumes a schedule. It keeps its next tick, so the ticks of the pause are missed ones when it resumes.
-- Returns whether the schedule exists.
-- Locks: the schedule. Index: the primary key of schedules.
CREATE OR REPLACE FUNCTION redrive.pause_schedule(name text, paused boolean DEFAULT true, person text DEFAULT NULL, reason text DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    policy jsonb;
BEGIN
    UPDATE redrive.schedules s
    SET paused_at = CASE WHEN redrive.flag_of('paused', pause_schedule.paused) THEN coalesce(s.paused_at, clock_timestamp()) END
    WHERE s.name = pause_schedule.name
    RETURNING s.policy INTO policy;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF NOT paused AND policy IS NOT NULL THEN
        PERFORM redrive.check_protections(redrive.filter_values(policy #> '{letters,queue}'));
    END IF;
    PERFORM redrive.record_act(CASE WHEN paused THEN 'pause_schedule' ELSE 'resume_schedule' END, person, reason, NULL, 0,
                               jsonb_build_object('schedule', pause_schedule.name));
    PERFORM pg_notify('redrive_schedule', '');
    RETURN true;
END
$$;

-- Removes a schedule and its history. Its jobs are not affected. Returns whether it existed.
-- Locks: the schedule and its history. Index: the primary key of schedules; schedule_ticks_by_schedule.
CREATE OR REPLACE FUNCTION redrive.remove_schedule(name text, person text DEFAULT NULL, reason text DEFAULT NULL) RETURNS boolean
    LANGUAGE sql VOLATILE
AS $$
    WITH gone AS (DELETE FROM redrive.schedules s WHERE s.name = $1 RETURNING s.name)
    SELECT count(redrive.record_act('remove_schedule', $2, $3, NULL, 0, jsonb_build_object('schedule', g.name))) > 0 FROM gone g
$$;

-- Returns the milliseconds until the next tick of any schedule, rounded up; NULL: none ticks. A policy whose queue is held
-- does not.
CREATE OR REPLACE FUNCTION redrive.next_tick() RETURNS bigint
    LANGUAGE sql VOLATILE
AS $$
    SELECT ceil(extract(epoch FROM min(coalesce(greatest(s.next_at, s.retry_at), clock_timestamp())) - clock_timestamp()) * 1000)::bigint
    FROM redrive.schedules s
    WHERE s.paused_at IS NULL AND NOT redrive.is_policy_held(s.policy)
$$;

-- Deletes all but the latest 100 entries of the history of a schedule.
CREATE OR REPLACE FUNCTION redrive.forget_ticks(schedule text) RETURNS void
    LANGUAGE sql VOLATILE
AS $$
    DELETE FROM redrive.schedule_ticks t
    WHERE t.schedule = forget_ticks.schedule AND t.id <= (
        SELECT o.id FROM redrive.schedule_ticks o WHERE o.schedule = forget_ticks.schedule
        ORDER BY o.id DESC OFFSET 100 LIMIT 1)
$$;

-- Enqueues the jobs of these ticks, writes their history and counts them. With the overlap `skip`, the job holds a
-- unique key while it is live, and a tick is skipped while another job holds it. Returns the ids of the new jobs, and the
-- new or live job of the last tick.
CREATE OR REPLACE FUNCTION redrive.run_ticks(
    due redrive.schedules, ticks timestamptz[], outcome text, OUT new_ids bigint[], OUT live_id bigint
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    lock_key CONSTANT text := CASE due.overlap WHEN 'skip' THEN
        'redrive-schedule:' || CASE WHEN octet_length(due.name) <= 150 THEN due.name ELSE md5(due.name) END END;
    tick_at timestamptz;
    new_id  bigint;
BEGIN
    new_ids := '{}';
    FOREACH tick_at IN ARRAY run_ticks.ticks LOOP
        new_id := nextval('redrive.job_id');
        live_id := new_id;
        IF lock_key IS NOT NULL THEN
            SELECT k.job_id INTO live_id FROM redrive.take_key(due.queue, lock_key, new_id, NULL) k;
        END IF;
        INSERT INTO redrive.schedule_ticks (schedule, tick_at, outcome, job_id)
        VALUES (due.name, tick_at, CASE live_id WHEN new_id THEN run_ticks.outcome ELSE 'overlapped' END, live_id);
        CONTINUE WHEN live_id <> new_id;
        INSERT INTO redrive.jobs (segment, id, rank, queue, kind, payload, meta)
        SELECT r.segment, new_id, -2 * due.priority, due.queue, due.kind, due.payload, redrive.new_meta(
            due.priority, due.max_attempts, lock_key,
            coalesce(due.headers, '{}') || jsonb_build_object('redrive-schedule', due.name, 'redrive-scheduled-for',
                to_char(tick_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')))
        FROM redrive.ring r;
        new_ids := new_ids || new_id;
    END LOOP;
    INSERT INTO redrive.metric_deltas (queue, keys, labels, counts)
    SELECT due.queue, '{enqueued,schedule_ticks,schedule_ticks}', ARRAY[NULL, run_ticks.outcome, 'overlapped'],
           ARRAY[cardinality(new_ids), cardinality(new_ids), cardinality(run_ticks.ticks) - cardinality(new_ids)]
    WHERE cardinality(run_ticks.ticks) > 0;
    PERFORM redrive.forget_ticks(due.name);
    IF cardinality(new_ids) > 0 THEN
        PERFORM redrive.wake(due.queue);
    END IF;
END
$$;

-- Advances a schedule from the tick `due_at`, by the database's clock, and enqueues the jobs of `ticks`, or redrives the
-- letters of its policy. A schedule that SQL set has no tick yet: its `due_at` is NULL, and `ticks` may be empty.
-- The next tick was computed by the caller for this version of the schedule. Returns the ids of
-- the new jobs; for a policy none, and its `letters`. Both are NULL if it did nothing: another process ran the tick or
-- holds the row, or the schedule was changed or paused. It runs with the owner's privileges, so that a worker enqueues no
-- other job and redrives no other letter.
-- Locks: the schedule and the letters that it sends; a locked row is skipped. Index: the primary key of schedules;
-- schedule_ticks_by_schedule; dead_letters_open_for_redrive or dead_letters_for_list.
CREATE OR REPLACE FUNCTION redrive.tick_schedule(
    name text, version bigint, due_at timestamptz, ticks timestamptz[], missed bigint, missed_at timestamptz,
    next_at timestamptz, OUT jobs bigint[], OUT letters bigint
)
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER
AS $$
DECLARE
    due redrive.schedules;
BEGIN
    SELECT s.* INTO due
    FROM redrive.schedules s
    WHERE s.name = tick_schedule.name AND s.version = tick_schedule.version
        AND s.next_at IS NOT DISTINCT FROM tick_schedule.due_at AND (s.next_at <= statement_timestamp()) IS NOT FALSE
        AND s.paused_at IS NULL
    FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    UPDATE redrive.schedules s
    SET next_at = tick_schedule.next_at, last_at = greatest(s.last_at, tick_schedule.missed_at, ticks[cardinality(ticks)]),
        retry_at = NULL, last_error = NULL
    WHERE s.name = due.name;
    IF tick_schedule.missed > 0 THEN
        INSERT INTO redrive.schedule_ticks (schedule, tick_at, outcome, ticks)
        VALUES (due.name, tick_schedule.missed_at, 'missed', tick_schedule.missed);
        INSERT INTO redrive.metric_deltas (queue, keys, labels, counts)
        SELECT due.queue, '{schedule_ticks}', '{missed}', ARRAY[tick_schedule.missed]
        WHERE due.queue IS NOT NULL;
    END IF;
    IF due.policy IS NULL THEN
        SELECT r.new_ids INTO jobs FROM redrive.run_ticks(due, tick_schedule.ticks, 'fired') r;
    ELSIF cardinality(ticks) > 0 THEN
        letters := redrive.run_policy(due, ticks[cardinality(ticks)], 'fired');
    END IF;
END
$$;

-- Enqueues the job of a schedule now, or redrives the letters of its policy, paused or not, and records that. `job_id`
-- and `letters` are NULL if the schedule does not exist; `is_new` is false if the overlap is `skip` and this job is still
-- live.
-- Locks: what it inserts, and the letters that it sends; a locked letter is skipped. It waits for a transaction that
-- is storing the key of the same schedule. Index: the primary key of schedules; schedule_ticks_by_schedule.
CREATE OR REPLACE FUNCTION redrive.trigger_schedule(
    name text, person text DEFAULT NULL, reason text DEFAULT NULL, OUT job_id bigint, OUT is_new boolean, OUT letters bigint
)
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    triggered_at CONSTANT timestamptz := clock_timestamp();
    found_row    redrive.schedules;
BEGIN
    SELECT s.* INTO found_row FROM redrive.schedules s WHERE s.name = trigger_schedule.name;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF found_row.policy IS NOT NULL THEN
        PERFORM redrive.check_protections(redrive.filter_values(found_row.policy #> '{letters,queue}'));
        letters := redrive.run_policy(found_row, triggered_at, 'triggered', person, reason);
    ELSE
        SELECT r.live_id, r.new_ids <> '{}' INTO job_id, is_new
        FROM redrive.run_ticks(found_row, ARRAY[triggered_at], 'triggered') r;
    END IF;
    PERFORM redrive.record_act(
        -- The record of a policy counts its letters.
        'trigger_schedule', person, reason, NULL, coalesce(is_new::integer, 0),
        jsonb_strip_nulls(jsonb_build_object('schedule', found_row.name, 'job', trigger_schedule.job_id, 'letters', letters)));
END
$$;
