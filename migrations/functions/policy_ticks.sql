-- Purpose: Ticks of policies.

-- Returns how long a letter waits for its tick, in addition to the wait for the next one. A letter that dies
-- again at once waits `every` times `growth` per generation, at most `max_delay`, from tick to tick. With a
-- growth of 1 it is redriven at every tick, even if it died a moment after the last one.
CREATE OR REPLACE FUNCTION redrive.policy_wait(every interval, growth double precision, max_delay interval, generation integer)
    RETURNS interval
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE
        WHEN growth <= 1 OR generation <= 0 THEN interval '0'
        -- Compare logarithms, because the power overflows for many generations.
        WHEN generation * ln(growth) >= ln(extract(epoch FROM max_delay)::float8 / extract(epoch FROM every)::float8)
            THEN max_delay - every
        ELSE every * (power(growth, generation) - 1)
    END;
END;

-- Returns whether a policy may tick in this hour of the day. No hours allow every hour.
CREATE OR REPLACE FUNCTION redrive.is_hour_allowed(from_hour integer, to_hour integer, hour integer) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT CASE
        WHEN from_hour IS NULL OR to_hour IS NULL THEN true
        WHEN from_hour < to_hour THEN hour >= from_hour AND hour < to_hour
        ELSE hour >= from_hour OR hour < to_hour
    END;
END;

-- Returns the letters that a tick redrives: open, with JSON, unredacted and due, oldest death first. No live job
-- holds their unique keys. It locks them except in a dry run, and skips letters locked by another session. Waits
-- are measured up to the scheduled time of the tick.
CREATE OR REPLACE FUNCTION redrive.due_letters(policy redrive.policies, tick timestamptz, without_queues text[]) RETURNS bigint[]
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    due bigint[];
BEGIN
    EXECUTE
        'SELECT array_agg(d.id) FROM ('
        ' SELECT l.id FROM redrive.dead_letters l'
        ' WHERE l.state = ''open'' AND l.payload IS NOT NULL AND l.redacted IS NULL AND l.generation < $2'
        '    AND ($4 <= 1 OR l.generation = 0'
        '         OR l.died_at <= $8 - redrive.policy_wait($3, $4, $5, l.generation))'
        '    AND l.queue <> ALL ($6) AND (l.claimed_until IS NULL OR l.claimed_until <= statement_timestamp())'
        -- Letters that cannot be sent would take the places of others at every tick.
        '    AND (l.unique_key IS NULL OR NOT EXISTS ('
        '        SELECT FROM redrive.unique_keys k WHERE k.queue = l.queue AND k.key = l.unique_key))'
        '    AND ' || redrive.filter_letters(policy.filter) ||
        ' ORDER BY l.died_at, l.id LIMIT $7'
        || CASE WHEN policy.mode = 'active' THEN ' FOR UPDATE SKIP LOCKED' ELSE '' END || ') d'
        INTO due
        USING policy.filter, policy.generations, policy.every, policy.growth, policy.max_delay,
              without_queues, policy.batch, tick;
    RETURN coalesce(due, '{}');
END
$$;

-- Runs one tick of one due policy and returns its result, with the time of its next tick. Returns no row if no policy is due, or if the due
-- ones belong to other processes. Workers call it every few seconds, and repeat it until it returns no row.
--
-- A tick is one transaction that holds the row of its policy and advances `next_at`. Two processes
-- therefore never run the same tick, and one that dies halfway has no effect. The lease keeps a policy
-- with one process between ticks; a process that lost it finds another holder in the row. A caller
-- without an id (a cron job) has no lease and runs policies that have no holder.
CREATE OR REPLACE FUNCTION redrive.run_policies(
    holder uuid DEFAULT NULL, lease interval DEFAULT '1 minute',
    OUT policy text, OUT letters bigint, OUT mode text, OUT error text, OUT next_tick timestamptz
) RETURNS SETOF record
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = on
AS $$
DECLARE
    moment         timestamptz := statement_timestamp();
    without_queues text[] := redrive.held_queues();
    due            redrive.policies;
    tick           timestamptz;
    ids            bigint[];
BEGIN
    -- Renew own leases once half of their time has passed.
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
        -- While its queue is held the policy waits, and its tick is not consumed.
        AND NOT (p.while_closed AND coalesce(p.filter ->> 'queue' = ANY (without_queues), false))
    ORDER BY p.next_at, p.id
    LIMIT 1
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;

    -- The last scheduled tick. Earlier missed ticks are not run.
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
            WHERE b.result = 'sent';
        END IF;
        IF letters > 0 THEN
            PERFORM redrive.record_act(
                'policy', NULL, NULL, due.filter, CASE due.mode WHEN 'active' THEN letters ELSE 0 END,
                jsonb_build_object('policy', due.name, 'mode', due.mode, 'letters', letters));
        END IF;
    -- A policy that fails or exceeds the statement timeout does not stop the others.
    EXCEPTION WHEN query_canceled OR OTHERS THEN
        GET STACKED DIAGNOSTICS error = MESSAGE_TEXT;
        letters := 0;
    END;

    UPDATE redrive.policies p
    SET last_at = moment, last_letters = run_policies.letters, last_error = left(run_policies.error, 1024),
        sent = p.sent + CASE p.mode WHEN 'active' THEN run_policies.letters ELSE 0 END,
        -- Retry a failed tick soon.
        next_at = CASE
            WHEN run_policies.error IS NULL THEN tick + p.every
            ELSE least(tick + p.every, moment + interval '1 minute')
        END,
        term = p.term + CASE WHEN p.holder IS DISTINCT FROM run_policies.holder THEN 1 ELSE 0 END,
        holder = run_policies.holder,
        lease_until = CASE WHEN run_policies.holder IS NOT NULL THEN moment + run_policies.lease END
    WHERE p.id = due.id AND p.term = due.term
    RETURNING p.next_at INTO next_tick;
    policy := due.name;
    mode := due.mode;
    RETURN NEXT;
END
$$;

-- Returns those of the oldest open letters of each queue that active policies will redrive.
CREATE OR REPLACE FUNCTION redrive.letters_with_policy(queues text[], each_queue bigint) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    policy redrive.policies;
BEGIN
    FOR policy IN SELECT p.* FROM redrive.policies p WHERE p.mode = 'active' LOOP
        RETURN QUERY EXECUTE
            'SELECT l.id FROM unnest($2) AS q (queue) CROSS JOIN LATERAL ('
            ' SELECT k.* FROM redrive.dead_letters k WHERE k.state = ''open'' AND k.queue = q.queue'
            ' ORDER BY k.died_at LIMIT $3) l'
            ' WHERE l.payload IS NOT NULL AND l.redacted IS NULL AND l.generation < $4 AND '
            || redrive.filter_letters(policy.filter)
            USING policy.filter, queues, each_queue, policy.generations;
    END LOOP;
END
$$;
