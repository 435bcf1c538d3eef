-- Purpose: `policies`: which letters are redriven by themselves, when, and how many at a time.
-- Locks: none that anybody waits for; everything here is new.
-- Safe under running workers of the previous version: yes; they run no policy.
-- breaking: no

CREATE TABLE redrive.policies (
    id           bigint           GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name         redrive.name     NOT NULL UNIQUE,
    filter       jsonb            NOT NULL CHECK (jsonb_typeof(filter) = 'object'),
    every        interval         NOT NULL CHECK (every BETWEEN '1 second' AND '366 days'),
    growth       double precision NOT NULL CHECK (growth BETWEEN 1 AND 100),
    longest      interval         NOT NULL CHECK (longest >= every AND longest <= '3660 days'),
    batch        integer          NOT NULL CHECK (batch BETWEEN 1 AND 10000),
    generations  integer          NOT NULL CHECK (generations BETWEEN 1 AND 100000),
    from_hour    smallint         CHECK (from_hour BETWEEN 0 AND 23),
    to_hour      smallint         CHECK (to_hour BETWEEN 0 AND 23),
    while_closed boolean          NOT NULL,
    mode         text             COLLATE "C" NOT NULL CHECK (mode IN ('active', 'dry_run', 'paused')),
    created_at   timestamptz      NOT NULL DEFAULT clock_timestamp(),
    next_at      timestamptz      NOT NULL DEFAULT clock_timestamp(),
    last_at      timestamptz,
    last_letters bigint           NOT NULL DEFAULT 0 CHECK (last_letters >= 0),
    last_trouble text,
    sent         bigint           NOT NULL DEFAULT 0 CHECK (sent >= 0),
    term         bigint           NOT NULL DEFAULT 0,
    holder       uuid,
    lease_until  timestamptz,
    CONSTRAINT policies_hours_have_two_ends
        CHECK ((from_hour IS NULL) = (to_hour IS NULL) AND from_hour IS DISTINCT FROM to_hour OR from_hour IS NULL),
    CONSTRAINT policies_leases_end CHECK ((holder IS NULL) = (lease_until IS NULL))
);

COMMENT ON TABLE redrive.policies IS 'What is redriven by itself: at each tick, the oldest open letters that are due.';
COMMENT ON COLUMN redrive.policies.every IS 'From one tick to the next.';
COMMENT ON COLUMN redrive.policies.growth IS 'By how much the time from death to tick grows with each generation of a letter.';
COMMENT ON COLUMN redrive.policies.longest IS 'The most that time grows to.';
COMMENT ON COLUMN redrive.policies.batch IS 'How many letters a tick sends back at most.';
COMMENT ON COLUMN redrive.policies.generations IS 'A letter that was redriven this often is left alone.';
COMMENT ON COLUMN redrive.policies.from_hour IS 'Ticks only from this hour of the day (UTC), and before `to_hour`; over midnight when that is smaller.';
COMMENT ON COLUMN redrive.policies.while_closed IS 'Nothing goes back into a queue whose breaker is not closed.';
COMMENT ON COLUMN redrive.policies.last_letters IS 'How many letters the last tick sent back; in a dry run, how many it would have.';
COMMENT ON COLUMN redrive.policies.last_trouble IS 'Why the last tick failed; NULL: it did not.';
COMMENT ON COLUMN redrive.policies.term IS 'Goes up whenever another process takes it over; an older term writes nothing.';
COMMENT ON COLUMN redrive.policies.holder IS 'The worker that runs it until `lease_until`.';

