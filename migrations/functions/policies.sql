-- Purpose: Policies: schedules that redrive letters.

-- Adds or changes a policy: a schedule, as in `schedule`, that redrives the open letters that match a filter. Returns
-- `created`, `changed` or `unchanged`; only a change is recorded in the audit.
CREATE OR REPLACE FUNCTION redrive.set_policy(
    name text, letters jsonb, every interval DEFAULT NULL, cron text DEFAULT NULL, zone text DEFAULT NULL,
    batch integer DEFAULT 50, generations integer DEFAULT 10, growth double precision DEFAULT 1,
    counts_only boolean DEFAULT false, next_at timestamptz DEFAULT NULL, person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS text
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    line   text := redrive.checked_rhythm(
        set_policy.cron, CASE WHEN set_policy.next_at IS NULL THEN set_policy.zone END, set_policy.every);
    -- It redrives with the rights of the role that set it last.
    policy jsonb := jsonb_build_object(
        'letters', letters, 'batch', batch, 'generations', generations, 'growth', growth,
        'counts_only', redrive.flag_of('counts_only', counts_only), 'role', session_user);
    result text;
BEGIN
    PERFORM redrive.check_name('policy', set_policy.name), redrive.filter_letters(set_policy.letters),
            redrive.check_protections(redrive.filter_values(set_policy.letters -> 'queue'));
    PERFORM redrive.refuse('a policy ' || CASE
        WHEN set_policy.letters ? 'state' THEN 'redrives open letters; its filter cannot contain a state'
        WHEN batch BETWEEN 1 AND 10000 IS NOT TRUE THEN 'needs a batch of 1 to 10000 letters'
        WHEN generations BETWEEN 1 AND 100000 IS NOT TRUE THEN 'needs a limit of 1 to 100000 generations'
        WHEN growth BETWEEN 1 AND 100 IS NOT TRUE THEN 'needs a growth of 1 to 100'
    END);
    PERFORM redrive.refuse(format('%L is a schedule that enqueues jobs; remove it first', s.name))
    FROM redrive.schedules s WHERE s.name = set_policy.name AND s.policy IS NULL;
    INSERT INTO redrive.schedules AS s (name, cron, zone, every, policy, missed, overlap, next_at)
    VALUES (set_policy.name, line, CASE WHEN line IS NOT NULL THEN coalesce(set_policy.zone, 'UTC') END, set_policy.every,
            policy, 'once', 'allow',
            coalesce(set_policy.next_at, date_trunc('milliseconds', clock_timestamp()) + set_policy.every))
    ON CONFLICT ON CONSTRAINT schedules_pkey DO UPDATE
    SET cron = excluded.cron, zone = excluded.zone, every = excluded.every, policy = excluded.policy,
        next_at = CASE WHEN (s.cron, s.zone, s.every) IS NOT DISTINCT FROM (excluded.cron, excluded.zone, excluded.every)
                       THEN s.next_at
                       WHEN excluded.next_at > greatest(s.last_at, clock_timestamp()) THEN excluded.next_at END,
        version = s.version + 1, retry_at = NULL, last_error = NULL, changed_at = clock_timestamp()
    WHERE (s.cron, s.zone, s.every, s.policy)
        IS DISTINCT FROM (excluded.cron, excluded.zone, excluded.every, excluded.policy)
    RETURNING CASE s.version WHEN 1 THEN 'created' ELSE 'changed' END INTO result;
    IF NOT FOUND THEN
        RETURN 'unchanged';
    END IF;
    PERFORM redrive.record_act('set_policy', person, reason, set_policy.letters, 0, jsonb_strip_nulls(jsonb_build_object(
        'policy', set_policy.name, 'result', result, 'cron', line, 'zone', set_policy.zone, 'every', set_policy.every,
        'options', policy - 'letters')));
    PERFORM pg_notify('redrive_schedule', '');
    RETURN result;
END
$$;

-- Returns whether a policy waits, because the queue of its letters is paused or has an open breaker. A schedule that
-- enqueues jobs has none.
CREATE OR REPLACE FUNCTION redrive.is_policy_held(policy jsonb) RETURNS boolean
    LANGUAGE sql STABLE
AS $$
    SELECT CASE WHEN policy #>> '{letters,queue}' IS NULL THEN false
        ELSE policy #>> '{letters,queue}' = ANY (redrive.held_queues()) END
$$;

-- Returns how long a letter waits for its tick, in addition to the wait for the next one. From tick to tick, a letter that
-- dies again at once waits `every` times `growth` per generation, at most 7 days. With a growth of 1 it is redriven at
-- every tick, even if it died a moment after the last one.
CREATE OR REPLACE FUNCTION redrive.policy_wait(every interval, growth double precision, generation integer) RETURNS interval
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE
        WHEN growth <= 1 OR generation <= 0 THEN interval '0'
        -- Compare logarithms, because the power overflows for many generations.
        WHEN generation * ln(growth) >= ln(extract(epoch FROM interval '7 days')::float8 / extract(epoch FROM every)::float8)
            THEN greatest(interval '7 days' - every, '0')
        ELSE every * (power(growth, generation) - 1)
    END;

-- Returns the letters that a tick redrives: open, with JSON, unredacted and due, in the order of `redrive_order`. No live job
-- holds their unique keys, and no protection keeps them from the policy. It locks them unless the policy only counts, and skips letters locked by another session.
-- Waits are measured up to the scheduled time of the tick.
CREATE OR REPLACE FUNCTION redrive.due_letters(due redrive.schedules, tick timestamptz) RETURNS bigint[]
    LANGUAGE plpgsql VOLATILE
    -- Workers disable such scans.
    SET enable_seqscan = on
AS $$
DECLARE
    found bigint[];
    -- An approval, which a policy cannot have, or another role is needed.
    kept  text[] := ARRAY(
        SELECT p.queue
        FROM redrive.protected_letters(due.policy -> 'letters', format(
            'l.state = ''open'' AND l.payload IS NOT NULL AND l.redacted IS NULL AND l.generation < (%L)::integer',
            due.policy ->> 'generations')) p
        WHERE p.letters > p.approve_above OR NOT redrive.may_redrive(due.policy ->> 'role', p.roles));
BEGIN
    EXECUTE
        'SELECT array_agg(d.id) FROM ('
        ' SELECT l.id FROM redrive.dead_letters l'
        ' WHERE l.state = ''open'' AND l.payload IS NOT NULL AND l.redacted IS NULL'
        -- A diverted letter never ran. It goes as often as the one that it waits for.
        '    AND CASE WHEN l.cause = ''diverted'' THEN NOT EXISTS ('
        '            SELECT FROM redrive.group_slots s JOIN redrive.dead_letters f ON f.id = s.job_id'
        '            WHERE s.queue = l.queue AND s.group_key = l.group_key AND s.held_at IS NOT NULL'
        '                AND (f.state = ''quarantined'' OR f.cause <> ''diverted'' AND f.generation >= $2))'
        '        ELSE l.generation < $2 END'
        '    AND ($4 <= 1 OR l.generation = 0'
        '         OR l.died_at <= $7 - redrive.policy_wait($3, $4, l.generation))'
        '    AND l.queue <> ALL ($5) AND (l.claimed_until IS NULL OR l.claimed_until <= statement_timestamp())'
        -- Letters that cannot be sent would take the places of others at every tick.
        '    AND (l.unique_key IS NULL OR NOT EXISTS ('
        '        SELECT FROM redrive.unique_keys k WHERE k.queue = l.queue'
        '            AND k.key = redrive.retaken_key(l.id, l.queue, NULL, l.group_key, l.unique_key)))'
        '    AND ' || redrive.filter_letters(due.policy -> 'letters') ||
        ' ORDER BY ' || redrive.redrive_order(due.policy -> 'letters') || ' LIMIT $6'
        || CASE WHEN (due.policy ->> 'counts_only')::boolean THEN '' ELSE ' FOR UPDATE SKIP LOCKED' END || ') d'
        INTO found
        USING due.policy -> 'letters', (due.policy ->> 'generations')::integer, coalesce(due.every, '1 hour'),
              (due.policy ->> 'growth')::double precision,
              kept || redrive.held_queues(),
              (due.policy ->> 'batch')::integer, tick;
    RETURN coalesce(found, '{}');
END
$$;

-- Redrives the letters of a policy that are due at a tick, or counts them, and writes the history. Returns their number.
CREATE OR REPLACE FUNCTION redrive.run_policy(
    due redrive.schedules, tick timestamptz, outcome text, person text DEFAULT NULL, reason text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    counts_only CONSTANT boolean := (due.policy ->> 'counts_only')::boolean;
    ids         bigint[] := redrive.due_letters(due, tick);
    letters     bigint := cardinality(ids);
BEGIN
    IF NOT counts_only AND letters > 0 THEN
        SELECT count(*) INTO letters
        FROM redrive.send_back(ids, redrive.act_event('redriven', 'policy ' || due.name, NULL), policy_id => due.id) b
        WHERE b.result = 'sent';
    END IF;
    IF letters > 0 THEN
        PERFORM redrive.record_act(
            'policy', person, reason, due.policy -> 'letters', CASE WHEN counts_only THEN 0 ELSE letters END,
            jsonb_build_object('policy', due.name, 'letters', letters));
    END IF;
    INSERT INTO redrive.schedule_ticks (schedule, tick_at, outcome, letters)
    VALUES (due.name, tick, CASE WHEN counts_only THEN 'counted' ELSE run_policy.outcome END, letters);
    PERFORM redrive.forget_ticks(due.name);
    RETURN letters;
END
$$;

-- Returns those of the oldest open letters of each queue that policies will redrive.
CREATE OR REPLACE FUNCTION redrive.letters_with_policy(queues text[], each_queue bigint) RETURNS SETOF bigint
    LANGUAGE plpgsql STABLE
AS $$
DECLARE
    policy jsonb;
BEGIN
    FOR policy IN
        SELECT s.policy FROM redrive.schedules s
        WHERE s.paused_at IS NULL AND NOT (s.policy ->> 'counts_only')::boolean
    LOOP
        RETURN QUERY EXECUTE
            'SELECT l.id FROM unnest($2) AS q (queue) CROSS JOIN LATERAL ('
            ' SELECT k.* FROM redrive.dead_letters k WHERE k.state = ''open'' AND k.queue = q.queue'
            ' ORDER BY k.died_at LIMIT $3) l'
            ' WHERE l.payload IS NOT NULL AND l.redacted IS NULL AND l.generation < $4 AND '
            || redrive.filter_letters(policy -> 'letters')
            USING policy -> 'letters', queues, each_queue, (policy ->> 'generations')::integer;
    END LOOP;
END
$$;
