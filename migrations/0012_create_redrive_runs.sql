-- Purpose: the way back: the one function that sends letters back, redrive and discard as SQL
--          functions, and redrive runs: that as a durable operation under a fence.
-- Locks: dead_letters, for a trigger, for a moment.
-- Safe under running workers of the previous version: yes.
-- breaking: no

-- A redrive run: whom it moves is frozen in `run_letters` when it is made, and whoever drives it
-- moves the cursor over them. The driver is the one whose term it is; a step of anybody else is
-- refused. `recovered` and the two after it are totals of `run_deltas` that were folded in, and so
-- are `cursor`, `sent` and `skipped` of a run in stretches; read them through the view `runs`.
CREATE TABLE redrive.redrive_runs (
    id                bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    state             text        COLLATE "C" NOT NULL DEFAULT 'running'
        CHECK (state IN ('running', 'paused', 'halted', 'cancelled', 'finished')),
    filter            jsonb       NOT NULL,
    person            text,
    why               text,
    forced            boolean     NOT NULL DEFAULT false,
    to_queue          redrive.name,
    priority          smallint    CHECK (priority BETWEEN -1000 AND 1000),
    max_attempts      integer     CHECK (max_attempts BETWEEN 1 AND 1000),
    rate              integer     CHECK (rate BETWEEN 1 AND 1000000),
    canary            bigint      NOT NULL DEFAULT 0 CHECK (canary >= 0),
    stage             integer     NOT NULL DEFAULT 0 CHECK (stage >= 0),
    stage_to          bigint,
    stage_sent        bigint      NOT NULL DEFAULT 0,
    stage_recovered   bigint      NOT NULL DEFAULT 0,
    stage_died        bigint      NOT NULL DEFAULT 0,
    driver            uuid,
    driver_expires_at timestamptz,
    term              bigint      NOT NULL DEFAULT 0,
    next_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    total             bigint      NOT NULL DEFAULT 0,
    cursor            bigint      NOT NULL DEFAULT 0 CHECK (cursor BETWEEN 0 AND total),
    sweeps            smallint    NOT NULL DEFAULT 0,
    sent              bigint      NOT NULL DEFAULT 0,
    skipped           bigint      NOT NULL DEFAULT 0,
    recovered         bigint      NOT NULL DEFAULT 0,
    died_alike        bigint      NOT NULL DEFAULT 0,
    died_differently  bigint      NOT NULL DEFAULT 0,
    halted_because    text,
    created_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at        timestamptz,
    ended_at          timestamptz,
    CONSTRAINT runs_halted_say_why CHECK ((state = 'halted') <= (halted_because IS NOT NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

COMMENT ON COLUMN redrive.redrive_runs.rate IS 'Letters a second; NULL: as fast as it goes.';
COMMENT ON COLUMN redrive.redrive_runs.canary IS 'How many go first and alone; 0: no canary, no ramp, no halt by itself.';
COMMENT ON COLUMN redrive.redrive_runs.stage_to IS 'Up to which member the stage goes; NULL: to the end.';
COMMENT ON COLUMN redrive.redrive_runs.stage_sent IS 'What `sent` was when the stage began; the two below likewise.';
COMMENT ON COLUMN redrive.redrive_runs.term IS 'The fence: it grows with each driver, and only a step of this term counts.';
COMMENT ON COLUMN redrive.redrive_runs.next_at IS 'When the next letter is due, by the rate.';
COMMENT ON COLUMN redrive.redrive_runs.cursor IS 'The last member that was tried; of a run in stretches, how many were.';
COMMENT ON COLUMN redrive.redrive_runs.sweeps IS 'How often the members that somebody had locked were tried again.';

CREATE INDEX redrive_runs_running ON redrive.redrive_runs (next_at) WHERE state = 'running';

-- The members of a run, oldest death first. A member without an outcome waits behind the cursor,
-- or is a live job before it.
CREATE TABLE redrive.run_letters (
    run_id    bigint NOT NULL,
    ordinal   bigint NOT NULL,
    letter_id bigint NOT NULL,
    outcome   text   COLLATE "C" CHECK (outcome IN (
        'recovered', 'died_alike', 'died_differently', 'skipped_gone', 'skipped_not_open',
        'skipped_quarantined', 'skipped_no_json', 'skipped_conflict', 'skipped_locked')),
    PRIMARY KEY (run_id, ordinal)
) WITH (fillfactor = 55, autovacuum_vacuum_scale_factor = 0.1);

-- The members of a run that goes as fast as it can, in stretches, which its driver sends over
-- several connections at once. Who sends holds the row of the stretch, and moves its cursor or
-- deletes it in the transaction of the letters: a driver that dies leaves the stretch as it was.
CREATE TABLE redrive.run_stretches (
    run_id bigint NOT NULL,
    upto   bigint NOT NULL,
    cursor bigint NOT NULL,
    PRIMARY KEY (run_id, upto),
    CONSTRAINT stretches_have_a_member_left CHECK (cursor < upto)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

COMMENT ON COLUMN redrive.run_stretches.upto IS 'The last member of the stretch.';
COMMENT ON COLUMN redrive.run_stretches.cursor IS 'The last one that was tried.';

-- What changed in the numbers of a run: inserted with each settle, and with each step in a stretch,
-- so that two of them never wait for each other; folded into `redrive_runs` by whoever drives.
CREATE TABLE redrive.run_deltas (
    run_id           bigint NOT NULL,
    tried            bigint NOT NULL DEFAULT 0,
    sent             bigint NOT NULL DEFAULT 0,
    skipped          bigint NOT NULL DEFAULT 0,
    recovered        bigint NOT NULL DEFAULT 0,
    died_alike       bigint NOT NULL DEFAULT 0,
    died_differently bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX run_deltas_by_run ON redrive.run_deltas (run_id);

-- The outcome of a member, in the statement that ends its job. A member has none as long as its
-- letter is redriving, so the first other state is the outcome. `alike` was set by `reopen`.
CREATE FUNCTION redrive.tell_runs() RETURNS trigger
    LANGUAGE plpgsql
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM became b WHERE b.run_id IS NOT NULL AND b.state <> 'redriving') THEN
        RETURN NULL;
    END IF;
    WITH told AS (
        UPDATE redrive.run_letters m
        SET outcome = CASE
            WHEN b.state = 'recovered' THEN 'recovered'
            WHEN b.alike > 0 THEN 'died_alike'
            ELSE 'died_differently'
        END
        FROM became b
        WHERE b.run_id IS NOT NULL AND b.state <> 'redriving'
            AND m.run_id = b.run_id AND m.ordinal = b.run_ordinal AND m.outcome IS NULL
        RETURNING m.run_id, m.outcome
    )
    INSERT INTO redrive.run_deltas (run_id, recovered, died_alike, died_differently)
    SELECT t.run_id, count(*) FILTER (WHERE t.outcome = 'recovered'),
           count(*) FILTER (WHERE t.outcome = 'died_alike'),
           count(*) FILTER (WHERE t.outcome = 'died_differently')
    FROM told t
    GROUP BY t.run_id;
    RETURN NULL;
END
$$;

CREATE TRIGGER tell_runs AFTER UPDATE ON redrive.dead_letters
    REFERENCING NEW TABLE AS became FOR EACH STATEMENT EXECUTE FUNCTION redrive.tell_runs();

CREATE VIEW redrive.runs AS
    SELECT r.id, r.state, r.filter, r.person, r.why, r.forced, r.to_queue::text AS to_queue, r.priority,
           r.max_attempts, r.rate, r.canary, r.stage, r.stage_to, r.driver,
           coalesce(r.driver_expires_at > statement_timestamp(), false) AS is_driven,
           r.total, r.cursor + coalesce(n.tried, 0) AS cursor, r.sent + coalesce(n.sent, 0) AS sent,
           r.skipped + coalesce(n.skipped, 0) AS skipped,
           r.recovered + coalesce(n.recovered, 0) AS recovered,
           r.died_alike + coalesce(n.died_alike, 0) AS died_alike,
           r.died_differently + coalesce(n.died_differently, 0) AS died_differently,
           r.sent - r.recovered - r.died_alike - r.died_differently
               + coalesce(n.sent - n.recovered - n.died_alike - n.died_differently, 0) AS still_running,
           r.halted_because, r.created_at, r.started_at, r.ended_at
    FROM redrive.redrive_runs r
    LEFT JOIN LATERAL (
        SELECT sum(d.tried)::bigint AS tried, sum(d.sent)::bigint AS sent, sum(d.skipped)::bigint AS skipped,
               sum(d.recovered)::bigint AS recovered, sum(d.died_alike)::bigint AS died_alike,
               sum(d.died_differently)::bigint AS died_differently
        FROM redrive.run_deltas d
        WHERE d.run_id = r.id
    ) n ON true;

COMMENT ON VIEW redrive.runs IS 'Redrive runs with exact numbers: recovered, died again alike, died differently, still running.';

-- Checks what redrive and runs take from people.
CREATE FUNCTION redrive.check_redrive(
    to_queue text, priority integer, max_attempts integer, forced boolean, why text
) RETURNS void
    LANGUAGE plpgsql IMMUTABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF to_queue IS NOT NULL THEN
        PERFORM redrive.check_name('queue', to_queue);
    END IF;
    IF priority NOT BETWEEN -1000 AND 1000 THEN
        RAISE EXCEPTION 'redrive: the priority % is not between -1000 and 1000', priority
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF max_attempts NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'redrive: max_attempts % is not between 1 and 1000', max_attempts
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF forced IS NULL OR forced AND coalesce(btrim(why, E' \t\r\n'), '') = '' THEN
        RAISE EXCEPTION 'redrive: to force quarantined letters back needs a reason'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;

-- The only place that sends letters back: each becomes a job with the same id, the next
-- generation and a fresh budget of attempts, and the letter, which keeps the history of the
-- generations before, changes only with its job. Answers what became of those it held: `sent`, or `conflict` (another job holds its key).
-- Ids that are not answered were not to be had: `refused_letters` tells why.
--
-- Open letters with JSON; quarantined ones too when forced. A letter that somebody else has locked
-- is left alone, so that nobody waits and nothing deadlocks. `ordinals`, beside `ids`: the members
-- of a run.
CREATE FUNCTION redrive.send_back(
    ids          bigint[],
    event        jsonb,
    to_queue     text     DEFAULT NULL,
    priority     integer  DEFAULT NULL,
    max_attempts integer  DEFAULT NULL,
    forced       boolean  DEFAULT false,
    run_id       bigint   DEFAULT NULL,
    ordinals     bigint[] DEFAULT NULL,
    policy_id    bigint   DEFAULT NULL
) RETURNS TABLE (id bigint, ordinal bigint, what text)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
    -- The join over the arrays must go by the primary key, whatever the statistics say.
    SET enable_seqscan = off
    SET enable_hashjoin = off
    SET enable_mergejoin = off
    SET jit = off
    -- A batch of letters passes through it three times.
    SET work_mem = '32MB'
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH held AS MATERIALIZED (
        SELECT l.id, a.ordinal, l.unique_key, l.died_at, coalesce(send_back.to_queue, l.queue::text) AS queue
        FROM unnest(send_back.ids, send_back.ordinals) AS a (id, ordinal)
        JOIN redrive.dead_letters l ON l.id = a.id
        WHERE (l.state = 'open' OR send_back.forced AND l.state = 'quarantined') AND l.payload IS NOT NULL
        FOR UPDATE OF l SKIP LOCKED
    ),
    -- A letter with a unique key takes it again; when a live job has it, the letter stays open.
    keyed AS (
        INSERT INTO redrive.unique_keys (queue, key, job_id)
        SELECT h.queue, h.unique_key, h.id
        FROM held h
        WHERE h.unique_key IS NOT NULL
        -- In one order, so that two operators cannot wait for each other.
        ORDER BY h.queue, h.unique_key, h.died_at, h.id
        ON CONFLICT DO NOTHING
        RETURNING job_id
    ),
    redriving AS (
        UPDATE redrive.dead_letters l
        SET state = 'redriving', changed_at = clock_timestamp(),
            -- Not coalesce: its result would be checked against the domain, letter by letter.
            queue = CASE WHEN send_back.to_queue IS NULL THEN l.queue ELSE send_back.to_queue::redrive.name END,
            run_id = send_back.run_id, run_ordinal = h.ordinal, policy_id = send_back.policy_id,
            events = redrive.tell(l.events, send_back.event)
        FROM held h
        WHERE l.id = h.id AND (h.unique_key IS NULL OR h.id IN (SELECT k.job_id FROM keyed k))
        RETURNING l.id, h.ordinal, l.queue, l.kind, l.payload, l.priority, l.max_attempts,
                  l.generation, l.enqueued_at, l.unique_key
    ),
    ready AS (
        INSERT INTO redrive.jobs
            (segment, id, enqueued_at, max_attempts, generation, priority, queue, kind, payload, unique_key)
        SELECT (SELECT r.segment FROM redrive.ring r), d.id, d.enqueued_at,
               coalesce(send_back.max_attempts, d.max_attempts), d.generation + 1,
               coalesce(send_back.priority, d.priority), d.queue, d.kind, d.payload, d.unique_key
        FROM redriving d
        RETURNING queue
    ),
    woken AS MATERIALIZED (
        SELECT redrive.wake(q.queue) FROM (SELECT DISTINCT y.queue FROM ready y) q
    )
    SELECT d.id, d.ordinal, 'sent' FROM redriving d WHERE (SELECT count(*) FROM woken) >= 0
    UNION ALL
    SELECT h.id, h.ordinal, 'conflict' FROM held h
    WHERE h.unique_key IS NOT NULL AND h.id NOT IN (SELECT k.job_id FROM keyed k);
END
$$;

-- Why letters of these ids were not sent back: `gone`, `not_open` (being redriven, recovered or
-- discarded), `quarantined` (needs force), `no_json` (captured bytes that are not JSON), or
-- `locked`: nothing is wrong with it, somebody else had it in hand.
CREATE FUNCTION redrive.refused_letters(ids bigint[], forced boolean DEFAULT false, to_queue text DEFAULT NULL)
    RETURNS TABLE (id bigint, what text)
    LANGUAGE sql STABLE
    SET search_path = pg_catalog, pg_temp
    SET enable_seqscan = off
    SET enable_hashjoin = off
    SET enable_mergejoin = off
AS $$
    SELECT a.id, CASE
        WHEN l.id IS NULL THEN 'gone'
        WHEN l.state = 'quarantined' AND NOT refused_letters.forced THEN 'quarantined'
        WHEN l.state NOT IN ('open', 'quarantined') THEN 'not_open'
        WHEN l.payload IS NULL THEN 'no_json'
        WHEN l.unique_key IS NOT NULL AND EXISTS (
            SELECT FROM redrive.unique_keys k
            WHERE k.queue = coalesce(refused_letters.to_queue, l.queue::text) AND k.key = l.unique_key
        ) THEN 'conflict'
        ELSE 'locked'
    END
    FROM unnest(refused_letters.ids) AS a (id)
    LEFT JOIN redrive.dead_letters l ON l.id = a.id
$$;

-- Sends back up to `most` letters that a filter means, the oldest death first, and writes the
-- audit, in the caller's transaction. `passed`: letters that were tried and refused before.
-- Answers what became of each that was tried.
CREATE FUNCTION redrive.redrive_letters(
    filter jsonb, as_of timestamptz, most bigint, passed bigint[], why text, person text,
    to_queue text, priority integer, max_attempts integer, forced boolean
) RETURNS TABLE (id bigint, what text)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    chosen bigint[];
    tried  bigint[];
    became text[];
    sent   bigint := 0;
    event  jsonb := jsonb_strip_nulls(jsonb_build_object(
        'at', clock_timestamp(), 'event', CASE WHEN forced THEN 'forced' ELSE 'redriven' END,
        'by', coalesce(person, session_user), 'why', nullif(why, ''), 'queue', to_queue));
BEGIN
    PERFORM redrive.check_redrive(to_queue, priority, max_attempts, forced, why);
    chosen := ARRAY(
        SELECT c FROM redrive.lock_letters(
            redrive_letters.filter, CASE WHEN forced THEN '{open,quarantined}'::text[] ELSE '{open}' END,
            as_of, most + cardinality(passed), true) AS c
        WHERE c <> ALL (passed)
        LIMIT most);
    FOR from_place IN 1..cardinality(chosen) BY 5000 LOOP
        SELECT array_agg(b.id), array_agg(b.what), sent + count(*) FILTER (WHERE b.what = 'sent')
        INTO tried, became, sent
        FROM redrive.send_back(
            chosen[from_place:from_place + 4999], event, to_queue, priority, max_attempts, forced) b;
        RETURN QUERY SELECT * FROM unnest(tried, became);
    END LOOP;
    IF sent > 0 THEN
        PERFORM redrive.record_act('redrive', person, why, redrive_letters.filter, sent,
            jsonb_strip_nulls(jsonb_build_object('to', to_queue, 'priority', priority,
                'max_attempts', max_attempts, 'forced', nullif(forced, false))));
    END IF;
END
$$;

-- Sends back the open letters that a filter means, all in the caller's transaction; answers how
-- many. `force` takes quarantined letters too, and needs `why`.
CREATE FUNCTION redrive.redrive(
    filter       jsonb,
    why          text    DEFAULT NULL,
    person       text    DEFAULT NULL,
    to_queue     text    DEFAULT NULL,
    priority     integer DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    force        boolean DEFAULT false,
    most         bigint  DEFAULT NULL
) RETURNS bigint
    LANGUAGE sql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT count(*) FILTER (WHERE r.what = 'sent')
    FROM redrive.redrive_letters($1, statement_timestamp(), coalesce($8, 9223372036854775807), '{}',
                                 $2, $3, $4, $5, $6, $7) r
$$;

-- Closes up to `most` open or quarantined letters that a filter means, and writes the audit, in
-- the caller's transaction. Answers their ids.
CREATE FUNCTION redrive.discard_letters(
    filter jsonb, as_of timestamptz, most bigint, why text, person text
) RETURNS SETOF bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    chosen bigint[];
    event  jsonb := jsonb_build_object('at', clock_timestamp(), 'event', 'discarded',
        'by', coalesce(person, session_user), 'why', why);
BEGIN
    IF coalesce(btrim(why, E' \t\r\n'), '') = '' THEN
        RAISE EXCEPTION 'redrive: a discard needs a reason' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    chosen := ARRAY(SELECT c FROM redrive.lock_letters(
        discard_letters.filter, '{open,quarantined}', as_of, most) AS c);
    IF cardinality(chosen) = 0 THEN
        RETURN;
    END IF;
    UPDATE redrive.dead_letters l
    SET state = 'discarded', discard_reason = redrive.clip(discard_letters.why, 1024),
        changed_at = clock_timestamp(), events = redrive.tell(l.events, event)
    WHERE l.id = ANY (chosen);
    PERFORM redrive.record_act('discard', person, why, discard_letters.filter, cardinality(chosen));
    RETURN QUERY SELECT unnest(chosen);
END
$$;

-- Closes the open and quarantined letters that a filter means for good, all in the caller's
-- transaction; answers how many.
CREATE FUNCTION redrive.discard(filter jsonb, why text, person text DEFAULT NULL, most bigint DEFAULT NULL)
    RETURNS bigint
    LANGUAGE sql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
    SELECT count(*)
    FROM redrive.discard_letters($1, statement_timestamp(), coalesce($4, 9223372036854775807), $2, $3) d
$$;

-- Where the letters that a filter means would go and nobody serves: no live worker of that queue,
-- or none that handles that kind.
CREATE FUNCTION redrive.unserved_letters(filter jsonb, to_queue text DEFAULT NULL, forced boolean DEFAULT false)
    RETURNS TABLE (queue text, kind text, letters bigint)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT g.queue, g.kind, g.letters FROM ('
        ' SELECT coalesce($2, l.queue::text) AS queue, l.kind::text AS kind, count(*) AS letters'
        ' FROM redrive.dead_letters l'
        ' WHERE (l.state = ''open'' OR $3 AND l.state = ''quarantined'') AND l.payload IS NOT NULL AND '
        || redrive.filter_letters(filter) || ' GROUP BY 1, 2) g'
        ' WHERE NOT EXISTS (SELECT FROM redrive.workers w WHERE w.queue = g.queue'
        '  AND w.expires_at > statement_timestamp() AND (w.kinds IS NULL OR g.kind = ANY (w.kinds)))'
        ' ORDER BY g.letters DESC, g.queue, g.kind'
        USING filter, to_queue, forced;
END
$$;

-- What a redrive of a filter would send back, by failure group, the largest first.
CREATE FUNCTION redrive.preview_redrive(filter jsonb, forced boolean DEFAULT false)
    RETURNS TABLE (group_id bigint, queue text, kind text, error_class text, title text, letters bigint)
    LANGUAGE plpgsql STABLE
    SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY EXECUTE
        'SELECT n.group_id, g.queue::text, g.kind::text, g.error_class, g.title, n.letters FROM ('
        ' SELECT l.group_id, count(*) AS letters FROM redrive.dead_letters l'
        ' WHERE (l.state = ''open'' OR $2 AND l.state = ''quarantined'') AND l.payload IS NOT NULL AND '
        || redrive.filter_letters(filter) || ' GROUP BY 1) n'
        ' JOIN redrive.groups g ON g.id = n.group_id ORDER BY n.letters DESC, n.group_id'
        USING filter, forced;
END
$$;

-- Makes a run over the letters that a filter means now, at most `most` of them, and writes the
-- audit. Answers its id and how many letters it has; no letter, no run: NULL and 0. With a
-- `driver` it is driven by that one from the beginning, else by whoever finds it.
CREATE FUNCTION redrive.create_run(
    filter       jsonb,
    why          text    DEFAULT NULL,
    person       text    DEFAULT NULL,
    to_queue     text    DEFAULT NULL,
    priority     integer DEFAULT NULL,
    max_attempts integer DEFAULT NULL,
    force        boolean DEFAULT false,
    most         bigint  DEFAULT NULL,
    rate         integer DEFAULT 100,
    canary       bigint  DEFAULT 0,
    driver       uuid    DEFAULT NULL,
    lease_ms     integer DEFAULT 10000,
    OUT id       bigint,
    OUT letters  bigint
)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    PERFORM redrive.check_redrive(create_run.to_queue, create_run.priority, create_run.max_attempts,
                                  force, create_run.why);
    IF create_run.rate NOT BETWEEN 1 AND 1000000 THEN
        RAISE EXCEPTION 'redrive: the rate % is not between 1 and 1000000 a second', create_run.rate
            USING ERRCODE = 'invalid_parameter_value', HINT = 'NULL means as fast as it goes.';
    END IF;
    IF create_run.canary IS NULL OR create_run.canary < 0 THEN
        RAISE EXCEPTION 'redrive: the canary % is not a number of letters', create_run.canary
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    create_run.id := nextval(pg_get_serial_sequence('redrive.redrive_runs', 'id'));
    EXECUTE
        'INSERT INTO redrive.run_letters (run_id, ordinal, letter_id)'
        ' SELECT $2, row_number() OVER (ORDER BY l.died_at, l.id), l.id FROM redrive.dead_letters l'
        ' WHERE (l.state = ''open'' OR $4 AND l.state = ''quarantined'') AND '
        || redrive.filter_letters(create_run.filter) ||
        ' ORDER BY l.died_at, l.id LIMIT $3'
        USING create_run.filter, create_run.id, create_run.most, force;
    GET DIAGNOSTICS letters = ROW_COUNT;
    IF letters = 0 THEN
        create_run.id := NULL;
        RETURN;
    END IF;
    INSERT INTO redrive.redrive_runs
        (id, filter, person, why, forced, to_queue, priority, max_attempts, rate, canary, stage_to,
         driver, driver_expires_at, term, total)
    OVERRIDING SYSTEM VALUE VALUES
        (create_run.id, create_run.filter, left(create_run.person, 200), left(create_run.why, 1024), force,
         create_run.to_queue, create_run.priority, create_run.max_attempts, create_run.rate,
         create_run.canary, nullif(create_run.canary, 0), create_run.driver,
         CASE WHEN create_run.driver IS NOT NULL
             THEN clock_timestamp() + lease_ms * interval '1 millisecond' END,
         CASE WHEN create_run.driver IS NOT NULL THEN 1 ELSE 0 END, letters);
    IF create_run.rate IS NULL AND create_run.canary = 0 THEN
        INSERT INTO redrive.run_stretches (run_id, upto, cursor)
        SELECT create_run.id, least(s.before + 5000, letters), s.before
        FROM generate_series(0, letters - 1, 5000) AS s (before);
    END IF;
    PERFORM redrive.record_act('create_run', create_run.person, create_run.why, create_run.filter, 0,
        jsonb_strip_nulls(jsonb_build_object('run', create_run.id, 'members', letters,
            'to', create_run.to_queue, 'priority', create_run.priority,
            'max_attempts', create_run.max_attempts, 'rate', create_run.rate,
            'canary', nullif(create_run.canary, 0), 'forced', nullif(force, false))));
END
$$;

-- Makes the caller the driver of a run that runs and that nobody drives; NULL for the run: of any.
-- Answers the run and the term, or NULL.
CREATE FUNCTION redrive.take_run(
    wanted bigint, new_driver uuid, lease_ms integer, OUT id bigint, OUT term bigint
)
    LANGUAGE sql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
    UPDATE redrive.redrive_runs r
    SET driver = new_driver, term = r.term + 1,
        driver_expires_at = clock_timestamp() + lease_ms * interval '1 millisecond'
    WHERE r.id = (
        SELECT c.id FROM redrive.redrive_runs c
        WHERE c.state = 'running' AND (wanted IS NULL OR c.id = wanted)
            AND (c.driver IS NULL OR c.driver = new_driver OR c.driver_expires_at < statement_timestamp())
        ORDER BY c.next_at, c.id
        LIMIT 1
        FOR UPDATE SKIP LOCKED)
    RETURNING r.id, r.term
$$;

-- Sends these members of a run back, notes why others were not, and writes the audit. Answers how
-- many went.
CREATE FUNCTION redrive.send_members(r redrive.redrive_runs, ids bigint[], ordinals bigint[]) RETURNS bigint
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    gone_ids bigint[];
    gone_at  bigint[];
    sent     bigint;
BEGIN
    SELECT coalesce(array_agg(b.id), '{}'), coalesce(array_agg(b.ordinal), '{}')
    INTO gone_ids, gone_at
    FROM redrive.send_back(
        ids, jsonb_strip_nulls(jsonb_build_object(
            'at', clock_timestamp(), 'event', CASE WHEN r.forced THEN 'forced' ELSE 'redriven' END,
            'by', coalesce(r.person, session_user), 'why', nullif(r.why, ''),
            'run', r.id, 'queue', r.to_queue)),
        r.to_queue, r.priority, r.max_attempts, r.forced, r.id, ordinals) b
    WHERE b.what = 'sent';
    sent := cardinality(gone_ids);
    IF sent < cardinality(ids) THEN
        -- An EXCEPT is hashed or sorted; a join of two arrays might be nested loops.
        UPDATE redrive.run_letters m
        SET outcome = 'skipped_' || f.what
        FROM (
            SELECT x.ordinal, (redrive.refused_letters(ARRAY[x.id], r.forced, r.to_queue)).what
            FROM (
                SELECT * FROM unnest(ids, ordinals) AS a (id, ordinal)
                EXCEPT
                SELECT * FROM unnest(gone_ids, gone_at) AS g (id, ordinal)
            ) x
        ) f
        WHERE m.run_id = r.id AND m.ordinal = f.ordinal;
    END IF;
    IF sent > 0 THEN
        PERFORM redrive.record_act('redrive', r.person, r.why, r.filter, sent, jsonb_build_object('run', r.id));
    END IF;
    RETURN sent;
END
$$;

-- One step in a stretch that nobody else is at, by the driver of the run, which may be at several
-- stretches at once. It locks the row of the run only against those who would end the term (a pause,
-- a cancel, another driver), and they wait for it; then the row of the stretch. The letters, their
-- jobs, the cursor of the stretch, the numbers and the audit move together or not at all.
--
-- `what`: `lost`, or the state of the run when it does not run; `sent`; or `busy`: this driver is
-- at all stretches already.
CREATE FUNCTION redrive.drive_stretch(
    run bigint, my_driver uuid, my_term bigint, lease_ms integer, most bigint,
    OUT what text, OUT sent_now bigint
)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    r        redrive.redrive_runs;
    mine     redrive.run_stretches;
    until    bigint;
    ids      bigint[];
    ordinals bigint[];
BEGIN
    sent_now := 0;
    SELECT c.* INTO r FROM redrive.redrive_runs c WHERE c.id = run FOR KEY SHARE;
    IF NOT FOUND OR r.driver IS DISTINCT FROM my_driver OR r.term <> my_term OR r.state <> 'running' THEN
        what := CASE WHEN r.state = 'running' OR r.id IS NULL THEN 'lost' ELSE r.state END;
        RETURN;
    END IF;
    SELECT s.* INTO mine FROM redrive.run_stretches s
    WHERE s.run_id = run
    ORDER BY s.upto LIMIT 1
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        what := 'busy';
        RETURN;
    END IF;
    until := least(mine.cursor + most, mine.upto);
    IF until = mine.upto THEN
        DELETE FROM redrive.run_stretches s WHERE s.run_id = run AND s.upto = mine.upto;
    ELSE
        UPDATE redrive.run_stretches s SET cursor = until WHERE s.run_id = run AND s.upto = mine.upto;
    END IF;
    SELECT coalesce(array_agg(m.letter_id ORDER BY m.ordinal), '{}'), coalesce(array_agg(m.ordinal ORDER BY m.ordinal), '{}')
    INTO ids, ordinals
    FROM redrive.run_letters m
    WHERE m.run_id = run AND m.ordinal > mine.cursor AND m.ordinal <= until;
    sent_now := redrive.send_members(r, ids, ordinals);
    INSERT INTO redrive.run_deltas (run_id, tried, sent, skipped)
    VALUES (run, until - mine.cursor, sent_now, until - mine.cursor - sent_now);

    -- Whoever writes the row of the run has it first, so that two never wait for each other.
    PERFORM FROM redrive.redrive_runs c
    WHERE c.id = run
        AND (c.started_at IS NULL OR c.driver_expires_at < clock_timestamp() + lease_ms * interval '0.5 milliseconds')
    FOR NO KEY UPDATE SKIP LOCKED;
    IF FOUND THEN
        UPDATE redrive.redrive_runs c
        SET started_at = coalesce(c.started_at, clock_timestamp()),
            driver_expires_at = clock_timestamp() + lease_ms * interval '1 millisecond'
        WHERE c.id = run;
    END IF;
    PERFORM FROM redrive.run_deltas d WHERE d.run_id = run OFFSET 199 LIMIT 1;
    IF FOUND THEN
        PERFORM FROM redrive.redrive_runs c WHERE c.id = run FOR NO KEY UPDATE SKIP LOCKED;
    END IF;
    IF FOUND THEN
        WITH folded AS (
            DELETE FROM redrive.run_deltas d WHERE d.run_id = run RETURNING d.*
        )
        UPDATE redrive.redrive_runs c
        SET cursor = c.cursor + n.tried, sent = c.sent + n.sent, skipped = c.skipped + n.skipped,
            recovered = c.recovered + n.recovered, died_alike = c.died_alike + n.died_alike,
            died_differently = c.died_differently + n.died_differently
        FROM (
            SELECT coalesce(sum(f.tried), 0) AS tried, coalesce(sum(f.sent), 0) AS sent,
                   coalesce(sum(f.skipped), 0) AS skipped, coalesce(sum(f.recovered), 0) AS recovered,
                   coalesce(sum(f.died_alike), 0) AS died_alike,
                   coalesce(sum(f.died_differently), 0) AS died_differently
            FROM folded f
        ) n
        WHERE c.id = run;
    END IF;
    what := 'sent';
END
$$;

-- One step of a run, by its driver: what the driver decided after the step before (halt, or the
-- next stage), then the letters that are due by the rate, at most `most`. It is one transaction
-- under the lock of the run's row: the letters, their jobs, the cursor, the numbers and the audit
-- move together or not at all, and a driver whose term is over moves nothing.
--
-- `what`: `lost` (another one drives, or the run is gone), the state of the run when it does not
-- run, `sent`, `waiting`, or `busy`; see drive_stretch for that. `wait_ms`: how long until there may
-- be something to do. `stretches`: how many are left, of which another connection of the driver may
-- take one; 2 at most are counted.
CREATE FUNCTION redrive.drive_run(
    run bigint, my_driver uuid, my_term bigint, lease_ms integer, most bigint,
    halt text, next_stage integer, next_stage_to bigint,
    OUT what text, OUT wait_ms bigint, OUT sent_now bigint,
    OUT canary bigint, OUT stage integer, OUT stage_to bigint, OUT stage_sent bigint,
    OUT stage_recovered bigint, OUT stage_died bigint,
    OUT total bigint, OUT cursor bigint, OUT sent bigint, OUT skipped bigint, OUT recovered bigint,
    OUT died bigint, OUT stretches bigint
)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
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
    stretches := 0;
    -- Before any lock: of two that hold the run for a stretch neither could have it alone. A stretch
    -- that somebody has just finished is there until that is committed.
    IF EXISTS (SELECT FROM redrive.run_stretches s WHERE s.run_id = run) THEN
        SELECT d.what, d.sent_now INTO what, sent_now
        FROM redrive.drive_stretch(run, my_driver, my_term, lease_ms, most) d;
        IF what NOT IN ('sent', 'busy') THEN
            RETURN;
        END IF;
        canary := 0;
        stage := 0;
        stage_sent := 0;
        stage_recovered := 0;
        stage_died := 0;
        SELECT n.total, n.cursor, n.sent, n.skipped, n.recovered, n.died_alike + n.died_differently
        INTO total, cursor, sent, skipped, recovered, died
        FROM redrive.runs n WHERE n.id = run;
        stretches := (SELECT count(*) FROM (
            SELECT FROM redrive.run_stretches s WHERE s.run_id = run LIMIT 2) few);
        RETURN;
    END IF;
    SELECT c.* INTO r FROM redrive.redrive_runs c WHERE c.id = run FOR UPDATE;
    moment := clock_timestamp();
    IF NOT FOUND OR r.driver IS DISTINCT FROM my_driver OR r.term <> my_term THEN
        what := CASE WHEN r.state = 'running' OR r.id IS NULL THEN 'lost' ELSE r.state END;
        RETURN;
    END IF;

    WITH folded AS (
        DELETE FROM redrive.run_deltas d WHERE d.run_id = run RETURNING d.*
    )
    SELECT r.cursor + coalesce(sum(f.tried), 0), r.sent + coalesce(sum(f.sent), 0),
           r.skipped + coalesce(sum(f.skipped), 0),
           r.recovered + coalesce(sum(f.recovered), 0), r.died_alike + coalesce(sum(f.died_alike), 0),
           r.died_differently + coalesce(sum(f.died_differently), 0)
    INTO r.cursor, r.sent, r.skipped, r.recovered, r.died_alike, r.died_differently
    FROM folded f;

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
        bound := least(r.total, coalesce(r.stage_to, r.total));
        IF r.rate IS NULL THEN
            due := most;
        ELSE
            -- What is due by the rate; who comes late makes up for a second at most.
            r.next_at := greatest(r.next_at, moment - interval '1 second');
            due := floor(extract(epoch FROM moment - r.next_at) * r.rate) + 1;
            due := CASE WHEN r.next_at > moment THEN 0 ELSE least(due, most) END;
        END IF;

        IF r.cursor < bound AND due > 0 THEN
            SELECT array_agg(m.letter_id ORDER BY m.ordinal), array_agg(m.ordinal ORDER BY m.ordinal)
            INTO ids, ordinals
            FROM redrive.run_letters m
            WHERE m.run_id = run AND m.ordinal > r.cursor AND m.ordinal <= least(r.cursor + due, bound);
            r.cursor := least(r.cursor + due, bound);
        ELSIF r.cursor = r.total AND r.sweeps < 5 AND moment >= r.next_at THEN
            -- Those that somebody had locked, once more, a second apart.
            SELECT coalesce(array_agg(m.letter_id), '{}'), coalesce(array_agg(m.ordinal), '{}')
            INTO ids, ordinals
            FROM (
                SELECT o.letter_id, o.ordinal FROM redrive.run_letters o
                WHERE o.run_id = run AND o.outcome = 'skipped_locked'
                ORDER BY o.ordinal LIMIT most
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
        recovered = r.recovered, died_alike = r.died_alike, died_differently = r.died_differently,
        driver = CASE WHEN r.state = 'running' THEN r.driver END,
        driver_expires_at = CASE WHEN r.state = 'running'
            THEN clock_timestamp() + lease_ms * interval '1 millisecond' END
    WHERE c.id = run;

    what := CASE WHEN r.state <> 'running' THEN r.state WHEN cardinality(ids) > 0 THEN 'sent' ELSE 'waiting' END;
    canary := r.canary;
    stage := r.stage;
    stage_to := r.stage_to;
    stage_sent := r.stage_sent;
    stage_recovered := r.stage_recovered;
    stage_died := r.stage_died;
    total := r.total;
    cursor := r.cursor;
    sent := r.sent;
    skipped := r.skipped;
    recovered := r.recovered;
    died := r.died_alike + r.died_differently;
END
$$;

-- Pauses, resumes or cancels a run, and writes the audit. Answers the state it had, NULL when
-- there is no such run; a run that is over stays as it is. A run that halted by itself and is
-- resumed goes on with a new stage, so that what made it halt is not counted against it again.
CREATE FUNCTION redrive.change_run(
    run bigint, verb text, why text DEFAULT NULL, person text DEFAULT NULL, OUT was text, OUT became text
)
    LANGUAGE plpgsql VOLATILE
    SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    allowed text[];
BEGIN
    allowed := CASE verb
        WHEN 'pause' THEN '{running}'::text[]
        WHEN 'resume' THEN '{paused,halted}'::text[]
        WHEN 'cancel' THEN '{running,paused,halted}'::text[]
    END;
    IF allowed IS NULL THEN
        RAISE EXCEPTION 'redrive: % is not pause, resume or cancel', verb
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT r.state INTO was FROM redrive.redrive_runs r WHERE r.id = run FOR UPDATE;
    became := was;
    IF was IS NULL OR was <> ALL (allowed) THEN
        RETURN;
    END IF;
    became := CASE verb WHEN 'pause' THEN 'paused' WHEN 'resume' THEN 'running' ELSE 'cancelled' END;
    UPDATE redrive.redrive_runs r
    SET state = became, driver = NULL, driver_expires_at = NULL, term = r.term + 1,
        halted_because = NULL, ended_at = CASE verb WHEN 'cancel' THEN clock_timestamp() END,
        next_at = clock_timestamp(),
        stage = CASE was WHEN 'halted' THEN r.stage + 1 ELSE r.stage END,
        stage_to = CASE was WHEN 'halted' THEN r.cursor + r.canary ELSE r.stage_to END,
        stage_sent = CASE was WHEN 'halted' THEN r.sent ELSE r.stage_sent END,
        stage_recovered = CASE was WHEN 'halted' THEN n.recovered ELSE r.stage_recovered END,
        stage_died = CASE was WHEN 'halted' THEN n.died_alike + n.died_differently ELSE r.stage_died END
    FROM redrive.runs n
    WHERE r.id = run AND n.id = run;
    IF verb = 'cancel' THEN
        DELETE FROM redrive.run_stretches s WHERE s.run_id = run;
    END IF;
    PERFORM redrive.record_act(verb || '_run', person, why, NULL, 0, jsonb_build_object('run', run));
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