-- How long a letter of a generation waits for its tick, beyond the wait for the next one. From
-- tick to tick a letter that dies at once again waits `every`, times `growth` for each generation,
-- `longest` at most: so with a growth of 1 it goes at each tick, and never misses one because it
-- died a moment after the last.
CREATE FUNCTION redrive.policy_wait(every interval, growth double precision, longest interval, generation integer)
    RETURNS interval
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN growth <= 1 OR generation <= 0 THEN interval '0'
        -- By logarithms, because a power of many generations is beyond any number.
        WHEN generation * ln(growth) >= ln(extract(epoch FROM longest)::float8 / extract(epoch FROM every)::float8)
            THEN longest - every
        ELSE every * (power(growth, generation) - 1)
    END
$$;

-- Whether an hour of the day is one of a policy's. No hours: any.
CREATE FUNCTION redrive.is_hour_allowed(from_hour integer, to_hour integer, hour integer) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
AS $$
    SELECT CASE
        WHEN from_hour IS NULL OR to_hour IS NULL THEN true
        WHEN from_hour < to_hour THEN hour >= from_hour AND hour < to_hour
        ELSE hour >= from_hour OR hour < to_hour
    END
$$;

-- The queues whose breaker is not closed.
CREATE FUNCTION redrive.queues_with_open_breaker() RETURNS text[]
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(substr(b.name, 7)), '{}')
    FROM redrive.breakers b
    WHERE b.name LIKE 'queue:%' AND b.state <> 'closed'
$$;

-- The letters that a tick of a policy sends back: open, with JSON, due, the oldest death first.
-- Locks them unless it is a dry run; what somebody else has locked is left out. Waits are measured
-- to when the tick was to be, not to when somebody came to run it.
CREATE FUNCTION redrive.due_letters(policy redrive.policies, tick timestamptz, without_queues text[]) RETURNS bigint[]
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    due bigint[];
BEGIN
    EXECUTE
        'SELECT array_agg(d.id) FROM ('
        ' SELECT l.id FROM redrive.dead_letters l'
        ' WHERE l.state = ''open'' AND l.payload IS NOT NULL AND l.generation < $2'
        '    AND ($4 <= 1 OR l.generation = 0'
        '         OR l.died_at <= $8 - redrive.policy_wait($3, $4, $5, l.generation))'
        '    AND l.queue <> ALL ($6)'
        '    AND ' || redrive.filter_letters(policy.filter) ||
        ' ORDER BY l.died_at, l.id LIMIT $7'
        || CASE WHEN policy.mode = 'active' THEN ' FOR UPDATE SKIP LOCKED' ELSE '' END || ') d'
        INTO due
        USING policy.filter, policy.generations, policy.every, policy.growth, policy.longest,
              without_queues, policy.batch, tick;
    RETURN coalesce(due, '{}');
END
$$;

-- Runs one tick of one policy that is due, and answers what it did; no row: none is due, or those
-- that are belong to another process. Workers call it every few seconds; call it again until it
-- answers nothing.
--
-- A tick is one transaction that holds the row of its policy, and moves `next_at` on: two processes
-- never run the same tick, and one that dies in the middle has done nothing. The lease keeps a
-- policy with one process from tick to tick; a process that lost it finds another holder in the
-- row. A caller without a name (a cron job) has no lease and runs what nobody holds.
CREATE FUNCTION redrive.run_policies(
    holder uuid DEFAULT NULL, lease interval DEFAULT '1 minute',
    OUT policy text, OUT letters bigint, OUT mode text, OUT trouble text
) RETURNS SETOF record
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = on
AS $$
DECLARE
    moment         timestamptz := statement_timestamp();
    without_queues text[] := redrive.queues_with_open_breaker();
    due            redrive.policies;
    tick           timestamptz;
    ids            bigint[];
BEGIN
    -- Mine stay mine; half a lease later is soon enough.
    UPDATE redrive.policies p
    SET lease_until = moment + run_policies.lease
    WHERE p.id = ANY (ARRAY(
        SELECT m.id FROM redrive.policies m
        WHERE m.holder = run_policies.holder AND m.lease_until > moment
            AND m.lease_until < moment + run_policies.lease / 2
        FOR UPDATE SKIP LOCKED));

    SELECT p.* INTO due
    FROM redrive.policies p
    WHERE p.mode <> 'paused' AND p.next_at <= moment
        AND (p.holder IS NULL OR p.holder = run_policies.holder OR p.lease_until <= moment)
        AND redrive.is_hour_allowed(p.from_hour, p.to_hour, extract(hour FROM moment AT TIME ZONE 'UTC')::integer)
        -- It waits for its breaker, and is not just skipped.
        AND NOT (p.while_closed AND coalesce(p.filter ->> 'queue' = ANY (without_queues), false))
    ORDER BY p.next_at, p.id
    LIMIT 1
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    -- The last one that was to be by now; those before it that nobody ran are not made up for.
    tick := due.next_at
        + due.every * floor(extract(epoch FROM moment - due.next_at) / extract(epoch FROM due.every))::float8;
    letters := 0;
    BEGIN
        ids := redrive.due_letters(due, tick, CASE WHEN due.while_closed THEN without_queues ELSE '{}' END);
        letters := cardinality(ids);
        IF due.mode = 'active' AND letters > 0 THEN
            SELECT count(*) INTO letters
            FROM redrive.send_back(ids, jsonb_build_object(
                'at', clock_timestamp(), 'event', 'redriven', 'by', 'policy ' || due.name), policy_id => due.id) b
            WHERE b.what = 'sent';
        END IF;
        IF letters > 0 THEN
            PERFORM redrive.record_act(
                'policy', NULL, NULL, due.filter, CASE due.mode WHEN 'active' THEN letters ELSE 0 END,
                jsonb_build_object('policy', due.name, 'mode', due.mode, 'letters', letters));
        END IF;
    -- One policy that fails, or takes longer than a statement may, does not stop the others.
    EXCEPTION WHEN query_canceled OR OTHERS THEN
        GET STACKED DIAGNOSTICS trouble = MESSAGE_TEXT;
        letters := 0;
    END;

    UPDATE redrive.policies p
    SET last_at = moment, last_letters = run_policies.letters, last_trouble = left(run_policies.trouble, 1024),
        sent = p.sent + CASE p.mode WHEN 'active' THEN run_policies.letters ELSE 0 END,
        -- Trouble is tried again soon.
        next_at = CASE
            WHEN run_policies.trouble IS NULL THEN tick + p.every
            ELSE least(tick + p.every, moment + interval '1 minute')
        END,
        term = p.term + CASE WHEN p.holder IS DISTINCT FROM run_policies.holder THEN 1 ELSE 0 END,
        holder = run_policies.holder,
        lease_until = CASE WHEN run_policies.holder IS NOT NULL THEN moment + run_policies.lease END
    WHERE p.id = due.id AND p.term = due.term;
    policy := due.name;
    mode := due.mode;
    RETURN NEXT;
END
$$;

-- Adds a policy, or changes the one of that name; answers its id. A new one has its first tick at
-- once. `longest` NULL: a week, or `every` when that is longer.
CREATE FUNCTION redrive.set_policy(
    name text, filter jsonb, every interval, batch integer DEFAULT 50, generations integer DEFAULT 10,
    growth double precision DEFAULT 1, longest interval DEFAULT NULL,
    from_hour integer DEFAULT NULL, to_hour integer DEFAULT NULL, while_closed boolean DEFAULT true,
    mode text DEFAULT 'active', person text DEFAULT NULL, why text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    most_wait interval := coalesce(longest, greatest(every, interval '7 days'));
    trouble   text;
    found_id  bigint;
BEGIN
    PERFORM redrive.check_name('policy', set_policy.name), redrive.filter_letters(set_policy.filter);
    trouble := CASE
        WHEN set_policy.filter ? 'state' THEN 'takes open letters; its filter cannot name a state'
        WHEN every IS NULL OR every NOT BETWEEN '1 second' AND '366 days' THEN 'ticks every second to every 366 days'
        WHEN batch IS NULL OR batch NOT BETWEEN 1 AND 10000 THEN 'sends back 1 to 10000 letters a tick'
        WHEN generations IS NULL OR generations NOT BETWEEN 1 AND 100000 THEN 'has a limit of 1 to 100000 generations'
        WHEN growth IS NULL OR growth NOT BETWEEN 1 AND 100 THEN 'has a growth of 1 to 100'
        WHEN most_wait < every OR most_wait > '3660 days' THEN 'has a longest delay of at least its interval, and at most ten years'
        WHEN (from_hour IS NULL) <> (to_hour IS NULL) OR from_hour = to_hour
            OR from_hour NOT BETWEEN 0 AND 23 OR to_hour NOT BETWEEN 0 AND 23
            THEN 'has hours from one to another of 0 to 23'
        WHEN while_closed IS NULL THEN 'heeds the breaker, or does not'
        WHEN mode IS NULL OR mode NOT IN ('active', 'dry_run', 'paused') THEN 'is active, dry_run or paused'
    END;
    IF trouble IS NOT NULL THEN
        RAISE EXCEPTION 'redrive: a policy %', trouble USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO redrive.policies AS p
        (name, filter, every, growth, longest, batch, generations, from_hour, to_hour, while_closed, mode)
    VALUES
        (set_policy.name, set_policy.filter, set_policy.every, set_policy.growth, most_wait, set_policy.batch,
         set_policy.generations, set_policy.from_hour, set_policy.to_hour, set_policy.while_closed, set_policy.mode)
    ON CONFLICT ON CONSTRAINT policies_name_key DO UPDATE
    SET filter = excluded.filter, every = excluded.every, growth = excluded.growth,
        longest = excluded.longest, batch = excluded.batch, generations = excluded.generations,
        from_hour = excluded.from_hour, to_hour = excluded.to_hour,
        while_closed = excluded.while_closed, mode = excluded.mode,
        next_at = least(p.next_at, clock_timestamp() + excluded.every)
    RETURNING p.id INTO found_id;
    PERFORM redrive.record_act(
        'set_policy', person, why, set_policy.filter, 0, jsonb_build_object(
            'policy', set_policy.name, 'mode', set_policy.mode, 'every', set_policy.every,
            'batch', set_policy.batch, 'generations', set_policy.generations, 'growth', set_policy.growth,
            'longest', most_wait, 'from_hour', set_policy.from_hour, 'to_hour', set_policy.to_hour,
            'while_closed', set_policy.while_closed));
    RETURN found_id;
END
$$;

-- Pauses a policy (`paused`), makes it act (`active`), or only tell (`dry_run`). Answers whether
-- there is one of that name.
CREATE FUNCTION redrive.set_policy_mode(name text, mode text, person text DEFAULT NULL, why text DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    filter jsonb;
BEGIN
    IF set_policy_mode.mode IS NULL OR set_policy_mode.mode NOT IN ('active', 'dry_run', 'paused') THEN
        RAISE EXCEPTION 'redrive: a policy is active, dry_run or paused' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE redrive.policies p SET mode = set_policy_mode.mode
    WHERE p.name = set_policy_mode.name
    RETURNING p.filter INTO filter;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('set_policy_mode', person, why, filter, 0, jsonb_build_object(
        'policy', set_policy_mode.name, 'mode', set_policy_mode.mode));
    RETURN true;
END
$$;

-- Removes a policy. What it sent back stays where it is. Answers whether there was one.
CREATE FUNCTION redrive.remove_policy(name text, person text DEFAULT NULL, why text DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    filter jsonb;
BEGIN
    DELETE FROM redrive.policies p WHERE p.name = remove_policy.name RETURNING p.filter INTO filter;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM redrive.record_act('remove_policy', person, why, filter, 0, jsonb_build_object('policy', remove_policy.name));
    RETURN true;
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
